/* Copy buttons of blocks of code, and tables and blocks that scroll by keyboard. */
"use strict";

(() => {
  const code = (block) => {
    const text = block.querySelector("pre").textContent;
    const commands = text.split("\n").filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
    return commands.length ? `${commands.join("\n")}\n` : text;
  };
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  };

  document.querySelectorAll("article div.highlight").forEach((block) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy this code");
    button.addEventListener("click", async () => {
      await copy(code(block));
      button.textContent = "Copied";
      button.focus();
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    block.append(button);
  });

  const reachable = () => {
    for (const one of document.querySelectorAll("article pre, article .table-wrapper")) {
      if (one.scrollWidth > one.clientWidth + 1) {
        one.tabIndex = 0;
        one.setAttribute("role", "group");
        one.setAttribute("aria-label", one.tagName === "PRE" ? "Code, scrolls sideways" : "Table, scrolls sideways");
      } else for (const name of ["tabindex", "role", "aria-label"]) one.removeAttribute(name);
    }
  };
  reachable();
  addEventListener("resize", reachable);
  addEventListener("load", reachable);
})();
