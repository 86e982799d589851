"""The OpenAI Agents SDK itself, with its own scripted model, on a gateway in the same process."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, RunResult
from agents.testing import ScriptedModel, assistant_message, function_call

from tests.frontends.adapters.agents import ASKED, DENIED, READ, WRONG, answer, recorded, world
from tests.messages import line_names
from toolgen.core.errors import ConfigError
from toolgen.frontends.adapters.openai_agents import tools
from toolgen.frontends.python.gateway import Gateway

QUIET = RunConfig(tracing_disabled=True)


def scripted(*steps: tuple[str, Mapping[str, Any] | str]) -> ScriptedModel:
    """A model that makes these calls in one turn, and then says "done"."""
    made = [
        function_call(name, arguments if isinstance(arguments, str) else dict(arguments), call_id=f"c{at}")
        for at, (name, arguments) in enumerate(steps)
    ]
    return ScriptedModel([made, [assistant_message("done")]])


def answers(result: RunResult) -> list[str]:
    """What the model was told of its calls, in their order."""
    items: list[Any] = result.to_input_list()
    told = {item["call_id"]: item["output"] for item in items if item.get("type") == "function_call_output"}
    return [str(told[call_id]) for call_id in sorted(told)]


async def ran(gateway: Gateway, *steps: tuple[str, Mapping[str, Any] | str], wait_s: float = 10) -> list[str]:
    agent = Agent(name="clerk", model=scripted(*steps), tools=tools(gateway, "bot", session="s1", wait_s=wait_s))
    result = await Runner.run(agent, "go", run_config=QUIET)
    assert result.final_output == "done"
    return answers(result)


async def test_a_call_is_governed_and_recorded(tmp_path: Path) -> None:
    async with world(tmp_path) as (gateway, seen):
        fine, denied, wrong = await ran(gateway, READ, DENIED, WRONG)
        assert json.loads(fine) == {"ok": True}
        assert denied.startswith("forbidden: ")
        assert wrong.startswith("forbidden: ")
        assert [request[1] for request in seen.requests] == ["/orders?tenant_id=acme"]
        assert len(recorded(gateway, "outcome")) == 3


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"tenant_id": NaN}', "[" * 200])
async def test_arguments_a_model_garbled_fail_their_own_call_alone(text: str, tmp_path: Path) -> None:
    async with world(tmp_path) as (gateway, seen):
        (made,) = (item for item in tools(gateway, "bot") if item.name == READ[0])
        told = await made.on_invoke_tool(None, text)  # type: ignore[union-attr, arg-type]
        assert told.startswith("validation: ")
        assert "JSON object" in told
        assert seen.requests == []


@pytest.mark.parametrize("approve", [True, False])
async def test_a_call_that_waits_for_a_person_is_answered_when_that_person_answers(
    approve: bool, tmp_path: Path
) -> None:
    async with world(tmp_path) as (gateway, seen):
        running = asyncio.create_task(ran(gateway, ASKED))
        lena = gateway.principal("lena")
        while not await gateway.approvals.answerable(lena):
            await gateway.approvals.calls.news.changed(0.02)
        await answer(gateway, approve=approve, note="" if approve else "no")
        (told,) = await running
        assert re.match(r'\{"ok":true\}$' if approve else "approval_denied: .*: no", told)
        assert len(seen.requests) == approve


async def test_a_call_that_nobody_answers_in_time_says_so(tmp_path: Path) -> None:
    async with world(tmp_path) as (gateway, seen):
        (told,) = await ran(gateway, ASKED, wait_s=0)
        assert told.startswith("approval_required: ")
        assert line_names(told, "not been executed", "call id call_")
        assert seen.requests == []


async def test_optional_arguments_stay_optional(tmp_path: Path) -> None:
    async with world(tmp_path) as (gateway, _):
        for item in tools(gateway, "bot"):
            assert item.strict_json_schema is False  # type: ignore[union-attr]
        (shown,) = (item for item in tools(gateway, "bot") if item.name == READ[0])
        assert shown.params_json_schema["required"] == ["tenant_id"]  # type: ignore[union-attr]
        assert "status" in shown.params_json_schema["properties"]  # type: ignore[union-attr]


async def test_a_principal_that_is_none_has_no_tools(tmp_path: Path) -> None:
    async with world(tmp_path) as (gateway, _):
        with pytest.raises(ConfigError):
            tools(gateway, "nobody")
