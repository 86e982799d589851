// Anthropic's TypeScript SDK: tools of MCP for its tool runner.
import { mcpTools } from "@anthropic-ai/sdk/helpers/beta/mcp";
import { image, run, text } from "./client.mjs";
import { clientOf, toolsOf } from "./sdk_1.mjs";

async function connect(endpoint) {
  const client = await clientOf(endpoint);
  const tools = Object.fromEntries(mcpTools(await toolsOf(client), client).map((tool) => [tool.name, tool]));
  return {
    schemas: Object.fromEntries(Object.values(tools).map((tool) => [tool.name, tool.input_schema])),
    async call(name, args, signal) {
      try {
        return [parts(await tools[name].run(args, { signal })), false];
      } catch (error) {
        if (error.content === undefined) throw error;
        return [parts(error.content), true]; // the tool runner makes a tool_result with is_error of it
      }
    },
    close: () => client.close(),
  };
}

function parts(content) {
  const blocks = typeof content === "string" ? [{ type: "text", text: content }] : content;
  return blocks.map((block) => {
    if (block.type === "text") return text(block.text);
    return block.type === "image" ? image(block.source.data, block.source.media_type) : text(block);
  });
}

await run(connect, "@anthropic-ai/sdk");
