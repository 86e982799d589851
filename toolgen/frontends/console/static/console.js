// Updates the number of waiting calls, the queue and the live page, and shows on a button what it grants. Every page works without this script.
"use strict";

// The number beside "Approvals", in the title of the queue, and the queue itself.
(() => {
  const LOOK_MS = 5000;
  const waitingAddress = new URL("../waiting", document.currentScript.src); // below the path that the gateway is mounted at
  const badge = document.querySelector("[data-waiting]");
  if (!badge) return;
  const announced = document.getElementById("announced");
  const queue = document.querySelector("[data-refresh]");
  let shown = Number(badge.dataset.waiting);

  const refresh = async () => {
    const found = await fetch(location.href);
    if (!found.ok) return;
    // The server escaped every value; a parsed document runs nothing.
    const fresh = new DOMParser().parseFromString(await found.text(), "text/html").querySelector("[data-refresh]");
    if (!fresh || queue.contains(document.activeElement)) return;
    queue.replaceChildren(...fresh.childNodes);
    queue.dataset.refresh = fresh.dataset.refresh;
  };

  const show = (waiting) => {
    const more = waiting > shown;
    shown = waiting;
    badge.dataset.waiting = String(waiting);
    badge.replaceChildren();
    if (waiting) {
      const number = document.createElement("span"), words = document.createElement("span");
      number.className = "badge";
      words.className = "hidden";
      words.textContent = " waiting";
      number.append(String(waiting), words);
      badge.append(" ", number);
    }
    document.title = document.title.replace(/^(?:\(\d+\) )?Approvals/, `${waiting ? `(${waiting}) ` : ""}Approvals`);
    announced.textContent = `${waiting} ${waiting === 1 ? "call waits" : "calls wait"} for your answer${more ? "" : " now"}`;
  };

  const look = async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch(waitingAddress);
      if (!answer.ok) return;
      const found = await answer.json();
      if (found.waiting !== shown) show(found.waiting);
      if (queue && queue.dataset.refresh !== found.mark) await refresh();
    } catch {
      // The gateway does not answer now; the next poll tries again.
    }
  };
  setInterval(look, LOOK_MS);
  look();
  document.addEventListener("visibilitychange", look);
})();

// Conversion of times from UTC, as in the pages, to the time zone of this browser.
(() => {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!zone) return;
  const two = (number, length = 2) => String(number).padStart(length, "0");
  const local = () => {
    for (const one of document.querySelectorAll("time.at:not([data-local])")) {
      const time = new Date(one.dateTime);
      if (Number.isNaN(time.getTime())) continue;
      one.title = `${one.textContent} UTC`;
      one.dataset.local = "";
      one.textContent = `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${two(time.getMilliseconds(), 3)}`;
    }
  };
  // A search with a time zone, or without times, uses the time zone of this browser.
  const named = document.querySelector(".zone-name");
  if (!named || named.value || !(document.getElementById("since").value || document.getElementById("until").value)) {
    for (const one of document.querySelectorAll(".zone")) one.textContent = zone;
    if (named) named.value = zone;
    for (const link of document.querySelectorAll("a.zoned")) {
      const url = new URL(link.href);
      url.searchParams.set("zone", zone);
      link.href = url;
    }
  } else {
    for (const one of document.querySelectorAll("th .zone")) one.textContent = zone;
  }
  local();
  document.addEventListener("rows", local);
})();

// Text of the button: the grant that an answer makes beside the call itself.
(() => {
  const form = document.querySelector("form.answer");
  const later = form && form.querySelector(".later");
  if (!later) return;
  const words = () => {
    const of = (id) => { const field = document.getElementById(id); return field.value.trim() || field.dataset.most; };
    const any = later.querySelector("#any_arguments"), session = later.querySelector("#session");
    const calls = of("calls"), minutes = of("minutes");
    const about = any && any.checked ? "whatever their arguments" : "with these arguments";
    const text = `${calls} later ${calls === "1" ? "call" : "calls"} ${about} for ${minutes} ${minutes === "1" ? "minute" : "minutes"}${session && session.checked ? " in this session" : ""}`;
    form.querySelector("[value=approve] .granting").textContent = `Approve, and ${text}`;
    form.querySelector("[value=edit] .granting").textContent = `, and ${text}`;
  };
  later.addEventListener("input", words);
  words();
})();

// Live page: the newest rows, as the gateway sends them.
(() => {
  const rows = document.getElementById("rows");
  if (!rows || !rows.dataset.live) return;
  const status = document.getElementById("live-status");
  const announced = document.getElementById("announced");
  const button = document.getElementById("live-pause");
  const TELL_MS = 5000;
  let paused = false;
  let opened = false;
  let newest = "";
  let told = 0;
  let fresh = 0;
  let first = true;

  const links = (part) => new Set([...part.querySelectorAll(".name a")].map((link) => link.getAttribute("href")));
  const tell = () => {
    if (!fresh || Date.now() - told < TELL_MS) return;
    announced.textContent = `${fresh} new ${fresh === 1 ? "call" : "calls"}`;
    told = Date.now();
    fresh = 0;
  };

  const show = () => {
    if (paused || !newest) return;
    // The server escaped every value; a parsed document runs nothing.
    const found = new DOMParser().parseFromString(newest, "text/html").querySelector("tbody");
    const focused = document.activeElement && rows.contains(document.activeElement);
    if (found && !focused) {
      const before = links(rows);
      fresh += first ? 0 : [...links(found)].filter((link) => !before.has(link)).length;
      rows.replaceChildren(...found.childNodes);
      document.dispatchEvent(new Event("rows"));
      newest = "";
      tell();
    }
    status.textContent = focused ? "Held while you are in the table" : "Following";
  };
  setInterval(tell, TELL_MS);

  const source = new EventSource(rows.dataset.live);
  source.addEventListener("rows", (event) => {
    newest = event.data;
    show();
    first = false;
  });
  source.addEventListener("open", () => { opened = true; });
  rows.addEventListener("focusout", () => setTimeout(show));
  source.addEventListener("error", () => {
    // Closed permanently, because the answer was no event stream: the session has ended. Loading the page again shows the sign-in.
    if (source.readyState !== EventSource.CLOSED) status.textContent = "The gateway does not answer; trying again";
    else if (opened) location.reload();
    else status.textContent = "Not followed: too many live pages are open";
  });
  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Go on" : "Pause";
    status.textContent = paused ? "Paused" : "Following";
    document.body.classList.toggle("paused", paused);
    show();
  });
})();

// Completion of an argument of a prompt or of a template while a person types.
(() => {
  const form = document.querySelector("form[data-complete]");
  if (!form) return;
  const WAIT_MS = 200;
  const address = new URL("../complete", document.currentScript.src);
  for (const field of form.querySelectorAll("[data-argument]")) {
    const list = document.getElementById(field.getAttribute("list"));
    let timer = 0, asked = 0;
    const propose = async () => {
      const own = ++asked, body = new URLSearchParams(new FormData(form));
      body.set(form.dataset.complete, form.dataset.key);
      body.set("name", field.dataset.argument);
      body.set("value", field.value);
      const answer = await fetch(address, { method: "POST", body });
      if (!answer.ok || own !== asked) return;
      const options = (await answer.json()).values.map((value) => Object.assign(document.createElement("option"), { value }));
      list.replaceChildren(...options);
    };
    const soon = () => { clearTimeout(timer); timer = setTimeout(() => propose().catch(() => {}), WAIT_MS); };
    field.addEventListener("input", soon);
    field.addEventListener("focus", soon, { once: true });
  }
})();
