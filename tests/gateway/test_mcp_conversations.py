"""What a call says and asks before its answer, over MCP of both eras: progress, questions, approvals, and tools that change."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import re
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from tests.gateway.clients import bearer, listening, serving
from tests.projects import audit_entries
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

_NUMBERS = itertools.count()
MODES = ("legacy", "2026-07-28")
STATELESS = "2026-07-28"
TOOLS = '''
from __future__ import annotations
import asyncio
import toolgen

SENT = []
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

@toolgen.tool(effect="read")
async def count(ctx: toolgen.ToolContext) -> int:
    """Counts."""
    for step in (1, 1, 2, 3):
        ctx.progress(step, 3, f"step {step}")
        await asyncio.sleep(0)
    return 3

@toolgen.tool(effect="write")
async def greet(ctx: toolgen.ToolContext) -> str:
    """Greets."""
    answer = await ctx.elicit("Who are you?", NAME, key="who")
    if not answer.accepted:
        return answer.action
    SENT.append(answer.content["name"])
    return "Hello, " + str(answer.content["name"])

@toolgen.tool(effect="destructive")
async def drop(table: str) -> str:
    """Drops a table."""
    SENT.append(table)
    return "dropped " + table
'''


def policy(approvals: str = "", tools: str = '["*"]') -> str:
    key = {name: "sha256:" + hashlib.sha256(f"key-of-{name}".encode()).hexdigest() for name in ("bot", "eve", "lead")}
    return f"""
principals:
  bot: {{api_key: "{key["bot"]}", roles: [bot]}}
  eve: {{api_key: "{key["eve"]}", roles: [bot]}}
  lead: {{api_key: "{key["lead"]}", roles: [lead]}}
rules:
  - {{id: all, to: [bot], tools: {tools}, verdict: allow}}
{approvals}
"""


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., Path]:
    """A project of these functions under a policy, in a module that no other test has imported."""

    def make(approvals: str = "") -> Path:
        module = f"conversations_{next(_NUMBERS)}"
        (tmp_path / f"{module}.py").write_text(TOOLS, encoding="utf-8")
        (tmp_path / "policies").mkdir(exist_ok=True)
        (tmp_path / "policies" / "policy.yaml").write_text(policy(approvals), encoding="utf-8")
        path = tmp_path / "toolgen.yaml"
        path.write_text(f"sources: {{own: {{python: {module}}}}}\naudit: {{dir: audit}}\n", encoding="utf-8")
        return path

    return make


@contextlib.asynccontextmanager
async def talking(url: str, mode: str, answer: Any = None, *, who: str = "bot") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=bearer(f"key-of-{who}")) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, elicitation_callback=answer) as client,
    ):
        yield client


def saying(asked: list[Any], action: str, content: Any = None) -> Any:
    """What a person answers; what they were asked is added to `asked`."""

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params)
        return types.ElicitResult(action=action, content=content)

    return answer


def text(result: Any) -> str:
    return str(result.content[0].text)


def sent(gateway: Gateway) -> list[str]:
    binding: Any = gateway.manifest.tools["own__drop"].binding
    module = sys.modules.get(binding.module)
    return [] if module is None else list(module.SENT)


@pytest.mark.parametrize("mode", MODES)
async def test_progress_is_told_to_whoever_asked_and_only_grows(mode: str, project: Callable[..., Path]) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with serving(project()) as (_, url), talking(url, mode) as client:
        result = await client.call_tool("own__count", {}, progress_callback=tell)
        assert text(result) == "3"
        assert told == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]
        assert text(await client.call_tool("own__count", {})) == "3"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("action", "content", "said"),
    [("accept", {"name": "Ann"}, "Hello, Ann"), ("decline", None, "decline"), ("cancel", None, "cancel")],
)
async def test_a_function_asks_the_person(
    mode: str, action: str, content: Any, said: str, project: Callable[..., Path]
) -> None:
    asked: list[Any] = []
    async with serving(project()) as (gateway, url):
        async with talking(url, mode, saying(asked, action, content)) as client:
            assert text(await client.call_tool("own__greet", {})) == said
        assert [one.message for one in asked] == ["Who are you?"]
        assert sent(gateway) == (["Ann"] if content else [])


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_that_cannot_be_asked_is_told_so(mode: str, project: Callable[..., Path]) -> None:
    async with serving(project()) as (_, url), talking(url, mode) as client:
        result = await client.call_tool("own__greet", {})
        assert result.is_error
        assert "cannot answer questions" in text(result)
        cancel_requested = await client.call_tool("own__drop", {"table": "t"})
        assert text(cancel_requested).startswith("cancelled:")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("action", "content", "said", "done"),
    [
        ("accept", {"approve": True}, "dropped \u202eorders", ["\u202eorders"]),
        ("accept", {"approve": False}, "approval_denied:", []),
        ("decline", None, "approval_denied:", []),
        ("cancel", None, "cancelled:", []),
        ("accept", {}, "cancelled:", []),
    ],
)
async def test_the_person_at_the_client_approves_exactly_what_is_shown(
    mode: str, action: str, content: Any, said: str, done: list[str], project: Callable[..., Path]
) -> None:
    asked: list[Any] = []
    async with serving(project()) as (gateway, url):
        async with talking(url, mode, saying(asked, action, content)) as client:
            result = await client.call_tool("own__drop", {"table": "\u202eorders"})
        assert text(result).startswith(said)
        assert sent(gateway) == done
        (shown,) = asked
        assert "own__drop (destructive)" in shown.message
        assert 'table = "\\u202eorders"' in shown.message
        decisions = [entry for entry in audit_entries(gateway) if entry["event"] == "decision"]
        (decision,) = decisions
        # Nobody else could agree, so without an answer the gateway itself ends the call.
        assert decision.get("principal", "") == ("" if said.startswith("cancelled") else "bot")
        assert "gave no answer" in text(result) or not said.startswith("cancelled")


NO_ANSWERS = [
    ("cancel", None),
    ("accept", {}),
    ("accept", {"approve": "yes"}),
    ("accept", None),
    ("error", None),
]


@pytest.mark.parametrize(
    ("mode", "action", "content"),
    # A client of 2026-07-28 has no way to answer a question with an error.
    [(mode, *given) for mode in MODES for given in NO_ANSWERS if mode == "legacy" or given[0] != "error"],
)
async def test_what_is_no_answer_leaves_the_call_to_the_approvers(
    mode: str, action: str, content: Any, project: Callable[..., Path]
) -> None:
    """The caller is told that it waits, and by which id; an approver's answer counts, and the person is not asked again."""

    asked: list[Any] = []

    async def answer(context: Any, params: types.ElicitRequestParams) -> Any:
        asked.append(params)
        if action == "error":
            return types.ErrorData(code=-32603, message="no form here")
        return types.ElicitResult.model_construct(action=action, content=content)

    async with serving(project("approvals: {approvers: [lead], elicitation: allow}")) as (gateway, url):
        async with talking(url, mode, answer) as client:
            result = await client.call_tool("own__drop", {"table": "t"})
        assert result.is_error
        assert re.match(r"approval_required: .* role lead ", text(result))
        (call_id,) = set(re.findall(r"call_[0-9a-f]{24}", text(result)))
        assert (len(asked), sent(gateway)) == (1, [])
        approvals, lead = gateway.approvals, gateway.principal("lead")
        bot = gateway.principal("bot")
        (waiting,) = await approvals.answerable(lead)
        assert (waiting.id, approvals.shown_to_caller(waiting)) == (call_id, None)
        await approvals.decide(call_id, approve=True, note="", principal=lead)
        outcome = await approvals.calls.outcome(call_id, bot, 60)
        assert outcome is not None
        assert (outcome.status, sent(gateway)) == ("ok", ["t"])


async def test_a_person_who_gave_no_answer_may_still_give_it(project: Callable[..., Path]) -> None:
    """2026-07-28: a state that is sent again is told how the call stands, and brings the answer once there is one."""
    path = project("approvals: {approvers: [lead], elicitation: allow}")
    async with serving(path) as (gateway, url), httpx2.AsyncClient(headers=bearer("key-of-bot")) as http:
        call = {"name": "own__drop", "arguments": {"table": "t"}}
        first = (await post(http, url, body("tools/call", call)))["result"]
        for answers in ({"approval": {}}, {}, {"approval": {"action": "accept", "content": {"approve": True}}}):
            again = {**call, "inputResponses": answers, "requestState": first["requestState"]}
            told = (await post(http, url, body("tools/call", again)))["result"]
            said = "dropped t" if answers.get("approval") else "approval_required:"
            assert told["content"][0]["text"].startswith(said), told
        assert sent(gateway) == ["t"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("elicitation", "asks"), [("", False), (", elicitation: deny", False), (", elicitation: allow", True)]
)
async def test_where_approvers_are_named_the_person_at_the_client_answers_only_if_the_policy_says_so(
    mode: str, elicitation: str, asks: bool, project: Callable[..., Path]
) -> None:
    asked: list[Any] = []
    path = project(f"approvals: {{approvers: [lead]{elicitation}}}")
    async with serving(path) as (gateway, url):
        async with talking(url, mode, saying(asked, "accept", {"approve": True})) as client:
            result = await client.call_tool("own__drop", {"table": "t"})
        assert bool(asked) is asks
        assert sent(gateway) == (["t"] if asks else [])
        assert ("approval_required" in text(result)) is not asks


def body(method: str, params: dict[str, Any], *, capabilities: Any = None, request: Any = 1) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}} if capabilities is None else capabilities,
    }
    return {"jsonrpc": "2.0", "id": request, "method": method, "params": {**params, "_meta": meta}}


async def post(http: httpx2.AsyncClient, url: str, message: dict[str, Any]) -> dict[str, Any]:
    headers = {
        "mcp-protocol-version": STATELESS,
        "mcp-method": message["method"],
        "accept": "application/json, text/event-stream",
    }
    if name := message["params"].get("name"):
        headers["mcp-name"] = name
    answer = await http.post(url, json=message, headers=headers)
    found: dict[str, Any] = answer.json()
    return found


ACCEPTED = {"who": {"action": "accept", "content": {"name": "Ann"}}}


async def test_a_round_of_a_call_that_changes_something_happens_once(project: Callable[..., Path]) -> None:
    async with serving(project()) as (gateway, url), httpx2.AsyncClient(headers=bearer("key-of-bot")) as http:
        call = {"name": "own__greet", "arguments": {}}
        first = (await post(http, url, body("tools/call", call)))["result"]
        assert (first["resultType"], [*first["inputRequests"]]) == ("input_required", ["who"])
        again = {**call, "inputResponses": ACCEPTED, "requestState": first["requestState"]}
        answers = [await post(http, url, body("tools/call", again)) for _ in range(3)]
        assert {answer["result"]["content"][0]["text"] for answer in answers} == {"Hello, Ann"}
        assert sent(gateway) == ["Ann"]
        # Without a state of ours, an answer to a question nobody asked yet is none.
        unasked = await post(http, url, body("tools/call", {**call, "inputResponses": ACCEPTED}))
        assert unasked["result"]["resultType"] == "input_required"
        assert sent(gateway) == ["Ann"]


async def test_an_approval_counts_once_however_often_its_state_is_sent(project: Callable[..., Path]) -> None:
    async with serving(project()) as (gateway, url), httpx2.AsyncClient(headers=bearer("key-of-bot")) as http:
        call = {"name": "own__drop", "arguments": {"table": "t"}}
        first = (await post(http, url, body("tools/call", call)))["result"]
        yes = {"approval": {"action": "accept", "content": {"approve": True}}}
        again = {**call, "inputResponses": yes, "requestState": first["requestState"]}
        answers = await asyncio.gather(*(post(http, url, body("tools/call", again, request=n)) for n in range(4)))
        assert {answer["result"]["content"][0]["text"] for answer in answers} == {"dropped t"}
        assert sent(gateway) == ["t"]


async def test_a_state_is_of_one_caller_one_tool_and_its_arguments(project: Callable[..., Path]) -> None:
    async with serving(project()) as (gateway, url), httpx2.AsyncClient(headers=bearer("key-of-bot")) as http:
        call = {"name": "own__drop", "arguments": {"table": "t"}}
        state = (await post(http, url, body("tools/call", call)))["result"]["requestState"]
        yes = {"approval": {"action": "accept", "content": {"approve": True}}}
        go_on = {"inputResponses": yes, "requestState": state}
        wrong = [
            {**call, **go_on, "arguments": {"table": "other"}},
            {**call, **go_on, "name": "own__greet", "arguments": {}},
            {**call, **go_on, "requestState": state[:-4] + "AAAA"},
            {**call, **go_on, "requestState": ""},
            {**call, **go_on, "requestState": 5},
            {**call, **go_on, "requestState": "é" * 300_000},
            {**call, **go_on, "inputResponses": []},
            {**call, **go_on, "inputResponses": {"approval": 5}},
            {**call, **go_on, "inputResponses": {str(n): {} for n in range(100)}},
        ]
        for params in wrong:
            assert (await post(http, url, body("tools/call", params)))["error"]["code"] == -32602
        async with httpx2.AsyncClient(headers=bearer("key-of-eve")) as eve:
            stolen = await post(eve, url, body("tools/call", {**call, **go_on}))
            assert stolen["error"]["code"] == -32602
        assert sent(gateway) == []


async def test_an_approval_is_not_taken_after_the_policy_stopped_taking_them(project: Callable[..., Path]) -> None:
    path = project()
    async with serving(path) as (gateway, url), httpx2.AsyncClient(headers=bearer("key-of-bot")) as http:
        call = {"name": "own__drop", "arguments": {"table": "t"}}
        state = (await post(http, url, body("tools/call", call)))["result"]["requestState"]
        changed = policy("approvals: {approvers: [lead]}")
        (path.parent / "policies" / "policy.yaml").write_text(changed, encoding="utf-8")
        await gateway.operations.reload()
        yes = {"approval": {"action": "accept", "content": {"approve": True}}}
        await post(http, url, body("tools/call", {**call, "inputResponses": yes, "requestState": state}))
        assert sent(gateway) == []


async def test_listening_says_first_what_it_will_say_and_then_what_changed(project: Callable[..., Path]) -> None:
    path = project()
    async with (
        serving(path) as (gateway, url),
        httpx2.AsyncClient(headers=bearer("key-of-bot"), timeout=20) as http,
    ):
        asked = body(
            "subscriptions/listen",
            {"notifications": {"toolsListChanged": True, "promptsListChanged": True}},
            request="s",
        )
        headers = {
            "mcp-protocol-version": STATELESS,
            "mcp-method": "subscriptions/listen",
            "accept": "application/json, text/event-stream",
        }
        async with http.stream("POST", url, json=asked, headers=headers) as stream:
            assert stream.headers["content-type"] == "text/event-stream"
            messages = (json.loads(line[6:]) async for line in stream.aiter_lines() if line.startswith("data: "))
            first = await anext(messages)
            assert first["method"] == "notifications/subscriptions/acknowledged"
            meta = {"io.modelcontextprotocol/subscriptionId": "s"}
            assert first["params"] == {
                "notifications": {"toolsListChanged": True, "promptsListChanged": True},
                "_meta": meta,
            }
            edit = path.parent / "policies" / "policy.yaml"
            # What concerns others is not said.
            edit.write_text(policy().replace("  lead:", "  other: {roles: [other]}\n  lead:"), encoding="utf-8")
            await gateway.operations.reload()
            edit.write_text(policy(tools='["own__count"]'), encoding="utf-8")
            await gateway.operations.reload()
            second = await anext(messages)
            assert (second["method"], second["params"]["_meta"]) == ("notifications/tools/list_changed", meta)


async def test_a_stream_ends_with_its_subscription_when_the_gateway_closes(project: Callable[..., Path]) -> None:
    async with Gateway.load(project()) as gateway:
        app = App(gateway)
        async with listening(app) as url, httpx2.AsyncClient(headers=bearer("key-of-bot"), timeout=20) as http:
            asked = body("subscriptions/listen", {"notifications": {}}, request=7)
            headers = {"mcp-protocol-version": STATELESS, "mcp-method": "subscriptions/listen", "accept": "*/*"}
            async with http.stream("POST", f"{url}/mcp", json=asked, headers=headers) as stream:
                messages = (json.loads(line[6:]) async for line in stream.aiter_lines() if line.startswith("data: "))
                await anext(messages)
                app.end_streams()
                last = await anext(messages)
                assert (last["id"], last["result"]["resultType"]) == (7, "complete")
                with pytest.raises(StopAsyncIteration):
                    await anext(messages)


async def test_a_session_of_the_handshake_era_is_told_that_its_tools_changed(project: Callable[..., Path]) -> None:
    path = project()
    changed = asyncio.Event()

    async def heard(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed.set()

    async with serving(path) as (gateway, url), httpx2.AsyncClient(headers=bearer("key-of-bot")) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode="legacy", message_handler=heard) as client:
            assert len((await client.list_tools()).tools) == 2 + 1
            for number in itertools.count():
                edit = policy(tools='["own__count"]' if number % 2 == 0 else '["*"]')
                (path.parent / "policies" / "policy.yaml").write_text(edit, encoding="utf-8")
                await gateway.operations.reload()
                with contextlib.suppress(TimeoutError):  # the client opens its stream when it sees fit
                    async with asyncio.timeout(0.2):
                        await changed.wait()
                        break


@pytest.mark.parametrize(
    ("notifications", "accept", "status"),
    [(None, "*/*", 400), ([], "*/*", 400), ({}, "application/json", 406)],
)
async def test_listening_for_nothing_that_can_be_said_is_refused(
    notifications: Any, accept: str, status: int, project: Callable[..., Path]
) -> None:
    async with serving(project()) as (_, url), httpx2.AsyncClient(headers=bearer("key-of-bot")) as http:
        asked = body("subscriptions/listen", {"notifications": notifications})
        headers = {"mcp-protocol-version": STATELESS, "mcp-method": "subscriptions/listen", "accept": accept}
        assert (await http.post(url, json=asked, headers=headers)).status_code == status


async def test_nobody_opens_streams_without_end(project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolgen.frontends.mcp.event_streams._MAX_EACH", 2)
    async with serving(project()) as (_, url), httpx2.AsyncClient(headers=bearer("key-of-bot")) as http:
        headers = {"mcp-protocol-version": STATELESS, "mcp-method": "subscriptions/listen", "accept": "*/*"}
        asked = body("subscriptions/listen", {"notifications": {}})
        async with contextlib.AsyncExitStack() as stack:
            for status in (200, 200, 429):
                stream = await stack.enter_async_context(http.stream("POST", url, json=asked, headers=headers))
                assert stream.status_code == status
