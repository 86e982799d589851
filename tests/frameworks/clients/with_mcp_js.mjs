// MCP's own TypeScript SDK.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { PATIENCE_MS, part, run } from "./client.mjs";

async function connect(endpoint) {
  const client = new Client({ name: "clerk", version: "1" }, { capabilities: endpoint.asks ? { elicitation: {} } : {} });
  if (endpoint.asks) {
    client.setRequestHandler("elicitation/create", async ({ params }) => {
      endpoint.questions.push(params.message);
      return { action: "accept", content: { approve: endpoint.agrees } };
    });
  }
  await client.connect(new StreamableHTTPClientTransport(new URL(endpoint.url), { requestInit: { headers: endpoint.headers } }));
  const { tools } = await client.listTools();
  return {
    schemas: Object.fromEntries(tools.map((tool) => [tool.name, tool.inputSchema])),
    async call(name, args, signal) {
      const result = await client.callTool({ name, arguments: args }, { timeout: PATIENCE_MS, signal });
      return [result.content.map(part), result.isError ?? false];
    },
    close: () => client.close(),
  };
}

await run(connect, "@modelcontextprotocol/client");
