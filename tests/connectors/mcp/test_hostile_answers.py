"""Tools, prompts and resources of one hostile server: each answers wrongly in each way, and costs nobody else anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.mcp.test_bridged_context import STATE, build, calls, opened, tell
from tests.connectors.mcp.test_bridged_context import _project as _unbuilt  # noqa: F401 - the fixture
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.context_policy import Reader

RULES = """
principals: {bot: {roles: [bot]}}
rules:
  - {id: some, to: [bot], prompts: ["*"], resources: ["far://*"], verdict: allow}
  - {id: tools, to: [bot], tools: ["far__*"], effects: [destructive], verdict: allow}
"""
TOOL = {"name": "act", "description": "Acts.", "inputSchema": {"type": "object"}}
NAMES = {"tool": "act", "prompt": "write-letter", "resource": "far://notes"}


@pytest.fixture(name="built")
def _built(project: Path) -> Path:
    (project.parent / "policies" / "policy.yaml").write_text(RULES, encoding="utf-8")
    tell(project.parent, {**STATE, "tools": [TOOL]})
    assert build(project) == 0
    return project


async def asked(gateway: Gateway, bot: Reader, kind: str) -> tuple[str, str]:
    """The code of the error, and what is answered."""
    match kind:
        case "tool":
            found: Any = await gateway.call("far__act", {}, principal="bot")
            return (found.error.code if found.error else ""), json.dumps(found.data)
        case "prompt":
            found = await gateway.context.get("far__write-letter", {"to": "Ann"}, bot)
            return getattr(found, "code", ""), json.dumps(getattr(found, "messages", ()))
        case _:
            found = await gateway.context.read("far://notes", bot)
            return getattr(found, "code", ""), found[0].text if isinstance(found, tuple) else ""


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize(
    ("answer", "codes", "text"),
    [
        ("hang", {"upstream_timeout", "outcome_unknown"}, ""),
        ("big", {"response_too_large", "outcome_unknown"}, ""),
        ("deep", {"upstream_error", "outcome_unknown"}, ""),
        ("flood", {""}, "after the flood"),
        ("other", {""}, "own answer"),
    ],
)
async def test_a_wrong_answer_is_an_error_of_its_own(
    built: Path, kind: str, answer: str, codes: set[str], text: str
) -> None:
    tell(built.parent, {**STATE, "tools": [TOOL], "answers": {**STATE["answers"], NAMES[kind]: answer}})

    async with opened(built) as (gateway, bot):
        code, said = await asked(gateway, bot, kind)
        assert code in codes
        assert text in said
        assert len(said) < 1_000
        assert calls(built.parent)[-1].endswith(NAMES[kind])
        if answer != "hang":  # this server answers one request after the other
            (user,) = await gateway.context.read("far://users/7", bot)  # type: ignore[misc]
            assert user.text == "ann@example.com"
