// MCP's own TypeScript SDK, version 1, which most frameworks still build on.
import { PATIENCE_MS, part, run } from "./client.mjs";
import { clientOf, toolsOf } from "./sdk_1.mjs";

async function connect(endpoint) {
  const client = await clientOf(endpoint);
  const tools = await toolsOf(client);
  return {
    schemas: Object.fromEntries(tools.map((tool) => [tool.name, tool.inputSchema])),
    async call(name, args, signal) {
      const result = await client.callTool({ name, arguments: args }, undefined, { timeout: PATIENCE_MS, signal });
      return [result.content.map(part), result.isError ?? false];
    },
    close: () => client.close(),
  };
}

await run(connect, "@modelcontextprotocol/sdk");
