// Google's Gen AI SDK for JavaScript: node with_google_genai_js.mjs TOOL '{"argument": "value"}'
// A model has the tools as ai.models.generateContent({ model, contents, config: { tools: [tools] } }).
import { mcpToTool } from "@google/genai";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const url = new URL(`${process.env.TOOLGEN_URL ?? "http://127.0.0.1:8080"}/mcp`);
const headers = { Authorization: `Bearer ${process.env.TOOLGEN_KEY}` };
const [tool, args] = process.argv.slice(2);

const client = new Client({ name: "clerk", version: "1" });
await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
const tools = mcpToTool(client, { timeout: 120_000 });
console.log((await tools.tool()).functionDeclarations.map((one) => one.name));
console.log(JSON.stringify(await tools.callTool([{ name: tool, args: JSON.parse(args) }])));
await client.close();
