// MCP's TypeScript SDK: node with_mcp_js.mjs TOOL '{"argument": "value"}'
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const url = new URL(`${process.env.TOOLGEN_URL ?? "http://127.0.0.1:8080"}/mcp`);
const headers = { Authorization: `Bearer ${process.env.TOOLGEN_KEY}` };
const [tool, args] = process.argv.slice(2);

const client = new Client({ name: "clerk", version: "1" });
await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
console.log((await client.listTools()).tools.map((one) => one.name));
const { content } = await client.callTool({ name: tool, arguments: JSON.parse(args) }, { timeout: 120_000 });
console.log(content.filter((block) => block.type === "text").map((block) => block.text));
await client.close();
