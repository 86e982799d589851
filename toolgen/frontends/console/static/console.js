// The live page: shows the newest rows as the gateway sends them. Every other page works the same without this.
"use strict";
(() => {
  const rows = document.getElementById("rows");
  if (!rows || !rows.dataset.live) return;
  const status = document.getElementById("live-status");
  const button = document.getElementById("live-pause");
  let paused = false;
  let opened = false;
  let newest = "";

  const show = () => {
    if (paused || !newest) return;
    // The server escaped every value; a parsed document runs nothing.
    const found = new DOMParser().parseFromString(newest, "text/html").querySelector("tbody");
    const focused = document.activeElement && rows.contains(document.activeElement);
    if (found && !focused) {
      rows.replaceChildren(...found.childNodes);
      newest = "";
    }
    status.textContent = focused ? "Held while you are in the table" : "Following";
  };

  const source = new EventSource(rows.dataset.live);
  source.addEventListener("rows", (event) => {
    newest = event.data;
    show();
  });
  rows.addEventListener("focusout", () => setTimeout(show));
  source.addEventListener("open", () => { opened = true; });
  source.addEventListener("error", () => {
    // Closed for good: the answer was no stream. Of a page that was followed, that is because its session has ended, and it says so anew.
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
