"""LangChain's agent and LangGraph's own nodes, with a scripted model, on a gateway in the same process."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy
from pydantic import PrivateAttr

from tests.frontends.adapters.agents import ASKED, ASKED_READ, DENIED, READ, answer, recorded, world
from tests.gateway.devices import HERE, Served, device_project
from tests.gateway.gateways import FakeGateway, tool
from toolgen.core.errors import ConfigError
from toolgen.frontends.adapters.calls import AdapterCaller
from toolgen.frontends.adapters.langgraph import GatewayTool, tools
from toolgen.frontends.python.gateway import Gateway

Step = tuple[str, dict[str, Any]]
THREAD: Any = {"configurable": {"thread_id": "t1"}}


def calls(*steps: Step) -> AIMessage:
    """A turn of a model that makes these calls."""
    made = [
        {"name": name, "args": arguments, "id": f"c{at}", "type": "tool_call"}
        for at, (name, arguments) in enumerate(steps)
    ]
    return AIMessage(content="", tool_calls=made)


class Scripted(BaseChatModel):
    """A model that takes its turns from a list, and then says "done"."""

    turns: list[list[Step]]
    _offered: list[list[str]] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_options: Any) -> Any:
        self._offered.append([item.name for item in tools])
        return self

    def _generate(self, messages: list[BaseMessage], *_more: Any, **_options: Any) -> ChatResult:
        spoken = sum(isinstance(message, AIMessage) for message in messages)
        message = calls(*self.turns[spoken]) if spoken < len(self.turns) else AIMessage(content="done")
        return ChatResult(generations=[ChatGeneration(message=message)])


def agent_of(gateway: Gateway, *turns: list[Step], keeps: bool = True, wait_s: float = 10) -> Any:
    made = tools(gateway, "bot", wait_s=wait_s)
    return create_agent(Scripted(turns=list(turns)), made, checkpointer=InMemorySaver() if keeps else None)


def node_of(made: list[BaseTool], **options: Any) -> Any:
    """LangGraph's ToolNode alone, which makes all calls of a turn in one task."""
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode(made), **options)
    graph.add_edge(START, "tools")
    return graph.compile(checkpointer=InMemorySaver())


def answers(state: Any) -> list[ToolMessage]:
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


async def test_a_call_is_governed_and_recorded(tmp_path: Path) -> None:
    async with world(tmp_path) as (gateway, seen):
        state = await agent_of(gateway, [READ, DENIED, ("orders__list_orders", {})]).ainvoke({"messages": "go"}, THREAD)
        fine, denied, wrong = answers(state)
        assert (fine.status, fine.content, fine.tool_call_id) == ("success", '{"ok":true}', "c0")
        assert fine.artifact["meta"]["audit_seq"] > 0
        assert (denied.status, str(denied.content).partition(":")[0]) == ("error", "forbidden")
        assert (wrong.status, str(wrong.content).partition(":")[0]) == ("error", "validation")
        assert "What to do:" in str(wrong.content)
        assert [request[1] for request in seen.requests] == ["/orders?tenant_id=acme"]
        assert len(recorded(gateway, "outcome")) == 3


@pytest.mark.parametrize("step", [ASKED, ASKED_READ], ids=["a write", "a read"])
@pytest.mark.parametrize("approve", [True, False])
async def test_a_call_that_waits_for_a_person_interrupts_and_is_resumed(
    step: Step, approve: bool, tmp_path: Path
) -> None:
    async with world(tmp_path) as (gateway, seen):
        agent = agent_of(gateway, [step])
        asked = await agent.ainvoke({"messages": "go"}, THREAD)
        (interrupt,) = asked["__interrupt__"]
        assert (interrupt.value["tool"], interrupt.value["arguments"]) == step
        assert seen.requests == []
        await answer(gateway, approve=approve, call_id=interrupt.value["call_id"], note="" if approve else "no")
        (told,) = answers(await agent.ainvoke(Command(resume=True), THREAD))
        if approve:
            assert (told.status, told.content, len(seen.requests)) == ("success", '{"ok":true}', 1)
            assert told.artifact["call_id"] == interrupt.value["call_id"]
        else:
            assert (told.status, seen.requests) == ("error", [])
            assert re.fullmatch(r"approval_denied: .*: no", str(told.content).partition("\n")[0])
        assert await gateway.approvals.answerable(gateway.principal("lena")) == (), "it was asked once"


async def test_resuming_is_no_answer(tmp_path: Path) -> None:
    async with world(tmp_path) as (gateway, seen):
        agent = agent_of(gateway, [ASKED], wait_s=0)
        first = (await agent.ainvoke({"messages": "go"}, THREAD))["__interrupt__"][0].value
        for said in (True, {"decision": "approve", "by": "lena"}, "approve"):
            again = (await agent.ainvoke(Command(resume=said), THREAD))["__interrupt__"][0].value
            assert again == first
        assert seen.requests == []
        assert len(await gateway.approvals.answerable(gateway.principal("lena"))) == 1


async def test_calls_beside_one_that_waits_are_made_once(tmp_path: Path) -> None:
    """A node that makes several calls begins again from its start when it is resumed."""
    rules = [{"id": "writes", "to": ["bot"], "tools": ["orders__create_order"], "verdict": "allow"},
             {"id": "asks", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "ask"}]  # fmt: skip
    async with world(tmp_path, rules=rules) as (gateway, seen):
        node = node_of(tools(gateway, "bot", wait_s=10))
        turn = calls(ASKED, ASKED, ("orders__send_mail", {"to": "ann"}), ("orders__send_mail", {"to": "ann"}))
        state = await node.ainvoke({"messages": [turn]}, THREAD)
        lena = gateway.principal("lena")
        while "__interrupt__" in state:
            for waiting in await gateway.approvals.answerable(lena):
                await gateway.approvals.decide(waiting.id, approve=True, note="", principal=lena)
            state = await node.ainvoke(Command(resume=True), THREAD)
        assert [message.status for message in answers(state)] == ["success"] * 4
        paths = sorted(request[1] for request in seen.requests)
        assert paths == ["/mail", "/mail", "/orders", "/orders"], "two calls of one turn are two calls, each made once"


async def test_without_a_checkpointer_the_model_is_told_what_a_call_waits_for(tmp_path: Path) -> None:
    async with world(tmp_path) as (gateway, seen):
        (told,) = answers(await agent_of(gateway, [ASKED], keeps=False).ainvoke({"messages": "go"}))
        assert told.status == "error"
        assert str(told.content).startswith("approval_required: ")
        assert "not been executed" in str(told.content)
        assert seen.requests == []


async def test_a_task_that_is_tried_again_does_not_repeat_what_it_did(tmp_path: Path) -> None:
    rules = [{"id": "writes", "to": ["bot"], "tools": ["orders__create_order"], "verdict": "allow"}]
    async with world(tmp_path, rules=rules) as (gateway, seen):
        (made,) = tools(gateway, "bot")
        failures = [ConnectionError("the node failed after its call")]

        async def work(state: MessagesState) -> dict[str, Any]:
            message = await made.ainvoke(state["messages"][-1].tool_calls[0])  # type: ignore[union-attr]
            if failures:
                raise failures.pop()
            return {"messages": [message]}

        graph = StateGraph(MessagesState)
        graph.add_node("work", work, retry_policy=RetryPolicy(max_attempts=2, initial_interval=0, jitter=False))
        graph.add_edge(START, "work")
        state = await graph.compile(checkpointer=InMemorySaver()).ainvoke({"messages": [calls(ASKED)]}, THREAD)
        assert [message.status for message in answers(state)] == ["success"]
        assert len(seen.requests) == 1


async def test_the_same_call_in_a_later_turn_is_another_call(tmp_path: Path) -> None:
    rules = [{"id": "writes", "to": ["bot"], "tools": ["orders__create_order"], "verdict": "allow"}]
    async with world(tmp_path, rules=rules) as (gateway, seen):
        state = await agent_of(gateway, [ASKED], [ASKED]).ainvoke({"messages": "go"}, THREAD)
        assert [(message.status, message.tool_call_id) for message in answers(state)] == [("success", "c0")] * 2
        assert len(seen.requests) == 2


@pytest.mark.parametrize(
    "name", ["config", "run_manager", "runtime", "state", "self", "callbacks", "tool_call_id", "args"]
)
async def test_an_argument_may_be_called_what_langchain_calls_its_own(name: str) -> None:
    fake = FakeGateway(tools=(tool("test__echo"),))
    taking: Any = GatewayTool.of(_caller(fake), tool("test__echo"), 0)
    taking.args_schema = {"type": "object", "properties": {name: {"type": "string"}}}
    turn = calls(("test__echo", {name: "mine"}))
    (message,) = answers(await node_of([taking]).ainvoke({"messages": [turn]}, THREAD))
    assert (message.status, message.content) == ("success", f'{{"{name}":"mine"}}')


def _caller(fake: FakeGateway) -> AdapterCaller:
    class Known(FakeGateway):
        entered = True
        current: Any = SimpleNamespace(compiled_policy=SimpleNamespace(tool=lambda _name: None))

        def named(self, _name: str) -> Any:
            return "bot"

    gateway: Any = Known(tools=fake.tools)
    return AdapterCaller(gateway=gateway, party="bot", client="test")


async def test_a_principal_that_is_none_has_no_tools(tmp_path: Path) -> None:
    async with world(tmp_path) as (gateway, _):
        with pytest.raises(ConfigError):
            tools(gateway, "nobody")


async def test_a_synchronous_call_says_what_to_use(tmp_path: Path) -> None:
    async with world(tmp_path) as (gateway, _):
        first = tools(gateway, "bot")[0]
        with pytest.raises(NotImplementedError, match="ainvoke"):
            await asyncio.to_thread(first.invoke, {})


async def test_a_call_for_the_users_device_interrupts_and_is_resumed_with_what_the_device_answers(
    tmp_path: Path,
) -> None:
    async with Served(device_project(tmp_path / "p")) as served:
        made = tools(served.gateway, served.gateway.principal("bot", "ann"), wait_s=60)
        model = Scripted(turns=[[("phone__get_location", {"reason": "x"})]])
        agent = create_agent(model, made, checkpointer=InMemorySaver())
        (interrupt,) = (await agent.ainvoke({"messages": "go"}, THREAD))["__interrupt__"]
        assert (await served.answer(interrupt.value["call_id"], result=HERE)).status_code == 200
        (told,) = answers(await agent.ainvoke(Command(resume=True), THREAD))
        assert told.artifact["data"]["latitude"] == 48.1
        assert told.artifact["call_id"] == interrupt.value["call_id"]
