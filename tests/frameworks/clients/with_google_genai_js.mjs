// Google's Gen AI SDK for JavaScript: `mcpToTool`, whose callable tool answers the function calls of a model.
import { mcpToTool } from "@google/genai";
import { PATIENCE_MS, run, text } from "./client.mjs";
import { clientOf } from "./sdk_1.mjs";

async function connect(endpoint) {
  const client = await clientOf(endpoint);
  const callable = mcpToTool(client, { timeout: PATIENCE_MS });
  const { functionDeclarations } = await callable.tool();
  return {
    schemas: Object.fromEntries(functionDeclarations.map((one) => [one.name, one.parametersJsonSchema ?? one.parameters])),
    async call(name, args) {
      const [{ functionResponse }] = await callable.callTool([{ name, args }]);
      return [[text(functionResponse.response)], "error" in functionResponse.response];
    },
    cancellable: false,
    close: () => client.close(),
  };
}

await run(connect, "@google/genai");
