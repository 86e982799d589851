// Mastra, version 0.14 of its MCP client, whose schemas are zod's.
import { z } from "zod";
import { run } from "./client.mjs";
import { connectWith } from "./mastra.mjs";

const version = {
  schemaOf: (tool) => z.toJSONSchema(tool.inputSchema),
  executed: (tool, args) => tool.execute({ context: args }),
  server: () => ({}),
};

const connect = async (endpoint) => ({ ...(await connectWith(endpoint, version)), cancellable: false });
await run(connect, "@mastra/mcp");
