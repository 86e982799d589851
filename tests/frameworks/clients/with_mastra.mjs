// Mastra, version 2 of its MCP client.
import { standardSchemaToJSONSchema } from "@mastra/core/schema";
import { run } from "./client.mjs";
import { connectWith } from "./mastra.mjs";

const version = {
  schemaOf: (tool) => standardSchemaToJSONSchema(tool.inputSchema),
  executed: (tool, args, signal) => tool.execute(args, { abortSignal: signal }),
  server: (endpoint) =>
    endpoint.asks
      ? {
          inputRequests: async ({ params }) => {
            endpoint.questions.push(params.message);
            return { action: "accept", content: { approve: endpoint.agrees } };
          },
        }
      : {},
};

await run((endpoint) => connectWith(endpoint, version), "@mastra/mcp");
