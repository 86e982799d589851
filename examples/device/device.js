// A device: it asks what it is to do, shows that to its user, and answers each request once.
// Texts are put in as text, never as HTML: an agent wrote them.
"use strict";

const PERMISSION_REQUIRED = -32010;
const PERMISSION_DENIED = -32001;
const USER_CANCELED = -32002;
const METHOD_NOT_FOUND = -32601;

const seen = new Set(); // requests that this page works on, or has answered
const cards = new Map();

class DeviceError extends Error {
  constructor(code, message, data) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

async function permission(name) {
  const found = await navigator.permissions.query({ name });
  return found.state;
}

function place() {
  return new Promise((resolve, reject) => {
    navigator.geolocation.getCurrentPosition(resolve, (error) => {
      const denied = error.code === error.PERMISSION_DENIED;
      reject(new DeviceError(denied ? PERMISSION_DENIED : 1, denied ? "Permission denied" : error.message));
    }, { timeout: 20000, maximumAge: 60000 });
  });
}

// Shows a request until its user has decided: true, false, or an error where it is cancelled.
function ask(item, words) {
  const card = document.getElementById("card").content.firstElementChild.cloneNode(true);
  card.querySelector(".display").textContent = item.display || item.tool;
  card.querySelector(".tool").textContent = `asked by ${item.tool}`;
  card.querySelector(".yes").textContent = words.yes;
  if (!words.no) card.querySelector(".no").remove();
  document.getElementById("requests").append(card);
  document.getElementById("none").hidden = true;
  cards.set(item.request.id, card);
  return new Promise((resolve, reject) => {
    card.querySelector(".yes").addEventListener("click", () => resolve(true));
    card.querySelector(".no")?.addEventListener("click", () => resolve(false));
    card.querySelector(".cancel").addEventListener("click", () => reject(new DeviceError(USER_CANCELED, "User canceled")));
  }).finally(() => forget(item.request.id));
}

function forget(id) {
  cards.get(id)?.remove();
  cards.delete(id);
  document.getElementById("none").hidden = cards.size > 0;
}

const methods = {
  async "permission.status"(item, params) {
    return { status: await permission(params.permission) };
  },
  async "location.get"(item) {
    const status = await permission("geolocation");
    if (status === "prompt") throw new DeviceError(PERMISSION_REQUIRED, "Permission required", { permission: "geolocation", status });
    if (status === "denied") throw new DeviceError(PERMISSION_DENIED, "Permission denied");
    await ask(item, { yes: "Share" });
    const { coords } = await place();
    return { latitude: coords.latitude, longitude: coords.longitude, accuracy: coords.accuracy };
  },
  async "clipboard.write"(item, params) {
    await ask(item, { yes: "Copy" });
    await navigator.clipboard.writeText(params.text);
    return null;
  },
  async "dialog.confirm"(item) {
    return ask(item, { yes: "Yes", no: "No" });
  },
};

async function answerOf(item) {
  const { id, method, params } = item.request;
  try {
    if (!Object.hasOwn(methods, method)) throw new DeviceError(METHOD_NOT_FOUND, "Method not found");
    return { jsonrpc: "2.0", id, result: await methods[method](item, params) };
  } catch (error) {
    const told = { code: error instanceof DeviceError ? error.code : 1, message: String(error.message).slice(0, 500) };
    if (error instanceof DeviceError && error.data !== undefined) told.data = error.data;
    return { jsonrpc: "2.0", id, error: told };
  }
}

async function work(item) {
  const answer = await answerOf(item);
  const taken = await fetch("/v1/tool-messages", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(answer),
  });
  const line = document.createElement("li");
  line.textContent = `${item.tool}: ${taken.ok ? (await taken.json()).status : `not taken (${taken.status})`}`;
  document.getElementById("answered").append(line);
}

function listen() {
  const state = document.getElementById("state");
  const events = new EventSource("/v1/device/requests");
  events.addEventListener("open", () => { state.textContent = "Ready."; });
  events.addEventListener("error", () => { state.textContent = "Connecting…"; }); // the browser connects again by itself
  events.addEventListener("request", (event) => {
    const item = JSON.parse(event.data);
    if (seen.has(item.request.id)) return;
    seen.add(item.request.id);
    work(item).catch((error) => { state.textContent = `Not answered: ${error.message}`; });
  });
  events.addEventListener("withdrawn", (event) => forget(JSON.parse(event.data).id));
}

document.getElementById("give-location").addEventListener("click", () => { place().catch(() => {}); });
listen();
