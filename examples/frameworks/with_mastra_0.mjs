// Mastra 0.14: node with_mastra_0.mjs TOOL '{"argument": "value"}'
// An agent has the tools as new Agent({ tools: await client.getTools() }).
import { MCPClient } from "@mastra/mcp";

const url = new URL(`${process.env.TOOLGEN_URL ?? "http://127.0.0.1:8080"}/mcp`);
const headers = { Authorization: `Bearer ${process.env.TOOLGEN_KEY}` };
const [tool, args] = process.argv.slice(2);

const client = new MCPClient({ servers: { gateway: { url, requestInit: { headers }, timeout: 120_000 } } });
const tools = await client.getTools();
console.log(Object.keys(tools)); // gateway_ and the tool's name
console.log(await tools[`gateway_${tool}`].execute({ context: JSON.parse(args) }));
await client.disconnect();
