// AI SDK: node with_ai_sdk.mjs TOOL '{"argument": "value"}'
// A model has the tools as generateText({ model, tools, prompt, abortSignal: AbortSignal.timeout(120_000) }).
import { createMCPClient } from "@ai-sdk/mcp";

const url = `${process.env.TOOLGEN_URL ?? "http://127.0.0.1:8080"}/mcp`;
const headers = { Authorization: `Bearer ${process.env.TOOLGEN_KEY}` };
const [tool, args] = process.argv.slice(2);

const client = await createMCPClient({ transport: { type: "http", url, headers } });
const tools = await client.tools();
console.log(Object.keys(tools));
const options = { toolCallId: "1", messages: [], abortSignal: AbortSignal.timeout(120_000) };
console.log(await tools[tool].execute(JSON.parse(args), options));
await client.close();
