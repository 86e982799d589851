"""axe-core in a page of the console."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import axe_playwright_python
from playwright.sync_api import Page

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")


def violations(page: Page) -> list[str]:
    """What axe-core finds on a page, however small."""
    page.evaluate(AXE)  # over the debugger's protocol: the page's own policy lets no script in
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{item['id']}: {node['target']} {node['failureSummary']}"
        for item in found["violations"]
        for node in item["nodes"]
    ]
