"""Framing of answers: what the client takes for an answer, every strict reader reads alike, in whatever pieces it comes."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Iterator
from typing import Any

import h11
import pytest

from tests.exhaustive import size
from toolgen.connectors.http.client import PLACES
from toolgen.connectors.http.connection import ClientConnection
from toolgen.connectors.http.connection_watch import ConnectionWatch
from toolgen.connectors.http.reply import BrokenError, RawResponse, UnsentError

CASES = size("TOOLGEN_ANSWERED", 3_000, 200_000)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_TOKEN = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_DIGITS = frozenset(b"0123456789")
_HEX = frozenset(b"0123456789abcdefABCDEF")


class Wire(asyncio.Transport):
    """A transport that a test feeds."""

    def __init__(self) -> None:
        super().__init__()
        self.ours, self.theirs = socket.socketpair()
        self.closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.ours if name == "socket" else default

    def is_closing(self) -> bool:
        return self.closed

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def read(wire: Wire, pieces: list[bytes], method: str = "GET") -> tuple[int, bytes, bool] | None:
    """Status, body and whether the connection is kept, of what the client reads; None where it takes it for no answer."""
    connection = ClientConnection(60, ConnectionWatch())
    wire.closed = False
    connection.connection_made(wire)
    sent = asyncio.ensure_future(
        connection.exchange(b"", method=method, limit=1_000_000, places=asyncio.Semaphore(PLACES))
    )
    await asyncio.sleep(0)
    for piece in pieces:
        if not wire.closed:
            connection.data_received(piece)
    if not wire.closed and connection._outcome is None:
        connection.eof_received()
        connection.connection_lost(None)
    try:
        reply = await sent
    except BrokenError:
        return None
    usable = connection.usable
    connection.close()
    return reply.status, reply.body, usable


class Strict:
    """Reads one answer as RFC 9112 writes it, a byte at a time. Anything else raises `ValueError`."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        taken = self.data[self.at : self.at + count]
        if len(taken) < count:
            raise ValueError("it ends too soon")
        self.at += count
        return taken

    def line(self) -> bytes:
        line = bytearray()
        while (byte := self.take(1)) != b"\r":
            if (byte < b" " and byte != b"\t") or byte == b"\x7f":
                raise ValueError("a control character")
            line += byte
        if self.take(1) != b"\n":
            raise ValueError("no LF behind CR")
        return bytes(line)

    def fields(self) -> list[tuple[bytes, bytes]]:
        fields = []
        while line := self.line():
            name, colon, value = line.partition(b":")
            if not colon or not name or not set(name) <= _TOKEN:
                raise ValueError("no field")
            fields.append((name.lower(), value.strip(b" \t")))
        return fields

    def head(self) -> tuple[bytes, int, list[tuple[bytes, bytes]]]:
        line = self.line()
        version, status, behind = line[:8], line[9:12], line[12:13]
        if version not in {b"HTTP/1.0", b"HTTP/1.1"} or line[8:9] != b" " or behind not in {b"", b" "}:
            raise ValueError("no status line")
        if len(status) != 3 or not set(status) <= _DIGITS or status < b"100":
            raise ValueError("no status")
        return version, int(status), self.fields()

    def answer(self, method: str) -> tuple[int, bytes]:
        version, status, fields = self.head()
        while status < 200:
            if status == 101:
                raise ValueError("an upgrade")
            version, status, fields = self.head()
        lengths = [value for name, value in fields if name == b"content-length"]
        codings = [value for name, value in fields if name == b"transfer-encoding"]
        if len(lengths) + len(codings) > 1:
            raise ValueError("framed twice")
        if lengths and not (set(lengths[0]) <= _DIGITS and 0 < len(lengths[0]) <= 18):
            raise ValueError("no length")
        if codings and (codings[0].lower() != b"chunked" or version == b"HTTP/1.0"):
            raise ValueError("no coding")
        if method == "HEAD" or status in {204, 304}:
            return status, b""
        if codings:
            return status, self.chunks()
        return status, self.take(int(lengths[0]) if lengths else len(self.data) - self.at)

    def chunks(self) -> bytes:
        body = b""
        while True:
            size, _, _ = self.line().partition(b";")
            if not size or not set(size) <= _HEX:
                raise ValueError("no size")
            if not int(size, 16):
                if any(name in {b"content-length", b"transfer-encoding"} for name, _ in self.fields()):
                    raise ValueError("framed again by a trailer")
                return body
            body += self.take(int(size, 16))
            if self.take(2) != b"\r\n":
                raise ValueError("no line break behind a chunk")


def by_h11(data: bytes, method: str) -> tuple[int, bytes] | None:
    """What a reader that others rely on makes of it."""
    connection = h11.Connection(our_role=h11.CLIENT)
    connection.send(h11.Request(method=method, target="/", headers=[("Host", "a")]))
    connection.send(h11.EndOfMessage())
    status, body = 0, b""
    try:
        connection.receive_data(data)
        connection.receive_data(b"")
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            match event:
                case h11.Response():
                    status = event.status_code
                case h11.Data():
                    body += bytes(event.data)
                case h11.InformationalResponse():
                    pass
                case _:
                    return None
    except h11.RemoteProtocolError:
        return None
    return status, body


PARTS = [
    *(
        b"HTTP/1.1 ",
        b"HTTP/1.0 ",
        b"200 OK",
        b"204 No",
        b"304 So",
        b"100 Go",
        b"500",
        b"\r\n",
        b"\r\n\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\t",
    ),
    *(
        b"Content-Length: ",
        b"content-length:",
        b"Transfer-Encoding: ",
        b"chunked",
        b"gzip, chunked",
        b"identity",
        b"Connection: close",
    ),
    *(
        b"Connection: keep-alive",
        b"X: y",
        b"X : y",
        b": y",
        b"\x00",
        b"\x7f",
        b"\xe9",
        b"0",
        b"2",
        b"5",
        b"0x2",
        b"+2",
        b"-1",
        b"2, 2",
    ),
    *(
        b"ok",
        b"hello",
        b"2\r\nok\r\n",
        b"0\r\n\r\n",
        b"0\r\nX: y\r\n\r\n",
        b"2;a=b\r\nok\r\n",
        b"a;\r\n",
        b"ffffffffffffffffff\r\n",
        OK,
    ),
]
FRAMES = [
    b"Content-Length: 2\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"",
    b"Transfer-Encoding: gzip\r\n",
]
BODIES = [b"", b"ok", b"hello", b"2\r\nok\r\n0\r\n\r\n", b"1\r\no\r\n1\r\nk\r\n0\r\nX: y\r\n\r\n", b"0\r\n\r\n"]


def cases(count: int) -> Iterator[tuple[bytes, str, random.Random]]:
    """Answers, most of them mended or broken in a place or two."""
    for seed in range(count):
        chance = random.Random(seed)
        status = chance.choice([b"200 OK", b"200 OK", b"200 OK", b"404", b"204 No", b"304 So"])
        fields = [
            chance.choice([b"X: y\r\n", b"ETag: a\r\n", b"Connection: close\r\n"]) for _ in range(chance.randrange(3))
        ]
        fields += [chance.choice(FRAMES) for _ in range(chance.choice([1, 1, 1, 2]))]
        chance.shuffle(fields)
        data = chance.choice([b"HTTP/1.1 "] * 4 + [b"HTTP/1.0 "]) + status + b"\r\n" + b"".join(fields) + b"\r\n"
        data = chance.choice([b"", b"", b"", b"HTTP/1.1 103 Hints\r\nX: y\r\n\r\n"]) + data + chance.choice(BODIES)
        for _ in range(chance.randrange(3)):
            at = chance.randrange(len(data) + 1)
            match chance.randrange(4):
                case 0:
                    data = data[:at] + data[at + 1 :]
                case 1:
                    data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
                case 2:
                    data = data[:at] + chance.choice(PARTS) + data[at:]
                case _:
                    data = data[:at] + chance.choice(PARTS)
        yield data, chance.choice(["GET", "GET", "GET", "HEAD"]), chance


def cut(data: bytes, chance: random.Random) -> list[bytes]:
    """The same bytes in pieces."""
    match chance.randrange(3):
        case 0:
            return [data] if data else []
        case 1:
            return [data[at : at + 1] for at in range(len(data))]
        case _:
            ends = sorted(chance.randrange(len(data) + 1) for _ in range(3))
            return [
                piece for piece in (data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True)) if piece
            ]


@pytest.mark.sweep
async def test_an_answer_is_what_every_strict_reader_takes_it_for() -> None:
    taken = 0

    wire = Wire()
    for data, method, chance in cases(CASES):
        pieces = cut(data, chance)
        found = await read(wire, pieces, method)
        strict = Strict(data)
        try:
            expected = strict.answer(method)
        except ValueError:
            expected = None
        assert (found and found[:2]) == expected, (data, method, pieces)
        if found is None:
            continue
        taken += 1
        if found[2]:  # nothing was left behind it
            assert strict.at == len(data), (data, method, pieces)
        if method != "HEAD" and (theirs := by_h11(data, method)) is not None:
            assert theirs == found[:2], (data, method)
    wire.ours.close()
    wire.theirs.close()
    assert CASES // 10 < taken < CASES


async def connected(watch: ConnectionWatch | None = None) -> tuple[ClientConnection, socket.socket]:
    """A connection, and its other end."""
    ours, theirs = socket.socketpair()
    made = ClientConnection(60, ConnectionWatch() if watch is None else watch)
    await asyncio.get_running_loop().create_connection(lambda: made, sock=ours)
    return made, theirs


async def exchanged(connection: ClientConnection) -> RawResponse:
    return await connection.exchange(b"GET", method="GET", limit=100, places=asyncio.Semaphore(PLACES))


@pytest.mark.parametrize("late", [OK, b"\r\n", b"", b"x"], ids=["an answer", "a line break", "the end", "a byte"])
async def test_what_the_system_has_already_received_is_never_the_next_answer(late: bytes) -> None:
    """Bytes that the loop has yet to deliver when the next request is about to be sent."""
    connection, theirs = await connected()
    with theirs:
        theirs.sendall(OK)
        assert (await exchanged(connection)).body == b"ok"
        assert connection.usable
        if late:
            theirs.sendall(late)
        else:
            theirs.shutdown(socket.SHUT_WR)
        assert not connection.usable
        connection.close()


@pytest.mark.parametrize("late", [OK, b"\n", b""], ids=["an answer", "a line break", "the end"])
@pytest.mark.parametrize("which", [0, 1, 2])
async def test_of_connections_that_rest_together_none_is_used_again_on_which_something_came(
    which: int, late: bytes
) -> None:
    """They share what is asked about them: one has to be told from the other, and from one that was closed and had its descriptor."""
    watch = ConnectionWatch()
    closed, other = await connected(watch)
    with other:
        other.sendall(OK)
        await exchanged(closed)
        assert closed.usable
        closed.close()
        await asyncio.sleep(0)
        assert not closed.usable
    pairs = [await connected(watch) for _ in range(3)]
    for connection, theirs in pairs:
        theirs.sendall(OK)
        assert (await exchanged(connection)).body == b"ok"
    for _ in range(2):
        assert [connection.usable for connection, _ in pairs] == [True] * 3
    if late:
        pairs[which][1].sendall(late)
    else:
        pairs[which][1].shutdown(socket.SHUT_WR)
    for _ in range(2):
        assert [connection.usable for connection, _ in pairs] == [number != which for number in range(3)]
    for connection, theirs in pairs:
        connection.close()
        theirs.close()


class Looked:
    """Says when it was looked at."""

    def __init__(self, seen: list[str], name: str) -> None:
        self.seen, self.name = seen, name

    def look(self) -> None:
        self.seen.append(self.name)


async def test_each_is_looked_at_once_its_time_has_come_and_not_when_it_was_dropped() -> None:
    seen: list[str] = []
    watch, now = ConnectionWatch(), asyncio.get_running_loop().time()
    soon, later, never, past = (Looked(seen, name) for name in ("soon", "later", "never", "past"))
    step = watch.add(never, now + 0.05)
    assert watch.add(soon, now + 0.05) == step
    watch.add(later, now + 0.1)
    watch.add(past, now - 1)
    watch.drop(never, step)
    watch.drop(never, step + 1)
    while len(seen) < 3:  # noqa: ASYNC110 (what looks tells nobody)
        await asyncio.sleep(0.01)
    assert seen == ["past", "soon", "later"]
    assert asyncio.get_running_loop().time() >= now + 0.1


async def test_a_server_that_speaks_first_is_sent_nothing() -> None:
    connection, theirs = await connected()
    with theirs:
        theirs.sendall(OK)
        while connection.is_open:  # noqa: ASYNC110 (what closes it tells nobody)
            await asyncio.sleep(0)
        with pytest.raises(UnsentError):
            await exchanged(connection)


async def test_a_call_that_is_cancelled_closes_its_connection() -> None:
    connection, theirs = await connected()
    with theirs:
        theirs.setblocking(False)
        task = asyncio.ensure_future(exchanged(connection))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait((task,))
        assert task.cancelled()
        loop = asyncio.get_running_loop()
        assert await loop.sock_recv(theirs, 10) == b"GET"
        assert await asyncio.wait_for(loop.sock_recv(theirs, 10), 60) == b""
        assert not connection.usable
