// Host of an app (MCP Apps 2026-01-26): a frame of another origin, without cookies, and JSON-RPC with it over postMessage. The page in the
// frame is not trusted: it may call tools of its server as the person who is signed in, report its height, and request that a link is opened.
"use strict";
(() => {
  const PROTOCOL = "2026-01-26";
  const MAX_CALLS = 4, MAX_LENGTH = 262144, MAX_REFUSALS = 3, LEAST = 40, MOST = 900, MAX_LINK = 2048;
  const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

  // Confirmation dialog: one at a time, and none after a page was refused three times.
  const asker = (place) => {
    let open = false, refused = 0;
    return (heading, text, agree, link) => new Promise((resolve) => {
      if (open || refused >= MAX_REFUSALS) { resolve(false); return; }
      open = true;
      const dialog = document.createElement("dialog"), title = document.createElement("h2"), shown = document.createElement("pre");
      const actions = document.createElement("p"), yes = document.createElement(link ? "a" : "button"), no = document.createElement("button");
      title.textContent = heading;
      title.id = "app-question";
      dialog.setAttribute("aria-labelledby", title.id);
      dialog.className = "question";
      shown.textContent = text;
      shown.tabIndex = 0;
      yes.textContent = agree;
      no.textContent = "No";
      yes.className = link ? "button" : "";
      no.className = "quiet";
      no.type = "button";
      actions.className = "actions";
      if (link) { yes.href = link; yes.target = "_blank"; yes.rel = "noopener noreferrer"; } else { yes.type = "button"; }
      const end = (answer) => {
        if (!open) return;
        open = false;
        refused = answer ? 0 : refused + 1;
        dialog.remove();
        resolve(answer);
      };
      yes.addEventListener("click", () => setTimeout(() => end(true)));
      no.addEventListener("click", () => end(false));
      dialog.addEventListener("cancel", () => end(false));
      actions.append(no, yes);
      dialog.append(title, shown, actions);
      place.append(dialog);
      dialog.showModal();
      no.focus();
    });
  };

  const host = (place) => {
    const status = place.querySelector(".app-status");
    const token = document.querySelector("input[name=form_token]").value;
    const callAddress = new URL("../apps/call", document.currentScript.src);
    const own = place.dataset.own === "yes", question = asker(place);
    const frame = document.createElement("iframe");
    let calls = 0, loads = 0, alive = true;

    const tell = (message) => { if (alive && frame.contentWindow) frame.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*"); };
    const close = (why) => { alive = false; frame.remove(); status.textContent = why; };

    const post = async (name, given, agreed) => {
      const form = new URLSearchParams({ form_token: token, app: place.dataset.tool, own: own ? "yes" : "no", name, arguments: given });
      if (agreed) form.set("agreed", "yes");
      const answer = await fetch(callAddress, { method: "POST", body: form, redirect: "error" });
      if (!answer.ok) throw new Error(answer.status === 403 ? "the session has ended" : "the gateway did not take the call");
      return answer.json();
    };
    const call = async (params) => {
      if (!isObject(params) || typeof params.name !== "string" || !isObject(params.arguments ?? {})) throw new Error("tools/call takes a name and arguments");
      const given = JSON.stringify(params.arguments ?? {});
      if (given.length > MAX_LENGTH) throw new Error("the arguments are too long");
      if (calls >= MAX_CALLS) throw new Error("too many calls at once");
      calls += 1;
      try {
        const found = await post(params.name, given, false);
        if (!found.confirm) return found.result;
        const asked = found.confirm;
        if (!await question(`This app wants to call ${asked.tool} (${asked.effect}) as you`, asked.arguments, "Call it")) throw new Error("the person did not agree to this call");
        return (await post(params.name, given, true)).result;
      } finally {
        calls -= 1;
      }
    };
    const openLink = async (params) => {
      let url = null;
      try { url = new URL(params.url); } catch { throw new Error("ui/open-link takes a URL"); }
      if (url.protocol !== "https:" || url.username || url.password || url.href.length > MAX_LINK) throw new Error("only https links are opened");
      if (!await question("This app wants to open a page elsewhere", url.href, "Open it", url.href)) throw new Error("the person did not open the link");
      return {};
    };
    const initialize = () => ({
      protocolVersion: PROTOCOL,
      hostInfo: { name: "toolgen console", version: "1" },
      hostCapabilities: { openLinks: {}, serverTools: {} },
      hostContext: {
        toolInfo: { tool: JSON.parse(place.dataset.about) },
        theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light",
        displayMode: "inline",
        availableDisplayModes: ["inline"],
        platform: "web",
        locale: navigator.language,
        timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
        containerDimensions: { width: place.clientWidth, maxHeight: MOST },
      },
    });
    const METHODS = {
      "ui/initialize": initialize,
      "ui/open-link": openLink,
      "ui/request-display-mode": () => ({ mode: "inline" }),
      "tools/call": call,
      ping: () => ({}),
    };
    const NOTIFICATIONS = {
      "ui/notifications/initialized": () => {
        tell({ method: "ui/notifications/tool-input", params: { arguments: JSON.parse(place.dataset.given) } });
        tell({ method: "ui/notifications/tool-result", params: JSON.parse(place.dataset.result) });
      },
      "ui/notifications/size-changed": (params) => {
        if (Number.isFinite(params.height)) frame.height = String(Math.min(MOST, Math.max(LEAST, Math.ceil(params.height))));
      },
    };
    window.addEventListener("message", async (event) => {
      // The document of the frame has an opaque origin. Frames inside of it, and other windows, are not the app.
      if (!alive || event.source !== frame.contentWindow || event.origin !== "null") return;
      const message = event.data;
      if (!isObject(message) || message.jsonrpc !== "2.0" || typeof message.method !== "string") return;
      const params = isObject(message.params) ? message.params : {};
      if (message.id === undefined) {
        if (Object.hasOwn(NOTIFICATIONS, message.method)) NOTIFICATIONS[message.method](params);
        return;
      }
      if (typeof message.id !== "string" && typeof message.id !== "number") return;
      if (!Object.hasOwn(METHODS, message.method)) {
        tell({ id: message.id, error: { code: -32601, message: "Method not found" } });
        return;
      }
      try {
        tell({ id: message.id, result: await METHODS[message.method](params) });
      } catch (error) {
        tell({ id: message.id, error: { code: -32000, message: error.message } });
      }
    });
    frame.addEventListener("load", () => {
      loads += 1;
      if (loads > 1) close("The app left its page, so that it was closed.");
    });
    frame.title = place.dataset.title;
    frame.className = "app";
    frame.height = "120";
    frame.referrerPolicy = "no-referrer";
    frame.setAttribute("sandbox", "allow-scripts");
    frame.setAttribute("credentialless", "");
    frame.src = place.dataset.address;
    place.append(frame);
  };

  for (const place of document.querySelectorAll("[data-app]")) host(place);
})();
