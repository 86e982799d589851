"""Requests of servers to callers: what of them is passed on, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.services.bridged import hostile, listed
from toolgen.connectors.http.scrubber import scrubber_of
from toolgen.connectors.mcp.command import CommandSpec, LocalCommand
from toolgen.connectors.mcp.request_texts import BadRequestError
from toolgen.connectors.mcp.server_requests import CallTime, ServerRequests, response_to
from toolgen.model.client_channel import Unasked
from toolgen.model.schema import JsonObject

FORM: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
HELLO = [{"role": "user", "content": {"type": "text", "text": "hi"}}]


class Line:
    """A caller that answers everything with the same."""

    capabilities = frozenset({"elicitation", "elicitation_url", "sampling", "roots"})
    listens = False

    def __init__(self, answer: Any = None) -> None:
        self.asked: list[JsonObject] = []
        self.given = answer or {"action": "accept", "content": {}}

    def disconnected(self) -> bool:
        return False

    def progress(self, done: float, total: float | None, message: str) -> None: ...

    def partial(self, data: Any) -> None: ...

    def log(self, level: str, text: str) -> None: ...

    async def ask(self, key: str, method: str, params: JsonObject) -> Any:
        self.asked.append(params)
        await asyncio.sleep(0)
        return self.given


async def passed(method: str, params: Any, answer: Any = None) -> tuple[list[JsonObject], Any]:
    line = Line(answer)
    found = await ServerRequests(line, line.capabilities, CallTime(1e12)).ask("k", method, params)
    return line.asked, found


def form(**field: Any) -> dict[str, Any]:
    return {"message": "m", "requestedSchema": {"type": "object", "properties": {"a": field}}}


BAD: list[tuple[str, Any]] = [
    (ELICIT, {}),
    (ELICIT, {"message": "m"}),
    (ELICIT, {"message": 7, "requestedSchema": FORM}),
    (ELICIT, {"message": "m", "requestedSchema": {"type": "array"}}),
    (ELICIT, {"message": "m", "requestedSchema": {**FORM, "required": ["b"]}}),
    (ELICIT, {"message": "m", "requestedSchema": {"type": "object", "properties": {f"p{n}": {} for n in range(65)}}}),
    (ELICIT, form(type="object", properties={})),
    (ELICIT, form(type=["string", "null"])),
    (ELICIT, form(**{"$ref": "https://example.com/schema"})),
    (ELICIT, form(anyOf=[{"type": "string"}])),
    (ELICIT, form(type="array", items={"type": "string"})),
    (ELICIT, form(type="string", enum=[1, 2])),
    (ELICIT, form(type="string", enum=["a\u202eb"])),
    (ELICIT, form(type="string", enum=[])),
    (ELICIT, form(type="integer", default="7")),
    (ELICIT, {"message": "m", "requestedSchema": {"type": "object", "properties": {"a\u200b": {"type": "string"}}}}),
    (ELICIT, {"message": "m" * 70_000, "requestedSchema": FORM}),
    *(
        (ELICIT, {"mode": "url", "message": "m", "url": url, "elicitationId": "1"})
        for url in (
            "http://pay.example.com/",
            "javascript:alert(1)",
            "https://bank.example.com@evil.example.com/",
            "https://b\u0430nk.example.com/",
            "https:///x",
            "https://exa mple.com/",
            "https://[::1",
            "file:///etc/passwd",
            7,
        )
    ),
    (ELICIT, {"mode": "voice", "message": "m", "requestedSchema": FORM}),
    (SAMPLE, {}),
    (SAMPLE, {"messages": [], "maxTokens": 5}),
    (SAMPLE, {"messages": HELLO}),
    (SAMPLE, {"messages": HELLO, "maxTokens": True}),
    (SAMPLE, {"messages": HELLO, "maxTokens": -1}),
    (SAMPLE, {"messages": HELLO, "maxTokens": 5, "tools": [{"name": "x"}]}),
    (SAMPLE, {"messages": [{"role": "system", "content": HELLO[0]["content"]}], "maxTokens": 5}),
    (SAMPLE, {"messages": [{"role": "user", "content": {"type": "tool_use"}}], "maxTokens": 5}),
    (SAMPLE, {"messages": HELLO * 101, "maxTokens": 5}),
    ("tools/call", {}),
]


@pytest.mark.parametrize(("method", "params"), BAD)
async def test_a_request_that_is_not_as_mcp_has_it_reaches_nobody(method: str, params: Any) -> None:
    line = Line()
    with pytest.raises(BadRequestError):
        await ServerRequests(line, line.capabilities, CallTime(1e12)).ask("k", method, params)
    assert line.asked == []


LOOK = {"name": "look", "description": "Looks\u200b.", "inputSchema": {"type": "object"}}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "u", "name": "look", "input": {}}]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "toolUseId": "u", "content": []}]}


def deep(levels: int) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": deep(levels - 1)}} if levels else {"type": "object"}


def with_tools(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"messages": [*HELLO, *messages], "maxTokens": 5, "tools": [LOOK], **more}


class ToolLine(Line):
    capabilities = Line.capabilities | {"sampling_tools"}


@pytest.mark.parametrize(
    "params",
    [
        with_tools(tools={}),
        with_tools(tools=[LOOK, LOOK]),
        with_tools(tools=[LOOK] * 65),
        with_tools(tools=[{"name": "look"}]),
        with_tools(tools=[{**LOOK, "name": "lo\u200bok"}]),
        with_tools(tools=[{**LOOK, "inputSchema": {"type": "object", "title": "a\u202eb"}}]),
        with_tools(tools=[{**LOOK, "inputSchema": {"type": "object", "$ref": "https://x.example/s"}}]),
        with_tools(tools=[{**LOOK, "inputSchema": deep(5_00)}]),
        with_tools(toolChoice={"mode": "always"}),
        with_tools(toolChoice="auto"),
        with_tools(USE),
        with_tools(USE, *HELLO),
        with_tools(RESULT),
        with_tools(USE, RESULT, RESULT),
        with_tools(USE, {**RESULT, "content": [*RESULT["content"], HELLO[0]["content"]]}),
        with_tools({**USE, "role": "user"}, RESULT),
        with_tools(USE, {**RESULT, "role": "assistant"}),
        with_tools({**USE, "content": [{"type": "tool_use", "id": 7, "name": "look", "input": {}}]}, RESULT),
    ],
)
async def test_a_request_with_tools_that_is_not_as_mcp_has_it_reaches_nobody(params: Any) -> None:
    line = ToolLine()
    with pytest.raises(BadRequestError):
        await ServerRequests(line, line.capabilities, CallTime(1e12)).ask("k", SAMPLE, params)
    assert line.asked == []


async def test_a_request_with_tools_is_rebuilt() -> None:
    line = ToolLine({"role": "assistant", "content": USE["content"], "stopReason": "toolUse", "x": 1})
    params = with_tools(USE, RESULT, toolChoice={"mode": "required", "x": 1})
    requests = ServerRequests(line, frozenset({"sampling"}), CallTime(1e12))
    given = await requests.ask("k", SAMPLE, params)
    assert given == {"role": "assistant", "content": USE["content"], "model": "unknown", "stopReason": "toolUse"}
    (asked,) = line.asked
    assert asked["tools"] == [{**LOOK, "description": "Looks."}]
    assert (asked["toolChoice"], asked["messages"]) == ({"mode": "required"}, [*HELLO, USE, RESULT])


async def test_a_request_is_rebuilt_without_what_nobody_sees_or_knows() -> None:
    field = {"type": "string", "title": "A\u200b", "format": "email", "x-tracker": 1, "pattern": "(a+)+$"}
    asked, _ = await passed(ELICIT, {**form(**field), "message": "Hi\u202e", "secret": 1, "_meta": {"x": 1}})
    properties = {"a": {"title": "A", "type": "string", "format": "email"}}
    assert asked == [{"mode": "form", "message": "Hi", "requestedSchema": {"type": "object", "properties": properties}}]
    said = {"messages": HELLO, "maxTokens": 5, "includeContext": "allServers", "metadata": {"k": "v"}}
    asked, _ = await passed(SAMPLE, said, {"role": "assistant", "content": {"type": "text", "text": "x"}})
    assert asked == [{"messages": HELLO, "maxTokens": 5}]
    asked, _ = await passed(ROOTS, {"anything": 1}, {"roots": []})
    assert asked == [{}]


@pytest.mark.parametrize(
    ("method", "params", "answer", "given"),
    [
        (
            ROOTS,
            {},
            {"roots": [{"uri": "file:///a", "x": 1}, {"uri": "https://x"}, 7]},
            {"roots": [{"uri": "file:///a"}]},
        ),
        (ELICIT, form(type="integer"), {"action": "accept", "content": {"a": "x"}}, None),
        (ELICIT, form(type="integer"), {"action": "accept"}, None),
        (ELICIT, form(type="integer"), {"action": "later", "content": {"a": 1}}, {"action": "cancel"}),
        (ELICIT, form(type="integer"), {"action": "decline", "content": {"a": 1}}, {"action": "decline"}),
        (SAMPLE, {"messages": HELLO, "maxTokens": 5}, {"role": "assistant", "content": {"type": "tool_use"}}, None),
        (SAMPLE, {"messages": HELLO, "maxTokens": 5}, {"role": "assistant", "content": 7}, None),
        (SAMPLE, {"messages": HELLO, "maxTokens": 5}, "text", None),
    ],
)
async def test_an_answer_is_rebuilt_or_left_out(method: str, params: Any, answer: Any, given: Any) -> None:
    if given is None:
        with pytest.raises(Unasked):
            await passed(method, params, answer)
    else:
        assert (await passed(method, params, answer))[1] == given


async def test_a_call_makes_so_many_requests_and_no_more() -> None:
    line = Line()
    requests = ServerRequests(line, line.capabilities, CallTime(1e12))
    for _ in range(64):
        await requests.ask("k", ROOTS, {})
    with pytest.raises(Unasked):
        await requests.ask("k", ROOTS, {})
    busy = ServerRequests(line, line.capabilities, CallTime(1e12))
    found = await asyncio.gather(*(busy.ask("k", ROOTS, {}) for _ in range(20)), return_exceptions=True)
    assert [type(one).__name__ for one in found].count("Unasked") == 4


async def test_the_time_of_a_call_stands_still_while_its_caller_is_asked() -> None:
    loop = asyncio.get_running_loop()
    time = CallTime(loop.time() + 0.2)
    never: asyncio.Future[None] = loop.create_future()
    time.hold()
    waiting = asyncio.create_task(time.wait(never))
    await asyncio.sleep(0.5)
    assert not waiting.done()
    time.go_on()
    await asyncio.wait_for(waiting, 30)
    assert time.left == 0


async def test_a_server_is_told_why_its_request_has_no_answer_and_shows_no_secret() -> None:
    line = Line()
    requests = ServerRequests(line, line.capabilities, CallTime(1e12))
    scrubber = scrubber_of(("canary-token-1",))
    refused = await response_to(requests, 5, ELICIT, {"message": 7}, scrubber)
    assert (refused["id"], refused["error"]["code"]) == (5, -32602)
    done = await response_to(requests, "x", ELICIT, {**form(type="string"), "message": "my canary-token-1"}, scrubber)
    assert done["result"] == {"action": "accept", "content": {}}
    assert "canary" not in str(line.asked)


async def test_a_server_that_floods_its_pipe_with_requests_is_asked_on(tmp_path: Path) -> None:
    words = tuple(hostile(tmp_path, *listed("begs", "echo")))
    command = LocalCommand(CommandSpec(source="far", words=words, folder=str(tmp_path)))
    line = Line({"role": "assistant", "content": {"type": "text", "text": "x"}})
    try:
        assert await command.begin({}) == 1
        for number, (name, arguments) in enumerate((("begs", {"times": 5000}), ("echo", {}))):
            params = {"name": name, "arguments": arguments}
            message = {"jsonrpc": "2.0", "id": number + 1, "method": "tools/call", "params": params}
            requests = ServerRequests(line, line.capabilities, CallTime(1e12))
            reply = await asyncio.wait_for(command.ask(message, requests), 60)
            assert (reply.fault, b"structuredContent" in reply.line) == (None, True)
        assert 0 < len(line.asked) <= 64
    finally:
        await command.close()
