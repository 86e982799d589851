from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from tests.gateway.clients import listening, run
from tests.gateway.gateways import KEY, FakeGateway
from toolgen.gateway.asgi import request, uvicorn_protocol
from toolgen.gateway.asgi.app import App
from toolgen.gateway.asgi.connections import Connections

HEAD = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\nContent-Type: application/json\r\n"


async def exchange(url: str, *parts: bytes) -> bytes:
    """Sends the parts and reads until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    for part in parts:
        writer.write(part)
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "])
def test_a_connection_whose_head_does_not_arrive_in_time_is_closed(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uvicorn_protocol, "SLOWEST_HEAD_S", 0.05)

    async def main() -> None:
        async with listening(App(FakeGateway())) as url:
            assert await exchange(url, sent) == b""

    run(main())


def test_a_second_head_on_one_connection_has_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn_protocol, "SLOWEST_HEAD_S", 0.2)

    async def main() -> None:
        async with listening(App(FakeGateway())) as url:
            answer = await exchange(url, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"GET /hea")
        assert answer.count(b"HTTP/1.1 200") == 1

    run(main())


def test_a_body_that_does_not_arrive_in_time_is_answered_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "SLOWEST_BODY_S", 0.05)

    async def main() -> None:
        gateway = FakeGateway()
        async with listening(App(gateway)) as url:
            answer = await exchange(url, f"{HEAD}Content-Length: 100\r\n\r\n".encode(), b'{"jsonrpc":')
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert gateway.calls == []

    run(main())


def test_a_client_that_leaves_in_the_middle_of_its_body_calls_nothing() -> None:
    async def main() -> None:
        gateway = FakeGateway()
        async with listening(App(gateway)) as url:
            _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            writer.write(f"{HEAD}Content-Length: 100\r\n\r\n".encode() + b'{"jsonrpc":')
            await writer.drain()
            writer.close()
            await writer.wait_closed()
            assert (
                await exchange(url, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            ).startswith(b"HTTP/1.1 200")
        assert gateway.calls == []

    run(main())


def test_two_requests_in_one_packet_are_answered_in_order() -> None:
    async def main() -> None:
        async with listening(App(FakeGateway())) as url:
            first = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
            second = b"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
            answer = await exchange(url, first + second)
        assert answer.index(b"200 OK") < answer.index(b"401 Unauthorized")

    run(main())


class Wire:
    """A transport that keeps each write apart."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.writes.append(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def get_extra_info(self, _: str) -> None: ...
    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None: ...


async def written(sent: bytes, app: Any) -> Wire:
    """What a connection writes, and when, for these bytes."""
    config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None)
    config.load()
    wire = Wire()
    state = ServerState()
    protocol = uvicorn_protocol.HttpConnection(config, state, Connections())
    protocol.connection_made(wire)  # type: ignore[arg-type]
    protocol.data_received(sent)
    while tasks := list(state.tasks):
        await asyncio.gather(*tasks)
    protocol.connection_lost(None)
    return wire


def test_an_answer_leaves_in_one_write_and_pipelined_ones_in_their_order() -> None:
    async def main() -> None:
        health = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        wire = await written(health + health.replace(b"healthz", b"nothing"), App(FakeGateway()))
        first, second = wire.writes
        assert first.startswith(b"HTTP/1.1 200 ")
        assert first.endswith(b'{"status":"ok"}')
        assert second.startswith(b"HTTP/1.1 401 ")

    run(main())


def test_an_answer_without_a_body_leaves_too_and_before_the_end() -> None:
    async def main() -> None:
        head = b"HEAD /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n"
        for more, closed in ((b"", False), (b"Connection: close\r\n", True)):
            wire = await written(head % more, App(FakeGateway()))
            (answer,) = wire.writes
            assert answer.startswith(b"HTTP/1.1 405 ")
            assert answer.endswith(b"\r\n\r\n")
            assert (b"connection: close" in answer) is closed

    run(main())


def test_a_body_in_pieces_that_looks_like_a_head_is_sent_as_it_comes() -> None:
    async def app(_: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"30")]})
        for piece in (b"HTTP/1.1 2", b"HTTP/1.1 1", b"HTTP/1.1 2"):
            await send({"type": "http.response.body", "body": piece, "more_body": piece is not None})

    async def main() -> None:
        expecting = b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n"
        wire = await written(expecting, app)
        assert wire.writes[0] == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert wire.writes[1].endswith(b"\r\n\r\nHTTP/1.1 2")
        assert wire.writes[2:4] == [b"HTTP/1.1 1", b"HTTP/1.1 2"]

    run(main())
