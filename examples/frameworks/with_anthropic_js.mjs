// Anthropic's TypeScript SDK: node with_anthropic_js.mjs TOOL '{"argument": "value"}'
// The tool runner has the tools as anthropic.beta.messages.toolRunner({ tools }).
import { mcpTools } from "@anthropic-ai/sdk/helpers/beta/mcp";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const url = new URL(`${process.env.TOOLGEN_URL ?? "http://127.0.0.1:8080"}/mcp`);
const headers = { Authorization: `Bearer ${process.env.TOOLGEN_KEY}` };
const [tool, args] = process.argv.slice(2);

const client = new Client({ name: "clerk", version: "1" });
await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
const tools = mcpTools((await client.listTools()).tools, client);
console.log(tools.map((one) => one.name));
console.log(await tools.find((one) => one.name === tool).run(JSON.parse(args)));
await client.close();
