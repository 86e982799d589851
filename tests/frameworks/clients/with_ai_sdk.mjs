// Vercel's AI SDK: createMCPClient of @ai-sdk/mcp, with the SDK's mock model.
import { createMCPClient } from "@ai-sdk/mcp";
import { asSchema, generateText } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { image, run, text } from "./client.mjs";

const USAGE = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };

async function connect(endpoint) {
  const transport = { type: "http", url: endpoint.url, headers: endpoint.headers };
  const client = await createMCPClient({ transport, capabilities: endpoint.asks ? { elicitation: {} } : {} });
  if (endpoint.asks) {
    const { ElicitationRequestSchema } = await import("@ai-sdk/mcp");
    client.onElicitationRequest(ElicitationRequestSchema, async ({ params }) => {
      endpoint.questions.push(params.message);
      return { action: "accept", content: { approve: endpoint.agrees } };
    });
  }
  const tools = await client.tools();
  const schemas = {};
  for (const [name, tool] of Object.entries(tools)) schemas[name] = await asSchema(tool.inputSchema).jsonSchema;
  return {
    schemas,
    async call(name, args, signal) {
      const call = { type: "tool-call", toolCallId: "c1", toolName: name, input: JSON.stringify(args) };
      const model = new MockLanguageModelV4({
        doGenerate: async () => ({ finishReason: { unified: "tool-calls" }, usage: USAGE, content: [call], warnings: [] }),
      });
      const { response } = await generateText({ model, tools, prompt: "go", abortSignal: signal });
      const { output } = response.messages.at(-1).content.find((one) => one.type === "tool-result");
      if (output.type === "content") return [output.value.map(part), null];
      return [[text(output.value)], output.type.startsWith("error")];
    },
    close: () => client.close(),
  };
}

function part(block) {
  if (block.type === "text") return text(block.text);
  return block.type === "file" ? image(block.data.data ?? block.data, block.mediaType) : text(block);
}

await run(connect, "@ai-sdk/mcp");
