"""Calls inside of calls: code that would run code, and workflows that would run themselves, whatever stands in between."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.sandboxes import RUN
from tests.gateway.workflows import ALLOWED, project, record, serving
from toolgen.frontends.python.gateway import Gateway

FUNCTIONS = '''
import toolgen

def relay(number):
    @toolgen.tool(name=f"relay{number}", effect="write", idempotent=False)
    async def function(tool: str, arguments: dict, ctx: toolgen.ToolContext) -> dict:
        """Calls another tool."""
        result = await ctx.call(tool, arguments)
        error = result.error
        return {"status": result.status, "rule": error.rule if error else "", "data": result.data}
    return function

relay1, relay2, relay3, relay4, relay5, relay6, relay7 = map(relay, range(1, 8))

@toolgen.tool(effect="read")
async def failing(code: str) -> str:
    """Fails."""
    raise ConnectionError("down")
'''
RELAY, INNER = "helpers__relay1", "1 + 1"
FLOWS: dict[str, Any] = {
    "through": {
        "inputs": {"code": {"type": "string"}},
        "steps": [{"id": "a", "call": RUN, "with": {"code": "$inputs.code"}}],
    },
    "circle": {"steps": [{"id": "a", "call": RELAY, "with": {"tool": "flows__circle", "arguments": {}}}]},
}


@asynccontextmanager
async def opened(root: Path, **policy: Any) -> AsyncIterator[Gateway]:
    """Gateway of a project of workflows, sandboxes and functions that call tools."""
    with serving() as (_, server):
        path = project(root, server, FLOWS, **policy)
        module = f"helpers_{abs(hash(root))}"
        (root / f"{module}.py").write_text(FUNCTIONS, encoding="utf-8")
        settings = json.loads(path.read_text())
        settings["sources"] |= {"sandbox": {"code": {}}, "other": {"code": {}}, "helpers": {"python": module}}
        path.write_text(json.dumps(settings))
        async with Gateway.load(path) as gateway:
            yield gateway


def code_of(tool: str, arguments: dict[str, Any]) -> str:
    return f"await run_tool({tool!r}, {arguments!r})"


@pytest.mark.parametrize("between", ["function", "functions", "workflow", "another sandbox", "function and workflow"])
async def test_code_does_not_run_code_whatever_is_in_between(tmp_path: Path, between: str) -> None:
    inner = {"code": INNER}
    to_code = {"tool": RUN, "arguments": inner}
    code = {
        "function": code_of(RELAY, to_code),
        "functions": code_of(RELAY, {"tool": "helpers__relay2", "arguments": to_code}),
        "workflow": code_of("flows__through", inner),
        "another sandbox": code_of(RELAY, {**to_code, "tool": "other__run_code"}),
        "function and workflow": code_of(RELAY, {"tool": "flows__through", "arguments": inner}),
    }[between]

    async with opened(tmp_path) as gateway:
        alone: Any = await gateway.call(RELAY, to_code, principal="bot")
        nested = await gateway.call(RUN, {"code": code}, principal="bot")
    entries = record(tmp_path)
    assert (alone.data["status"], alone.data["data"]["result"]) == ("ok", 2)  # a function may run code
    said = json.dumps(nested.to_dict())
    assert any(one in said for one in ('"recursion"', "call itself", "not run code"))
    runs = [entry for entry in entries if entry["event"] == "intent" and entry["tool"].endswith("__run_code")]
    assert len(runs) == 2  # that of the function, and the outer one


async def test_a_workflow_does_not_run_inside_of_itself(tmp_path: Path) -> None:
    async with opened(tmp_path) as gateway:
        answer: Any = await gateway.call("flows__circle", {}, principal="bot")
    entries = record(tmp_path)
    (step,) = answer.data["outputs"].values() if "outputs" in answer.data else answer.data.values()
    assert (step["status"], step["rule"]) == ("refused", "recursion")
    assert [entry["tool"] for entry in entries if entry["event"] == "intent"] == ["flows__circle", RELAY]


async def test_an_approval_in_between_does_not_make_a_call_the_first_of_its_kind(tmp_path: Path) -> None:
    rules = [
        {**ALLOWED, "tools": [RUN, "flows__*"]},
        {"id": "asks", "to": ["bot"], "tools": [RELAY], "verdict": "ask"},
    ]

    policy = {"rules": rules, "approvals": {"approvers": ["lead"], "expires": "1h"}}
    async with opened(tmp_path, **policy) as gateway:
        code = code_of(RELAY, {"tool": RUN, "arguments": {"code": INNER}})
        await gateway.call(RUN, {"code": code}, principal="bot")
        lead = gateway.principal("lead")
        (waiting,) = await gateway.approvals.answerable(lead)
        assert waiting.ancestry == (RUN,)
        await gateway.approvals.decide(waiting.id, approve=True, note="", principal=lead)
        answer: Any = await gateway.approvals.calls.outcome(waiting.id, gateway.principal("bot"), 30)
    entries = record(tmp_path)
    assert (answer.status, answer.data["rule"]) == ("ok", "recursion")
    assert [entry["tool"] for entry in entries if entry["event"] == "intent"].count(RUN) == 1


async def test_functions_may_call_one_another_up_to_the_depth(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"tool": "notes__search_issues", "arguments": {}}
    for number in range(7, 1, -1):
        arguments = {"tool": f"helpers__relay{number}", "arguments": arguments}

    async with opened(tmp_path) as gateway:
        answer: Any = await gateway.call(RELAY, arguments, principal="bot")
    entries = record(tmp_path)
    found, levels = answer.data, 0
    while found["status"] == "ok":
        found, levels = found["data"], levels + 1
    assert (found["rule"], levels) == ("depth", 5)
    assert len([entry for entry in entries if entry["event"] == "intent"]) == 6
