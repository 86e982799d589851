// Driver of every JavaScript client: the task as JSON on standard input, the report as JSON on standard output.
//
// A script for one framework implements `connect(endpoint)`, which opens a gateway's tools the way the framework's users do and returns
// { schemas, call(name, arguments, signal), refused?, cancellable?, close() }, and calls run(connect, package).
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const PATIENCE_MS = 120_000;

export const text = (value) => ({ type: "text", text: typeof value === "string" ? value : JSON.stringify(value) });
export const image = (data, mediaType) => ({ type: "image", data, media_type: mediaType });

export function errorText(error) {
  return `${error?.name ?? "Error"}: ${error?.message ?? error}`;
}

// A content block of MCP as part.
export function part(block) {
  if (block.type === "text") return text(block.text);
  return block.type === "image" ? image(block.data, block.mimeType) : text(block);
}

export async function run(connect, name) {
  const task = JSON.parse(readFileSync(0, "utf8"));
  const write = process.stdout.write.bind(process.stdout);
  process.stdout.write = process.stderr.write.bind(process.stderr); // some frameworks print
  const report = { given: {}, version: versionOf(name) };
  for (const [step, work] of Object.entries({ _kinds, _asked, _cancelled, _long, _catalog, _search })) {
    try {
      await within(work(connect, task, report), 300_000);
    } catch (error) {
      console.error(error);
      report[step] = errorText(error).slice(0, 2000);
    }
  }
  write(JSON.stringify(report), () => process.exit(0));
}

function versionOf(name) {
  const modules = join(dirname(fileURLToPath(import.meta.url)), "..", "node_modules");
  return JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8")).version;
}

function within(promise, milliseconds) {
  const expired = new Promise((_, reject) => setTimeout(() => reject(new Error("took too long")), milliseconds).unref());
  return Promise.race([promise, expired]);
}

async function opened(connect, endpoint, work) {
  const toolbox = await connect(endpoint);
  try {
    return await work(toolbox);
  } finally {
    await toolbox.close();
  }
}

function endpointOf(url, task, person = {}) {
  return { url, headers: { Authorization: `Bearer ${task.key}` }, asks: false, agrees: true, questions: [], ...person };
}

async function given(toolbox, tool, args) {
  try {
    const [parts, error] = await within(toolbox.call(tool, args), 60_000);
    return { parts, error, raised: "" };
  } catch (error) {
    if (process.env.TOOLGEN_TRACE) console.error(error);
    return { parts: [], error: null, raised: errorText(error).slice(0, 4000) };
  }
}

async function _kinds(connect, task, report) {
  await opened(connect, endpointOf(task.url, task), async (toolbox) => {
    report.loaded = toolbox.schemas;
    report.refused = toolbox.refused ?? {};
    for (const [name, tool, args] of task.calls) report.given[name] = await given(toolbox, tool, args);
  });
}

async function _asked(connect, task, report) {
  report.asked = [];
  for (const agrees of [true, false]) {
    const endpoint = endpointOf(task.url, task, { asks: true, agrees });
    const answer = await opened(connect, endpoint, (toolbox) => given(toolbox, ...task.asked));
    report.asked.push({ questions: endpoint.questions, given: answer });
  }
}

async function _cancelled(connect, task, report) {
  await opened(connect, endpointOf(task.url, task), async (toolbox) => {
    if (toolbox.cancellable === false) {
      report.cancel = { possible: false };
      return;
    }
    const controller = new AbortController();
    const calling = toolbox.call(task.slow, { caller: task.client }, controller.signal).catch(() => {});
    const begun = await watch(task, "begun", 30);
    const cancelled = performance.now();
    controller.abort();
    const closed = await watch(task, "closed", 5);
    report.cancel = { possible: true, begun, closed, seconds: (performance.now() - cancelled) / 1000 };
    await within(calling, 1000).catch(() => {});
  });
}

async function _long(connect, task, report) {
  await opened(connect, endpointOf(task.leaving, task), async (toolbox) => {
    const pending = await given(toolbox, task.late, {});
    report.long = [pending];
    const told = pending.parts.map((one) => one.text ?? "").join("") + pending.raised;
    const found = /call_[0-9a-f]{24}/.exec(told);
    if (found) report.long.push(await given(toolbox, "get_call_result", { call_id: found[0], wait_s: 20 }));
  });
}

async function _catalog(connect, task, report) {
  if (!task.catalog) return;
  await opened(connect, endpointOf(task.catalog, task), async (toolbox) => {
    const loaded = Object.keys(toolbox.schemas).length;
    report.catalog = { loaded, refused: toolbox.refused ?? {}, given: await given(toolbox, ...task.catalog_call) };
  });
}

async function _search(connect, task, report) {
  if (!task.search) return;
  await opened(connect, endpointOf(task.search, task), async (toolbox) => {
    report.search = [];
    for (const call of task.search_calls) report.search.push(await given(toolbox, ...call));
  });
}

async function watch(task, event, seconds) {
  const answer = await fetch(`${task.watch}/watch/${event}?caller=${task.client}&seconds=${seconds}`);
  return (await answer.json()).seen;
}
