// The live page: asks for the newest rows again while it is looked at. Every other page works the same without this.
"use strict";
(() => {
  const rows = document.getElementById("rows");
  if (!rows || !rows.dataset.live) return;
  const status = document.getElementById("live-status");
  const button = document.getElementById("live-pause");
  const every = 2000;
  let paused = false;

  const newest = async () => {
    if (paused || document.hidden) return;
    try {
      const answer = await fetch(rows.dataset.live, { credentials: "same-origin", redirect: "error" });
      if (answer.status === 401 || answer.status === 403) {
        location.reload();
        return;
      }
      if (!answer.ok) throw new Error(String(answer.status));
      // The server escaped every value; a parsed document runs nothing.
      const found = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("tbody");
      const focused = document.activeElement && rows.contains(document.activeElement);
      if (found && !focused) rows.replaceChildren(...found.childNodes);
      status.textContent = focused ? "Held while you are in the table" : "Following";
    } catch {
      status.textContent = "The gateway does not answer; trying again";
    }
  };

  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Go on" : "Pause";
    status.textContent = paused ? "Paused" : "Following";
    document.body.classList.toggle("paused", paused);
  });
  setInterval(newest, every);
})();
