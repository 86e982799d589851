// LangChain for JavaScript: MultiServerMCPClient of @langchain/mcp-adapters, with a scripted model in LangChain's agent.
import { AIMessage, ToolMessage } from "@langchain/core/messages";
import { convertToOpenAITool } from "@langchain/core/utils/function_calling";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { MultiServerMCPClient } from "@langchain/mcp-adapters";
import { PATIENCE_MS, image, run, text } from "./client.mjs";

async function connect(endpoint) {
  const client = new MultiServerMCPClient({
    mcpServers: { gateway: { url: endpoint.url, headers: endpoint.headers } },
    defaultToolTimeout: PATIENCE_MS,
  });
  const tools = await client.getTools();
  const node = new ToolNode(tools);
  return {
    schemas: Object.fromEntries(tools.map((tool) => [tool.name, convertToOpenAITool(tool).function.parameters])),
    async call(name, args, signal) {
      const asked = new AIMessage({ content: "", tool_calls: [{ id: "c1", type: "tool_call", name, args }] });
      const { messages } = await node.invoke({ messages: [asked] }, { signal });
      const message = messages.find((one) => one instanceof ToolMessage);
      const blocks = Array.isArray(message.content) ? message.content : [message.content];
      return [blocks.map(part), message.status === "error"];
    },
    close: () => client.close(),
  };
}

function part(block) {
  if (typeof block === "string") return text(block);
  if (block.type === "image_url") {
    const url = block.image_url.url ?? block.image_url;
    const [, mediaType, data] = /^data:(.*?);base64,(.*)$/.exec(url) ?? [];
    return image(data, mediaType);
  }
  if (block.type === "image") return image(block.data, block.mime_type ?? block.mimeType);
  return text(block.text ?? block);
}

await run(connect, "@langchain/mcp-adapters");
