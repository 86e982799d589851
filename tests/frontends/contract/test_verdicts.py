"""The same call has the same verdict, code, rule and record whichever front end it comes in by."""

from __future__ import annotations

import asyncio
import io
import json
import re
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import httpx
import msgspec
import pytest
from agents import FunctionTool
from agents.tool_context import ToolContext
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import FunctionModel

from tests.cli.commands import runner
from tests.exhaustive import spread
from tests.gateway.governed import project, upstream
from toolgen.audit.reader import entries
from toolgen.config.settings import load as load_settings
from toolgen.frontends.adapters.langgraph import tools as langchain_tools
from toolgen.frontends.adapters.openai_agents import tools as openai_tools
from toolgen.frontends.adapters.pydantic_ai import GatewayToolset
from toolgen.frontends.http.app import App
from toolgen.frontends.mcp.stdio import serve_streams
from toolgen.frontends.python.gateway import Gateway

pytestmark = pytest.mark.usefixtures("sql_processes")
POLICY: dict[str, Any] = {
    "rules": [
        {
            "id": "reads",
            "to": ["bot"],
            "tools": ["orders__list_orders", "orders__get_health", "orders__check_fraud", "shop__query"],
            "effects": ["read"],
            "arguments": {"properties": {"status": {"enum": ["open", "paid"]}}},
            "verdict": "allow",
        },
        {"id": "mail", "to": ["bot"], "tools": ["orders__send_mail"], "when": "args.to == 'ann'", "verdict": "allow"},
        {"id": "creates", "to": ["bot"], "tools": ["orders__create_order"], "verdict": "ask"},
        {"id": "never", "to": ["bot"], "tools": ["orders__check_fraud"], "when": "args.order == 'x'", "verdict": "deny"},
    ],
    "approvals": {"approvers": ["user"]},
    "limits": [{"id": "tiny", "per": ["tool"], "rate": "1/day", "burst": 100, "cost": {"orders__get_health": "100 + 1", "*": 0}}],
    "sql": {"shop": {"tables": {"customers": {"columns": ["id", "name"]}}}},
}  # fmt: skip
_ORDER = {"tenant_id": "acme", "amount_cents": 5}
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "allowed": ("orders__list_orders", {"tenant_id": "acme", "status": "open"}),
    "repaired": ("orders__create_order", {"tenant_id": "acme", "amount_cents": "5"}),
    "dropped": ("orders__list_orders", {"tenant_id": "acme", "other": 1}),
    "narrowed away": ("orders__list_orders", {"tenant_id": "acme", "status": "lost"}),
    "invalid": ("orders__list_orders", {"status": "open"}),
    "of the wrong type": ("orders__create_order", {"tenant_id": "acme", "amount_cents": [1]}),
    "unknown": ("orders__nothing", {}),
    "hidden": ("orders__delete_order", {"id": "o1"}),
    "condition": ("orders__send_mail", {"to": "eve"}),
    "denied": ("orders__check_fraud", {"order": "x"}),
    "asked": ("orders__create_order", _ORDER),
    "limited": ("orders__get_health", {}),
    "a statement": ("shop__query", {"sql": "SELECT name FROM customers ORDER BY id"}),
    "a refused statement": ("shop__query", {"sql": "SELECT email FROM customers"}),
    "a changing statement": ("shop__query", {"sql": "DELETE FROM customers"}),
}


class Ending(NamedTuple):
    """What a caller is told: how it ended, and the code ("" for a success)."""

    fine: bool
    code: str


Front: TypeAlias = Callable[[Gateway, str, dict[str, Any]], Awaitable[Ending]]
_HEADERS = {"authorization": "Bearer key-of-bot", "accept": "application/json, text/event-stream"}
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def told(text: str, *, fine: bool) -> Ending:
    return Ending(fine, "" if fine else text.partition(":")[0])


async def posted(gateway: Gateway, path: str, body: Any, **headers: str) -> Any:
    transport = httpx.ASGITransport(App(gateway))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080", headers=_HEADERS) as client:
        return (await client.post(path, json=body, headers=headers)).json()


async def ended(gateway: Gateway, answer: Any) -> Any:
    """How a call ended that may have been left, and waits for nobody."""
    while answer.get("error", {}).get("code") == "deferred":
        await asyncio.sleep(0.01)  # asking in the same process waits for nothing, and the call would never go on
        transport = httpx.ASGITransport(App(gateway))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080", headers=_HEADERS) as client:
            answer = (await client.get(f"/v1/calls/{answer['call_id']}")).json()
    return answer


async def over_rest(gateway: Gateway, name: str, arguments: dict[str, Any]) -> Ending:
    answer = await ended(gateway, await posted(gateway, f"/v1/tools/{name}/call", {"arguments": arguments, "wait": 0}))
    return Ending(answer["status"] == "ok", answer.get("error", {}).get("code", ""))


async def over_run_tool(gateway: Gateway, name: str, arguments: dict[str, Any]) -> Ending:
    inner = {"name": name, "arguments": arguments}
    answer = await ended(gateway, await posted(gateway, "/v1/tools/run_tool/call", {"arguments": inner, "wait": 0}))
    return Ending(answer["status"] == "ok", answer.get("error", {}).get("code", ""))


async def over_former_name(gateway: Gateway, name: str, arguments: dict[str, Any]) -> Ending:
    inner = {"name": name, "arguments": None, "args": arguments}
    answer = await ended(gateway, await posted(gateway, "/v1/tools/call_tool/call", {"arguments": inner, "wait": 0}))
    return Ending(answer["status"] == "ok", answer.get("error", {}).get("code", ""))


async def over_mcp_repeated(gateway: Gateway, name: str, arguments: dict[str, Any]) -> Ending:
    inner = {"arguments": {"name": name, "arguments": json.dumps(arguments)}}
    headers = {"mcp-protocol-version": "2025-11-25"}
    return of_mcp(await posted(gateway, "/mcp", message("run_tool", inner), **headers))


async def as_langchain(gateway: Gateway, name: str, arguments: dict[str, Any]) -> Ending:
    call = {"type": "tool_call", "id": "1", "name": name, "args": arguments}
    (answer,) = await posted(gateway, "/v1/tool_calls", [call])
    return told(answer["content"], fine=answer["status"] == "success")


async def as_openai_chat(gateway: Gateway, name: str, arguments: dict[str, Any]) -> Ending:
    call = {"type": "function", "id": "1", "function": {"name": name, "arguments": json.dumps(arguments)}}
    (answer,) = await posted(gateway, "/v1/tool_calls", [call])
    return told(answer["content"], fine=answer["content"].startswith("{"))


async def as_openai_responses(gateway: Gateway, name: str, arguments: dict[str, Any]) -> Ending:
    call = {"type": "function_call", "call_id": "1", "name": name, "arguments": json.dumps(arguments)}
    (answer,) = await posted(gateway, "/v1/tool_calls", [call])
    return told(answer["output"], fine=answer["output"].startswith("{"))


async def as_anthropic(gateway: Gateway, name: str, arguments: dict[str, Any]) -> Ending:
    (answer,) = await posted(
        gateway, "/v1/tool_calls", [{"type": "tool_use", "id": "1", "name": name, "input": arguments}]
    )
    return told(answer["content"], fine=not answer["is_error"])


def of_mcp(answer: Any) -> Ending:
    result = answer["result"]
    return told(result["content"][0]["text"], fine=not result["isError"])


def message(name: str, arguments: dict[str, Any], **params: Any) -> dict[str, Any]:
    params |= {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


async def over_mcp_2025(gateway: Gateway, name: str, arguments: dict[str, Any]) -> Ending:
    return of_mcp(await posted(gateway, "/mcp", message(name, arguments), **{"mcp-protocol-version": "2025-11-25"}))


async def over_mcp_2026(gateway: Gateway, name: str, arguments: dict[str, Any]) -> Ending:
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name}
    return of_mcp(await posted(gateway, "/mcp", message(name, arguments, _meta=_META), **headers))


async def over_stdio(gateway: Gateway, name: str, arguments: dict[str, Any]) -> Ending:
    sink = io.BytesIO()
    source = io.BytesIO(msgspec.json.encode(message(name, arguments)) + b"\n")
    await serve_streams(gateway, gateway.principal("bot"), source, sink)
    return of_mcp(msgspec.json.decode(sink.getvalue()))


async def in_process(gateway: Gateway, name: str, arguments: dict[str, Any]) -> Ending:
    envelope = await gateway.call(name, arguments, principal="bot")
    return Ending(envelope.status == "ok", envelope.error.code if envelope.error else "")


async def by_pydantic_ai(gateway: Gateway, name: str, arguments: dict[str, Any]) -> Ending:
    steps: list[ModelResponsePart] = [
        ToolCallPart("run_tool", {"name": name, "arguments": arguments}),
        TextPart("done"),
    ]
    model = FunctionModel(lambda _messages, _info: ModelResponse(parts=[steps.pop(0)]))
    agent = Agent(model, toolsets=[GatewayToolset[None](gateway, "bot")], output_type=[str, DeferredToolRequests])
    result = await agent.run("go")
    if isinstance(result.output, DeferredToolRequests):
        assert result.output.approvals
        return Ending(False, "approval_required")
    part = result.all_messages()[2].parts[0]
    assert isinstance(part, ToolReturnPart | RetryPromptPart)
    return Ending(True, "") if getattr(part, "outcome", "") == "success" else _code_of(str(part.content))


def _code_of(text: str) -> Ending:
    """The code of an error, wherever a framework puts its own words."""
    found = re.search(r"\b([a-z_]+): ", text)
    assert found is not None, text
    return Ending(False, found[1])


async def by_langchain(gateway: Gateway, name: str, arguments: dict[str, Any]) -> Ending:
    (made,) = (tool for tool in langchain_tools(gateway, "bot") if tool.name == "run_tool")
    call = {"type": "tool_call", "id": "1", "name": name, "args": {"name": name, "arguments": arguments}}
    answer = await made.ainvoke(call)
    return told(answer.content, fine=answer.status == "success")


async def by_openai_agents(gateway: Gateway, name: str, arguments: dict[str, Any]) -> Ending:
    made = next(tool for tool in openai_tools(gateway, "bot", wait_s=0) if tool.name == "run_tool")
    assert isinstance(made, FunctionTool)
    text = json.dumps({"name": name, "arguments": arguments})
    context = ToolContext(None, tool_name="run_tool", tool_call_id="1", tool_arguments=text)
    answer = str(await made.on_invoke_tool(context, text))
    return told(answer, fine=answer.startswith("{"))


FRONTS: list[Front] = [
    over_rest,
    over_run_tool,
    over_former_name,
    over_mcp_repeated,
    as_langchain,
    as_openai_chat,
    as_openai_responses,
    as_anthropic,
    over_mcp_2025,
    over_mcp_2026,
    over_stdio,
    in_process,
    by_pydantic_ai,
    by_langchain,
    by_openai_agents,
]
_SAME = (
    "event",
    "tool",
    "tool_digest",
    "principal",
    "verdict",
    "rule",
    "status",
    "code",
    "arguments",
    "repaired",
    "sql",
)


def made(root: Path, server: str) -> Path:
    path = project(root, server, POLICY)
    connection = sqlite3.connect(root / "specs" / "shop.db")
    connection.executescript("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, email TEXT);")
    connection.close()
    settings = json.loads(path.read_text())
    settings["sources"]["shop"] = {"sql": "sqlite:///specs/shop.db"}
    settings["gateway"] = {"search_above": 0}
    path.write_text(json.dumps(settings))
    return path


def recorded(path: Path) -> list[dict[str, Any]]:
    """What the record says of the call, without what differs from call to call."""
    found = [dict(entry) for entry in entries(load_settings(path).audit_dir)]
    return [{name: entry[name] for name in _SAME if name in entry} for entry in found]


async def one_call(
    path: Path, front: Front, name: str, arguments: dict[str, Any]
) -> tuple[Ending, list[dict[str, Any]]]:
    async with asyncio.timeout(120), Gateway.load(path) as gateway:
        ending = await front(gateway, name, arguments)
    return ending, recorded(path)


@pytest.mark.parametrize("case", spread(CALLS, 3))
async def test_a_call_ends_the_same_whatever_it_came_in_by(
    case: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, arguments = CALLS[case]
    with upstream() as (seen, server):
        endings, records, reached = {}, {}, {}
        for front in FRONTS:
            before = len(seen.requests)
            path = made(tmp_path / front.__name__, server)
            endings[front.__name__], records[front.__name__] = await one_call(path, front, name, arguments)
            reached[front.__name__] = seen.requests[before:]
        before = len(seen.requests)
        path = made(tmp_path / "command_line", server)
        monkeypatch.chdir(path.parent)
        shown = runner(capsysbinary)("call", name, "--args", json.dumps(arguments), "--as", "bot", "--json").json()
        endings["command_line"] = Ending(shown["status"] == "ok", shown.get("error", {}).get("code", ""))
        records["command_line"], reached["command_line"] = recorded(path), seen.requests[before:]
    expected = "in_process"
    assert {front: ending for front, ending in endings.items() if ending != endings[expected]} == {}, endings[expected]
    assert {front: entry for front, entry in records.items() if entry != records[expected]} == {}, records[expected]
    assert {front: sent for front, sent in reached.items() if sent != reached[expected]} == {}, reached[expected]
    assert len(records[expected]) >= 2
    assert endings[expected].fine is (case in {"allowed", "dropped", "a statement"})
