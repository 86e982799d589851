// Mastra: tools of an MCPClient, executed as an agent executes them; what its `toModelOutput` leaves alone is given as JSON.
import { MCPClient } from "@mastra/mcp";
import { PATIENCE_MS, errorText, image, text } from "./client.mjs";

// `schemaOf(tool)` is the JSON Schema that a model is given, `executed(tool, args, signal)` the answer of a call,
// `server(endpoint)` what the version has for a server besides.
export async function connectWith(endpoint, { schemaOf, executed, server }) {
  const client = new MCPClient({
    id: crypto.randomUUID(),
    servers: {
      gateway: {
        url: new URL(endpoint.url),
        requestInit: { headers: endpoint.headers },
        timeout: PATIENCE_MS,
        ...server(endpoint),
      },
    },
    timeout: PATIENCE_MS,
  });
  if (endpoint.asks && client.elicitation) {
    await client.elicitation.onRequest("gateway", async (request) => {
      endpoint.questions.push(request.message);
      return { action: "accept", content: { approve: endpoint.agrees } };
    });
  }
  const listed = client.listTools ? await client.listTools() : await client.getTools();
  const tools = Object.fromEntries(Object.entries(listed).map(([name, tool]) => [name.replace(/^gateway_/, ""), tool]));
  const schemas = {};
  const refused = {};
  for (const [name, tool] of Object.entries(tools)) {
    try {
      schemas[name] = JSON.parse(JSON.stringify(schemaOf(tool)));
    } catch (error) {
      refused[name] = errorText(error);
    }
  }
  return {
    schemas,
    refused,
    async call(name, args, signal) {
      let answer;
      try {
        answer = await executed(tools[name], args, signal);
      } catch (error) {
        return [[text(error.message)], true]; // an agent makes a tool error of it
      }
      const told = tools[name].toModelOutput ? await tools[name].toModelOutput(answer) : { type: "json", value: answer };
      return [parts(told), null];
    },
    close: () => client.disconnect(),
  };
}

function parts(told) {
  if (told.type === "content") {
    return told.value.map((one) => (one.type === "text" ? text(one.text) : image(one.data, one.mediaType)));
  }
  return [text(told.value)];
}
