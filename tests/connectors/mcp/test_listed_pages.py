"""Lists of prompts, resources and templates that are longer than one page, through the gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.connectors.mcp.test_bridged_apps import ask, build, project, tell
from toolgen.frontends.mcp import context_methods

COUNT = 1_500
LISTS = {
    "prompts": ("prompts/list", "name"),
    "resources": ("resources/list", "uri"),
    "resourceTemplates": ("resources/templates/list", "uriTemplate"),
}
RULES: list[dict[str, Any]] = [
    {"id": "all", "to": ["bot"], "prompts": ["far__*"], "resources": ["far://*"], "verdict": "allow"}
]


def test_every_page_of_a_list_is_read_once(tmp_path: Path) -> None:
    assert COUNT > context_methods._PER_PAGE  # or the lists have one page
    path = project(tmp_path, allow=[], rules=RULES)
    numbers = [f"{number:04}" for number in range(COUNT)]
    tell(
        tmp_path,
        tools=[],
        prompts=[{"name": f"prompt-{number}", "description": "One."} for number in numbers],
        resources=[{"uri": f"far://one/{number}", "name": number} for number in numbers],
        resourceTemplates=[{"uriTemplate": f"far://of/{number}/{{id}}", "name": number} for number in numbers],
    )
    done = build(path)
    assert done.returncode == 0, done.stderr
    for member, (method, key) in LISTS.items():
        first, wrong = ask(path, (method, {}), (method, {"cursor": "%"}))
        assert wrong["error"]["code"] == -32602
        (second,) = ask(path, (method, {"cursor": first["nextCursor"]}))
        found = [one[key] for one in (*first[member], *second[member])]
        assert (len(found), len(set(found)), found) == (COUNT, COUNT, sorted(found))
        assert "nextCursor" not in second
