// LangChain for JavaScript: node with_langchain_js.mjs TOOL '{"argument": "value"}'
// An agent has the tools as createAgent({ model, tools }).
import { MultiServerMCPClient } from "@langchain/mcp-adapters";

const url = `${process.env.TOOLGEN_URL ?? "http://127.0.0.1:8080"}/mcp`;
const headers = { Authorization: `Bearer ${process.env.TOOLGEN_KEY}` };
const [tool, args] = process.argv.slice(2);

const client = new MultiServerMCPClient({ mcpServers: { gateway: { url, headers } }, defaultToolTimeout: 120_000 });
const tools = await client.getTools();
console.log(tools.map((one) => one.name));
console.log(await tools.find((one) => one.name === tool).invoke(JSON.parse(args)));
await client.close();
