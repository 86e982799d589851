// OpenAI Agents SDK for TypeScript: node with_openai_agents_js.mjs TOOL '{"argument": "value"}'
// An agent has the tools as new Agent({ mcpServers: [server] }).
import { MCPServerStreamableHttp } from "@openai/agents";

const url = `${process.env.TOOLGEN_URL ?? "http://127.0.0.1:8080"}/mcp`;
const headers = { Authorization: `Bearer ${process.env.TOOLGEN_KEY}` };
const [tool, args] = process.argv.slice(2);

const server = new MCPServerStreamableHttp({ url, requestInit: { headers }, timeout: 120_000, clientSessionTimeoutSeconds: 120 });
await server.connect();
console.log((await server.listTools()).map((one) => one.name));
console.log(await server.callTool(tool, JSON.parse(args)));
await server.close();
