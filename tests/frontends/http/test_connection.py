from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import pytest
import uvloop

from tests.gateway.clients import listening
from tests.gateway.gateways import KEY, FakeGateway
from tests.messages import line_names
from toolgen.frontends.http import connection, request
from toolgen.frontends.http.app import App
from toolgen.frontends.http.connection import HttpConnection
from toolgen.frontends.http.connections import Connections, HttpServer
from toolgen.frontends.http.request import EventStream, Handlers, Request, Response, Send

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
async def test_a_connection_whose_head_does_not_arrive_in_time_is_closed(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SLOWEST_HEAD_S", 0.05)
    async with listening(App(FakeGateway())) as url:
        assert await exchange(url, sent) == b""


async def test_a_second_head_on_one_connection_has_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SLOWEST_HEAD_S", 0.2)
    async with listening(App(FakeGateway())) as url:
        answer = await exchange(url, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"GET /hea")
    assert answer.count(b"HTTP/1.1 200") == 1


async def test_a_body_that_does_not_arrive_in_time_is_answered_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "SLOWEST_BODY_S", 0.05)
    gateway = FakeGateway()
    async with listening(App(gateway)) as url:
        answer = await exchange(url, f"{HEAD}Content-Length: 100\r\n\r\n".encode(), b'{"jsonrpc":')
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert gateway.calls == []


async def test_a_client_that_leaves_in_the_middle_of_its_body_calls_nothing() -> None:
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


async def test_two_requests_in_one_packet_are_answered_in_order() -> None:
    async with listening(App(FakeGateway())) as url:
        first = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        second = b"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        answer = await exchange(url, first + second)
    assert answer.index(b"200 OK") < answer.index(b"401 Unauthorized")


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


async def written(sent: bytes, app: Handlers) -> Wire:
    """What a connection writes, and when, for these bytes."""
    wire, server = Wire(), HttpServer(app, Connections())
    protocol = HttpConnection(server)
    protocol.connection_made(wire)  # type: ignore[arg-type]
    protocol.data_received(sent)
    while server.tasks:
        await asyncio.gather(*server.tasks)
    protocol.connection_lost(None)
    return wire


class Answering:
    """Handlers that answer whatever is asked with one answer, when they have its body."""

    def __init__(self, answer: Response | EventStream) -> None:
        self.answer = answer

    async def serve(self, asked: Request, send: Send) -> None:
        await asked.body()
        await send(self.answer)


async def events(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def test_an_answer_leaves_in_one_write_and_pipelined_ones_in_their_order() -> None:
    health = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    wire = await written(health + health.replace(b"healthz", b"nothing"), App(FakeGateway()))
    first, second = wire.writes
    assert first.startswith(b"HTTP/1.1 200 ")
    assert first.endswith(b'{"status":"ok"}')
    assert second.startswith(b"HTTP/1.1 401 ")


async def test_an_answer_without_a_body_leaves_too_and_before_the_end() -> None:
    head = b"HEAD /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n"
    for more, closed in ((b"", False), (b"Connection: close\r\n", True)):
        wire = await written(head % more, App(FakeGateway()))
        (answer,) = wire.writes
        assert answer.startswith(b"HTTP/1.1 405 ")
        assert answer.endswith(b"\r\n\r\n")
        assert (b"connection: close" in answer) is closed


@pytest.mark.parametrize(
    ("version", "pieces", "body"),
    [
        (b"1.1", (b"HTTP/1.1 2", b"b"), [b"a\r\nHTTP/1.1 2\r\n", b"1\r\nb\r\n", b"0\r\n\r\n"]),
        (b"1.1", (), [b"0\r\n\r\n"]),
        (b"1.0", (b"one", b"two"), [b"one", b"two"]),
    ],
)
async def test_events_leave_as_they_come_in_chunks_where_the_client_knows_them(
    version: bytes, pieces: tuple[bytes, ...], body: list[bytes]
) -> None:
    sent = b"GET / HTTP/%b\r\nHost: h\r\n\r\n" % version
    wire = await written(sent, Answering(EventStream(events=events(*pieces))))
    head, _, first = wire.writes[0].partition(b"\r\n\r\n")
    assert [first, *(more for more in wire.writes[1:] if more)] == body
    assert (b"transfer-encoding: chunked" in head) is (version == b"1.1")
    assert wire.closed is (version == b"1.0")


async def test_a_client_that_waits_to_be_asked_for_its_body_is_asked_once() -> None:
    expecting = b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}"
    wire = await written(expecting, Answering(Response(body=b"{}")))
    assert wire.writes[0] == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert [write.startswith(b"HTTP/1.1 200 ") for write in wire.writes[1:]] == [True]


@pytest.mark.parametrize("value", [b"a\r\nb: c", b"a\nb", b"a\x00"])
async def test_an_answer_whose_header_could_begin_another_line_is_never_sent(
    value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    wire = await written(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", Answering(Response(headers=((b"location", value),))))
    (answer,) = wire.writes
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"location" not in answer
    assert wire.closed
    assert line_names(caplog.text, "not be sent: ValueError")
    assert "b: c" not in caplog.text


async def test_what_does_not_end_in_the_time_to_drain_is_broken_off() -> None:
    gateway = FakeGateway()
    server = HttpServer(App(gateway), Connections())
    listener = await asyncio.get_running_loop().create_server(lambda: HttpConnection(server), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    idle, other = await asyncio.open_connection("127.0.0.1", port)
    busy, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HEAD.replace("/mcp", "/v1/tools/test__slow/call").encode() + b"Content-Length: 2\r\n\r\n{}")
    await gateway.entered.wait()
    listener.close()
    draining = asyncio.create_task(server.drain(0.05))
    assert await idle.read() == b""
    await draining
    assert (server.open, server.tasks) == (set(), set())
    with suppress(ConnectionResetError):
        assert await busy.read() == b""
    writer.close()
    other.close()
    assert gateway.ended == []
    gateway.gate.set()
    await asyncio.wait(gateway.running)
    assert gateway.ended == ["test__slow"]  # the call itself is nobody's to break off


@pytest.fixture
def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The loop of a gateway: another one loses a connection that it accepted itself."""
    return uvloop.new_event_loop


@pytest.mark.usefixtures("loop_factory")
@pytest.mark.parametrize("rounds", range(6))
async def test_a_connection_that_comes_while_it_ends_is_closed(rounds: int) -> None:
    """The loop has accepted it, and has not told the server yet, when all others are told."""
    loop = asyncio.get_running_loop()
    server = HttpServer(App(FakeGateway()), Connections())
    listener = await loop.create_server(lambda: HttpConnection(server), "127.0.0.1", 0)
    with socket.create_connection(listener.sockets[0].getsockname()) as client:
        client.setblocking(False)
        for _ in range(rounds):  # of the loop: to be accepted, and to be a connection, takes one each
            await asyncio.sleep(0)
        listener.close()
        await server.drain(10)
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(loop.sock_recv(client, 1), 60) == b""
    assert server.open == set()


@pytest.mark.parametrize(
    ("accepted", "whole", "expendable"), [(False, False, True), (False, True, False), (True, False, False)]
)
async def test_only_a_stranger_that_does_not_send_its_body_gives_way(
    accepted: bool, whole: bool, expendable: bool
) -> None:
    class Waiting:
        async def serve(self, asked: Request, send: Send) -> None:
            asked.accepted = accepted
            await asked.body()
            await asyncio.Event().wait()

    wire, server = Wire(), HttpServer(Waiting(), Connections())
    protocol = HttpConnection(server)
    protocol.connection_made(wire)  # type: ignore[arg-type]
    assert protocol.expendable()  # nobody has asked for anything
    protocol.data_received(f"{HEAD}Content-Length: 2\r\n\r\n".encode() + (b"{}" if whole else b"{"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert protocol.expendable() is expendable

    tasks = [*server.tasks]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    protocol.connection_lost(None)
