// MCP's TypeScript SDK, version 1: node with_mcp_js_1.mjs TOOL '{"argument": "value"}'
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const url = new URL(`${process.env.TOOLGEN_URL ?? "http://127.0.0.1:8080"}/mcp`);
const headers = { Authorization: `Bearer ${process.env.TOOLGEN_KEY}` };
const [tool, args] = process.argv.slice(2);

const client = new Client({ name: "clerk", version: "1" });
await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
console.log((await client.listTools()).tools.map((one) => one.name)); // a page of them, with nextCursor for the next
const { content } = await client.callTool({ name: tool, arguments: JSON.parse(args) }, undefined, { timeout: 120_000 });
console.log(content.filter((block) => block.type === "text").map((block) => block.text));
await client.close();
