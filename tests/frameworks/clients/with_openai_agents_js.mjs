// OpenAI Agents SDK for TypeScript: MCPServerStreamableHttp, with a scripted model.
import { Agent, MCPServerStreamableHttp, Runner, Usage, getAllMcpTools, setTracingDisabled } from "@openai/agents";
import { PATIENCE_MS, image, run, text } from "./client.mjs";

setTracingDisabled(true);

class Scripted {
  constructor() {
    this.turn = [];
  }
  async getResponse(request) {
    this.request = request;
    const output = this.turn.length
      ? this.turn.splice(0)
      : [{ type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text: "done" }] }];
    return { usage: new Usage(), output };
  }
}

async function connect(endpoint) {
  const server = new MCPServerStreamableHttp({
    url: endpoint.url,
    name: "gateway",
    requestInit: { headers: endpoint.headers },
    timeout: PATIENCE_MS,
    clientSessionTimeoutSeconds: PATIENCE_MS / 1000,
    cacheToolsList: true,
  });
  await server.connect();
  const tools = await getAllMcpTools([server]);
  const model = new Scripted();
  const agent = new Agent({ name: "clerk", model, mcpServers: [server] });
  const runner = new Runner({ tracingDisabled: true });
  return {
    schemas: Object.fromEntries(tools.map((tool) => [tool.name, tool.parameters])),
    async call(name, args, signal) {
      model.turn.push({ type: "function_call", callId: "c1", name, arguments: JSON.stringify(args), status: "completed" });
      await runner.run(agent, "go", { signal });
      const { output } = model.request.input.findLast((item) => item.type === "function_call_result");
      return [(Array.isArray(output) ? output : [output]).map(part), null];
    },
    close: () => server.close(),
  };
}

function part(block) {
  if (typeof block === "string") return text(block);
  if (block.type === "image" || block.type === "input_image") {
    const source = block.image ?? block.imageUrl;
    if (typeof source === "object") return image(source.data, source.mediaType);
    const [, mediaType, data] = /^data:(.*?);base64,(.*)$/.exec(source) ?? [];
    return image(data ?? source, mediaType ?? "");
  }
  return text(block.text ?? block);
}

await run(connect, "@openai/agents");
