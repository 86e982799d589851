// A client of MCP's TypeScript SDK, version 1, for frameworks that take one.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

export async function clientOf(endpoint) {
  const client = new Client({ name: "clerk", version: "1" }, { capabilities: endpoint.asks ? { elicitation: {} } : {} });
  if (endpoint.asks) {
    client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
      endpoint.questions.push(params.message);
      return { action: "accept", content: { approve: endpoint.agrees } };
    });
  }
  await client.connect(new StreamableHTTPClientTransport(new URL(endpoint.url), { requestInit: { headers: endpoint.headers } }));
  return client;
}

export async function toolsOf(client) {
  const tools = [];
  let cursor;
  do {
    const page = await client.listTools({ cursor });
    tools.push(...page.tools);
    cursor = page.nextCursor;
  } while (cursor);
  return tools;
}
