"""pydantic-ai itself, with a scripted model, on a gateway in the same process."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolApproved
from pydantic_ai.messages import ModelMessage, ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.frontends.adapters.agents import ASKED, ASKED_READ, DENIED, POLICY, READ, WRONG, recorded, world
from tests.gateway.devices import HERE, Served, device_project
from tests.gateway.governed import write_policy
from toolgen.core.errors import ConfigError, ToolgenError
from toolgen.frontends.adapters.pydantic_ai import GatewayToolset
from toolgen.frontends.python.gateway import Gateway

Step = tuple[str, dict[str, Any]]


def scripted(*turns: list[Step]) -> tuple[FunctionModel, list[AgentInfo]]:
    """A model that makes these calls turn by turn and then says "done"; and what it was offered each time."""
    left, seen = list(turns), []

    def reply(_messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info)
        if not left:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart(name, arguments) for name, arguments in left.pop(0)])

    return FunctionModel(reply), seen


def agent_of(model: FunctionModel, gateway: Gateway, **options: Any) -> Agent[None, str | DeferredToolRequests]:
    toolset = GatewayToolset[None](gateway, "bot", wait_s=10, **options)
    return Agent(model, toolsets=[toolset], output_type=[str, DeferredToolRequests])


def answers(messages: list[ModelMessage]) -> list[tuple[str, str]]:
    """What the model was told of its calls, in order: how it is marked, and the text."""
    parts = [part for message in messages for part in message.parts]
    return [
        (getattr(part, "outcome", "retry"), str(part.content))
        for part in parts
        if isinstance(part, ToolReturnPart | RetryPromptPart)
    ]


async def test_a_call_is_governed_and_recorded(tmp_path: Path) -> None:
    async with world(tmp_path) as (gateway, seen):
        model, offered = scripted([READ, DENIED])
        result = await agent_of(model, gateway).run("go")
        assert result.output == "done"
        assert [tool.name for tool in offered[0].function_tools] == [
            tool.name for tool in gateway.tool_calls.catalog(gateway.principal("bot"))
        ]
        first, second = answers(result.all_messages())
        assert first == ("success", "{'ok': True}")
        assert second[0] == "failed"
        assert second[1].startswith("forbidden: ")
        assert [request[1] for request in seen.requests] == ["/orders?tenant_id=acme"]
        assert sorted(recorded(gateway, "outcome")) == [(DENIED[0], "refused"), (READ[0], "ok")]


async def test_what_other_arguments_can_put_right_is_a_retry_and_the_budget_holds(tmp_path: Path) -> None:
    async with world(tmp_path) as (gateway, seen):
        model, _ = scripted([("orders__list_orders", {})], [READ])
        result = await agent_of(model, gateway).run("go")
        first, second = answers(result.all_messages())
        assert "validation: " in first[1]
        assert "tenant_id" in first[1]
        assert second[0] == "success"
        model, _ = scripted([WRONG])
        told = answers((await agent_of(model, gateway).run("go")).all_messages())
        assert told[0][0] == "failed", "a rule's narrowing is a refusal"
        assert len(seen.requests) == 1


@pytest.mark.parametrize("step", [ASKED, ASKED_READ], ids=["a write", "a read"])
@pytest.mark.parametrize("approve", [True, False])
async def test_a_call_that_waits_for_a_person_defers_and_is_resumed(step: Step, approve: bool, tmp_path: Path) -> None:
    async with world(tmp_path) as (gateway, seen):
        model, _ = scripted([step])
        toolset = GatewayToolset[None](gateway, "bot", wait_s=10)
        agent = Agent(model, toolsets=[toolset], output_type=[str, DeferredToolRequests])
        asked = await agent.run("go")
        assert isinstance(asked.output, DeferredToolRequests)
        (call,) = asked.output.approvals
        told = asked.output.metadata[call.tool_call_id]
        assert (told["tool"], told["arguments"], told["rule"]) == (*step, "asks")
        assert seen.requests == []
        results = await toolset.decide(
            asked.output, {call.tool_call_id: approve}, by="lena", note="not today" if not approve else ""
        )
        done = await agent.run(message_history=asked.all_messages(), deferred_tool_results=results)
        assert done.output == "done"
        ((mark, text),) = answers(done.new_messages())
        if approve:
            assert (mark, text, len(seen.requests)) == ("success", "{'ok': True}", 1)
        else:
            assert mark == "failed"
            assert re.match(r"approval_denied: .*: not today", text)
            assert seen.requests == []
        assert [verdict for _, verdict in recorded(gateway, "decision")] == (["approve"] if approve else ["refused"])


async def test_an_application_cannot_approve_by_itself(tmp_path: Path) -> None:
    async with world(tmp_path) as (gateway, seen):
        model, _ = scripted([ASKED])
        toolset = GatewayToolset[None](gateway, "bot", wait_s=0)
        agent = Agent(model, toolsets=[toolset], output_type=[str, DeferredToolRequests])
        asked = await agent.run("go")
        assert isinstance(asked.output, DeferredToolRequests)
        (call,) = asked.output.approvals
        yes = DeferredToolResults(approvals={call.tool_call_id: True}, metadata=asked.output.metadata)
        again = await agent.run(message_history=asked.all_messages(), deferred_tool_results=yes)
        assert isinstance(again.output, DeferredToolRequests), "nobody has answered at the gateway"
        assert again.output.metadata == asked.output.metadata
        with pytest.raises(ToolgenError, match="may not answer"):
            await toolset.decide(asked.output, {call.tool_call_id: True}, by="bot")
        with pytest.raises(ConfigError):
            await toolset.decide(asked.output, {call.tool_call_id: True}, by="nobody")
        assert seen.requests == []


async def test_edited_arguments_are_another_call_and_the_first_is_withdrawn(tmp_path: Path) -> None:
    async with world(tmp_path) as (gateway, seen):
        model, _ = scripted([ASKED])
        agent = agent_of(model, gateway)
        asked = await agent.run("go")
        assert isinstance(asked.output, DeferredToolRequests)
        (call,) = asked.output.approvals
        edited = {**ASKED[1], "amount_cents": 4}
        yes = DeferredToolResults(
            approvals={call.tool_call_id: ToolApproved(override_args=edited)}, metadata=asked.output.metadata
        )
        again = await agent.run(message_history=asked.all_messages(), deferred_tool_results=yes)
        assert isinstance(again.output, DeferredToolRequests)
        (waiting,) = await gateway.approvals.answerable(gateway.principal("lena"))
        assert waiting.arguments == edited
        assert recorded(gateway, "decision") == [(ASKED[0], "cancelled")]
        assert seen.requests == []


async def test_the_policy_in_force_decides_at_each_step(tmp_path: Path) -> None:
    async with world(tmp_path) as (gateway, seen):
        model, offered = scripted([READ])
        agent = agent_of(model, gateway)
        await agent.run("go")
        rules = [{"id": "r", "to": ["bot"], "tools": ["orders__get_health"], "verdict": "allow"}]
        write_policy(tmp_path, {**POLICY, "rules": rules})
        assert await gateway.operations.reload()
        await agent.run("go")
        assert [tool.name for tool in offered[-1].function_tools] == ["orders__get_health"]
        write_policy(tmp_path, {"principals": {"lena": {"roles": ["lead"]}}, "rules": []})
        assert await gateway.operations.reload()
        with pytest.raises(ConfigError):
            await agent.run("go")
        assert len(seen.requests) == 1


async def test_turns_are_counted_where_a_conversation_is_named(tmp_path: Path) -> None:
    async with world(tmp_path) as (gateway, seen):
        for session, most in (({}, 6), ({"session": lambda ctx: ctx.run_id}, 4)):
            model, _ = scripted(*[[READ]] * 6)
            told = answers((await agent_of(model, gateway, **session).run("go")).all_messages())
            assert [mark for mark, _ in told].count("success") == most
        assert told[-1][1].startswith("turn_limit: ")
        assert len(seen.requests) == 10


async def test_each_run_may_serve_another_principal(tmp_path: Path) -> None:
    rules = [
        *POLICY["rules"],
        {"id": "lead", "to": ["lead"], "tools": ["orders__list_orders"], "verdict": "allow"},
    ]
    async with world(tmp_path, rules=rules) as (gateway, _):
        model, offered = scripted()
        agent = Agent(model, deps_type=str, toolsets=[GatewayToolset[str](gateway, lambda ctx: ctx.deps)])
        await agent.run("go", deps="lena")
        await agent.run("go", deps="bot")
        first, second = ([tool.name for tool in info.function_tools] for info in offered)
        assert first == ["orders__list_orders"]
        assert len(second) == 4


@pytest.mark.parametrize(
    ("said", "mark", "text"),
    [({"result": HERE}, "success", "48.1"), ({"error": {"code": -32001, "message": "no"}}, "failed", "forbidden: ")],
)
async def test_a_call_for_the_users_device_defers_and_is_resumed_with_what_the_device_answers(
    tmp_path: Path, said: dict[str, Any], mark: str, text: str
) -> None:
    async with Served(device_project(tmp_path / "p")) as served:
        model, _ = scripted([("phone__get_location", {"reason": "x"})])
        toolset = GatewayToolset[None](served.gateway, served.gateway.principal("bot", "ann"), wait_s=60)
        agent = Agent(model, toolsets=[toolset], output_type=[str, DeferredToolRequests])
        asked = await agent.run("go")
        assert isinstance(asked.output, DeferredToolRequests)
        (call,) = asked.output.calls
        assert asked.output.approvals == []
        early = await toolset.answers(asked.output, wait_s=0)
        assert early.calls == {}
        assert asked.output.remaining(early) is not None
        assert (await served.answer(asked.output.metadata[call.tool_call_id]["call_id"], **said)).status_code == 200
        results = await toolset.answers(asked.output)
        done = await agent.run(message_history=asked.all_messages(), deferred_tool_results=results)
        assert done.output == "done"
        ((marked, told),) = answers(done.new_messages())
        assert marked == mark
        assert text in told
        other = GatewayToolset[None](served.gateway, lambda _: "bot")
        with pytest.raises(ConfigError, match="principal="):
            await other.answers(asked.output)
