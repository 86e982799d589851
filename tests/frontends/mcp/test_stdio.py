from __future__ import annotations

import asyncio
import io
import os
from typing import Any, BinaryIO

import msgspec
import pytest

from tests.gateway.gateways import BOT, FakeGateway
from toolgen.core.errors import AuditError
from toolgen.frontends.mcp.server import Mcp
from toolgen.frontends.mcp.stdio import serve_streams
from toolgen.gateway.calls.json_body import MAX_BODY_SIZE
from toolgen.model.call import Principal


def line(method: str, request: object = None, **params: Any) -> bytes:
    body = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if request is None else {"id": request})
    return msgspec.json.encode(body) + b"\n"


async def answers(gateway: FakeGateway, *lines: bytes) -> list[dict[str, Any]]:
    sink = io.BytesIO()
    await serve_streams(gateway, BOT, io.BytesIO(b"".join(lines)), sink)
    return [msgspec.json.decode(found) for found in sink.getvalue().splitlines()]


async def test_each_line_is_answered_on_one_line() -> None:
    gateway = FakeGateway()
    found = await answers(
        gateway,
        line("initialize", 1, protocolVersion="2025-11-25", clientInfo={"name": "t", "version": "2"}),
        line("notifications/initialized"),
        b"\n",
        line("tools/call", "a", name="test__echo", arguments={"text": "one\ntwo"}),
    )
    assert [item["id"] for item in found] == [1, "a"]
    assert gateway.calls[0]["client"] == "t/2"
    assert (gateway.calls[0]["session"], len(gateway.calls[0]["connection"])) == ("", 32)
    assert gateway.calls[0]["principal"] is BOT


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"not json\n", -32700),
        (b"[]\n", -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"nothing"}\n', -32601),
        (b"[" * 300 + b"\n", -32700),
        (b"x" * (MAX_BODY_SIZE + 100) + b"\n", -32600),
        (b"x" * (3 * MAX_BODY_SIZE + 100) + b"\n", -32600),
    ],
)
async def test_a_bad_line_is_answered_and_the_next_one_is_served(text: bytes, code: int) -> None:
    found = await answers(FakeGateway(), text, line("ping", 2))
    assert {item["id"]: item.get("error", {}).get("code") for item in found} in (
        {None: code, 2: None},
        {1: code, 2: None},
    )


async def test_a_message_in_pieces_and_one_without_an_end_are_read() -> None:
    class Trickle(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(3)

    sink = io.BytesIO()
    await serve_streams(FakeGateway(), BOT, Trickle(line("ping", 1) + b"\r\n" + line("ping", 2).rstrip()), sink)
    assert sorted(msgspec.json.decode(item)["id"] for item in sink.getvalue().splitlines()) == [1, 2]


async def test_a_message_of_exactly_the_cap_is_read() -> None:
    body = line("ping", 1).rstrip()
    found = await answers(FakeGateway(), body.ljust(MAX_BODY_SIZE) + b"\n", body.ljust(MAX_BODY_SIZE + 1) + b"\n")
    assert sorted("result" in item for item in found) == [False, True]


def _pipe() -> tuple[BinaryIO, BinaryIO]:
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb", buffering=0), os.fdopen(writing, "wb", buffering=0)


async def test_calls_run_side_by_side_and_a_cancelled_one_runs_on_without_an_answer() -> None:
    gateway = FakeGateway()
    source, feed = _pipe()
    sink = io.BytesIO()
    with source, feed:
        serving = asyncio.create_task(serve_streams(gateway, BOT, source, sink))
        feed.write(line("tools/call", 1, name="test__slow", arguments={}))
        await gateway.entered.wait()
        feed.write(line("notifications/cancelled", requestId=[1]) + line("notifications/cancelled", requestId=1))
        feed.write(line("tools/call", 2, name="test__echo", arguments={}))
        feed.close()
        await gateway.answered.wait()
        assert gateway.ended == ["test__echo"]
        gateway.gate.set()
        await serving
    assert [msgspec.json.decode(item)["id"] for item in sink.getvalue().splitlines()] == [2]
    assert gateway.ended == ["test__echo", "test__slow"]


async def test_a_call_in_flight_runs_to_its_end_when_serving_is_cancelled() -> None:
    gateway = FakeGateway()
    source, feed = _pipe()
    with source, feed:
        serving = asyncio.create_task(serve_streams(gateway, BOT, source, io.BytesIO()))
        feed.write(line("tools/call", 1, name="test__slow", arguments={}))
        await gateway.entered.wait()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        gateway.gate.set()
        await asyncio.wait(gateway.running)
    assert gateway.ended == ["test__slow"]


async def test_what_was_listened_for_is_answered_when_the_input_ends() -> None:
    """Its answer says that no more will be told (2026-07-28, subscriptions/listen); what was called off has none."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    found = await answers(
        FakeGateway(),
        line("subscriptions/listen", 7, notifications={}, _meta=meta),
        line("subscriptions/listen", 8, notifications={}, _meta=meta),
        line("notifications/cancelled", requestId=8),
    )
    assert [item["id"] for item in found if "result" in item] == [7]


async def test_a_principal_the_policy_has_no_more_is_told_so() -> None:
    gateway = FakeGateway(gone={"bot"})
    (found,) = await answers(gateway, line("tools/call", 1, name="test__echo", arguments={}))
    assert "principal" in found["error"]["message"]
    assert gateway.calls == []


class Broken(FakeGateway):
    """Fails where nothing should, with a text that nobody may read."""

    def narrowed(self, principal: Principal, toolset: str) -> Principal | None:
        raise RuntimeError("canary")


async def test_what_breaks_one_message_ends_no_other(caplog: pytest.LogCaptureFixture) -> None:
    broken = line("ping", 1, _meta={"toolset": "all"})
    first, second = sorted(await answers(Broken(), broken, line("ping", 2)), key=lambda item: item["id"])
    assert (first["error"]["code"], second["result"]) == (-32603, {})
    assert "canary" not in str(first) + caplog.text
    assert "RuntimeError" in caplog.text


async def test_an_answer_that_cannot_be_taken_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(*_: Any) -> None:
        raise AuditError("the disk is full")

    monkeypatch.setattr(Mcp, "respond", failing)
    found = await answers(FakeGateway(), b'{"jsonrpc":"2.0","id":"q","result":{}}\n', line("ping", 2))
    assert [item["id"] for item in found] == [2]


async def test_two_requests_with_one_id_are_both_answered_and_called_off() -> None:
    gateway = FakeGateway()
    source, feed = _pipe()
    sink = io.BytesIO()
    with source, feed:
        serving = asyncio.create_task(serve_streams(gateway, BOT, source, sink))
        feed.write(line("tools/call", 1, name="test__slow", arguments={}) + line("tools/call", 1, name="test__echo"))
        await gateway.answered.wait()
        await gateway.entered.wait()
        gateway.answered.clear()
        feed.write(line("notifications/cancelled", requestId=1) + line("tools/call", 1, name="test__pet"))
        feed.close()
        await gateway.answered.wait()
        assert gateway.ended == ["test__echo", "test__pet"]
        gateway.gate.set()
        await serving
    assert [msgspec.json.decode(item)["id"] for item in sink.getvalue().splitlines()] == [1, 1]
