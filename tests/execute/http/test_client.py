"""The client against servers that answer, break off, lie and talk out of turn, on both event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.execute.http.upstreams import LOOPS, OK, Run, Server, answers, asked, make
from toolgen.execute.http.client import written
from toolgen.execute.http.coding import UndecodableError
from toolgen.execute.http.connection import BrokenError, Connection, Reply, TimedOutError, Times
from toolgen.execute.http.places import Places
from toolgen.execute.http.wire import Request


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    def go(main: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(main)

    return go  # type: ignore[return-value]


def test_requests_follow_each_other_on_one_connection(run: Run) -> None:
    server = Server(OK, OK, OK)
    found = run(answers(server, asked(), asked("POST"), asked("POST", body=b"{}")))
    assert [reply.body for reply in found] == [b"ok"] * 3
    assert server.connections == 1
    host = f"Host: api.invalid:{server.port}".encode()
    assert server.heads[0] == (
        b"GET /a?b=1 HTTP/1.1\r\n" + host + b"\r\nAccept-Encoding: gzip, deflate\r\nX-Key: secret\r\n\r\n"
    )
    assert b"\r\nContent-Length: 0\r\n" in server.heads[1]
    assert server.heads[2].endswith(b"\r\nContent-Length: 2\r\n\r\n")


@pytest.mark.parametrize(
    ("script", "body", "kept"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Status: late\r\n\r\n", b"ok", True),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, b"ok", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", b"", True),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", b"ok", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok", False),
        # What stands behind an answer was never asked for, and is not believed to be the next one.
        (OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", b"ok", False),
        (OK + b"garbage", b"ok", False),
        (OK + b"\r\nHTTP/1.1 ", b"ok", False),
    ],
)
def test_an_answer_is_read_whole_and_a_connection_kept_only_when_nothing_is_left_on_it(
    script: bytes, body: bytes, kept: bool, run: Run
) -> None:
    server = Server(script, OK)
    first, second = run(answers(server, asked(), asked()))
    assert isinstance(first, Reply)
    assert first.body == body
    assert "x-status" not in first.headers
    assert "link" not in first.headers
    assert server.connections == (1 if kept else 2)
    assert isinstance(second, Reply)
    assert b"evil" not in second.body


def test_an_answer_without_a_length_ends_with_its_connection(run: Run) -> None:
    found = run(answers(Server(b"HTTP/1.1 200 OK\r\n\r\nall of it", ends=True), asked()))
    assert found[0].body == b"all of it"


def test_an_answer_to_head_has_no_body_whatever_its_length_says(run: Run) -> None:
    server = Server(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nETag: \xe9\r\n\r\n")
    (reply,) = run(answers(server, asked("HEAD")))
    assert (reply.body, reply.headers) == (b"", {"content-length": "5000", "etag": "é"})


def test_of_a_repeated_header_the_first_counts(run: Run) -> None:
    (reply,) = run(answers(Server(b"HTTP/1.1 200 OK\r\nX-A: 1\r\nX-a: 2\r\nContent-Length: 0\r\n\r\n"), asked()))
    assert reply.headers["x-a"] == "1"


@pytest.mark.parametrize(
    "script",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFF\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: \x00\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 40_000,
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"e" * 200_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 40_000,
        b"\r\n" * 100_000,
    ],
)
def test_what_is_no_answer_breaks_the_connection(script: bytes, run: Run) -> None:
    server = Server(script)
    found = run(answers(server, asked("POST"), asked("POST")))
    assert [type(one) for one in found] == [BrokenError, BrokenError]
    assert server.connections == 2


@pytest.mark.parametrize(
    "script", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", b"HTTP/1.1 200 O", OK[:-1], OK[:-4]]
)
def test_an_answer_that_breaks_off_is_none(script: bytes, run: Run) -> None:
    (found,) = run(answers(Server(script, ends=True), asked()))
    assert isinstance(found, BrokenError)


def test_a_body_beyond_the_cap_is_cut_and_its_connection_closed(run: Run) -> None:
    server = Server(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000, OK)
    first, _ = run(answers(server, asked(), asked()))
    assert (first.body, first.truncated) == (b"x" * 1000, True)
    assert server.connections == 2


def test_a_body_that_cannot_be_decoded_is_said_so(run: Run) -> None:
    server = Server(b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nok", OK)
    first, _ = run(answers(server, asked(), asked()))
    assert isinstance(first, UndecodableError)
    assert server.connections == 2


def test_bytes_that_come_while_nothing_is_asked_end_the_connection(run: Run) -> None:
    async def main() -> None:
        server = Server(OK, OK)
        async with server.serving() as client:
            await client.send(asked(), 10)
            (resting,) = client._resting
            resting.data_received(OK)
            assert not resting.usable
            reply = await client.send(asked(), 10)
            assert reply.body == b"ok"
        assert server.connections == 2

    run(main())


def test_a_connection_the_server_closed_is_not_used_again(run: Run) -> None:
    async def main() -> None:
        server = Server(OK, ends=True)
        async with server.serving() as client:
            for _ in range(2):
                await client.send(asked("POST"), 10)
                (resting,) = client._resting
                while resting.usable:  # noqa: ASYNC110 - whether the end has come in is nobody's event
                    await asyncio.sleep(0)
        assert server.connections == 2

    run(main())


def test_a_connection_that_rested_too_long_is_not_used_again(run: Run) -> None:
    server = Server(OK)
    run(answers(server, asked(), asked(), times=Times(connect_s=30, read_s=30, total_s=60, rest_s=0)))
    assert server.connections == 2


@pytest.mark.parametrize("seconds", [(0.05, 5.0), (5.0, 0.05)], ids=["between pieces", "altogether"])
@pytest.mark.parametrize("script", [None, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"])
def test_no_answer_is_awaited_for_ever(seconds: tuple[float, float], script: bytes | None, run: Run) -> None:
    times = Times(connect_s=30, read_s=seconds[0], total_s=seconds[1])
    (found,) = run(answers(Server(script), asked(), times=times))
    assert isinstance(found, TimedOutError)


class Hand:
    """A loop's clock and timers, moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def create_future(self) -> asyncio.Future[Reply]:
        return asyncio.get_running_loop().create_future()

    def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        self.timers.append((when, callback))
        return asyncio.get_running_loop().call_later(3600, callback)

    def move(self, to: float) -> None:
        """Runs every timer that is due by then, at its time."""
        while due := [timer for timer in self.timers if timer[0] <= to]:
            self.timers.remove(due[0])
            self.now = due[0][0]
            due[0][1]()
        self.now = to


class Wire:
    """A transport that sends nothing."""

    closed = False

    def write(self, data: bytes) -> None: ...
    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0


def test_one_timer_serves_many_requests_and_ends_none_before_its_time(run: Run) -> None:
    async def main() -> None:
        hand, transport = Hand(), Wire()
        connection = Connection(Times(connect_s=5, read_s=10, total_s=15), Places())
        connection._loop = hand  # type: ignore[assignment]
        connection.connection_made(transport)  # type: ignore[arg-type]
        first = asyncio.ensure_future(connection.exchange(b"GET", b"", 10))
        await asyncio.sleep(0)
        hand.move(9)
        connection.data_received(OK)
        assert (await first).body == b"ok"
        second = asyncio.ensure_future(connection.exchange(b"GET", b"", 10))
        await asyncio.sleep(0)
        assert len(hand.timers) == 1
        hand.move(18.5)  # its read time ends at 19, and the time of the first was up at 10
        assert not second.done()
        connection.data_received(OK[:20])
        hand.move(23.5)  # altogether until 24, between pieces until 28.5
        assert not second.done()
        hand.move(24)
        with pytest.raises(TimedOutError):
            await second
        assert transport.closed

    run(main())


def test_a_request_may_have_less_time_than_its_connection_gives(run: Run) -> None:
    async def main() -> None:
        hand = Hand()
        connection = Connection(Times(connect_s=5, read_s=10, total_s=60), Places())
        connection._loop = hand  # type: ignore[assignment]
        connection.connection_made(Wire())  # type: ignore[arg-type]
        first = asyncio.ensure_future(connection.exchange(b"GET", b"", 10, 70.0))
        await asyncio.sleep(0)
        connection.data_received(OK)
        await first
        second = asyncio.ensure_future(connection.exchange(b"GET", b"", 10, 3.0))
        await asyncio.sleep(0)
        hand.move(2.9)
        assert not second.done()
        hand.move(3)
        with pytest.raises(TimedOutError):
            await second

    run(main())


def test_a_connection_that_rests_is_closed_in_the_end(run: Run) -> None:
    async def main() -> None:
        server = Server(OK)
        async with server.serving() as client:
            await client.send(asked(), 10)
            (resting,) = client._resting
            hand = Hand()
            hand.now = resting._heard
            resting._loop = hand  # type: ignore[assignment]
            resting._watch()
            hand.move(hand.now + 30)
            assert not resting.usable
            await server.gone[0].wait()

    run(main())


@pytest.mark.parametrize(
    ("method", "status", "body", "kept"),
    [
        ("POST", 200, b"small", True),
        ("GET", 404, None, True),
        ("POST", 404, None, True),
        # Whoever says no may have said so before it read the body, and take what is left of it for the next request.
        ("POST", 413, b"small\r\n\r\n", False),
        ("PUT", 401, b"GET /admin HTTP/1.1\r\nHost: a\r\n\r\n", False),
        # An answer that came before the request was sent whole.
        ("POST", 200, b"x" * 20_000_000, False),
    ],
)
def test_what_is_left_of_a_body_is_never_in_front_of_the_next_request(
    method: str, status: int, body: bytes | None, kept: bool, run: Run
) -> None:
    server = Server(f"HTTP/1.1 {status} So\r\nContent-Length: 2\r\n\r\nok".encode(), None)

    async def main() -> None:
        async with server.serving() as client:
            assert (await client.send(asked(method, body=body), 10)).status == status
            assert bool(client._resting) is kept

    run(main())


@pytest.mark.parametrize(
    ("header", "rests"),
    [
        ("timeout=5, max=100", 4.0),
        ("max=100,TIMEOUT=20", 19.0),
        ("timeout=1", 0.0),
        ("timeout=900", 30.0),
        ("timeout=x", 30.0),
    ],
)
def test_a_connection_rests_no_longer_than_its_server_says(header: str, rests: float, run: Run) -> None:
    async def main() -> None:
        connection = Connection(Times(connect_s=5, read_s=5, total_s=5), Places())
        hand = Hand()
        connection._loop = hand  # type: ignore[assignment]
        connection.connection_made(Wire())  # type: ignore[arg-type]
        asking = asyncio.ensure_future(connection.exchange(b"GET", b"GET / HTTP/1.1\r\n\r\n", 10))
        await asyncio.sleep(0)
        connection.data_received(f"HTTP/1.1 200 OK\r\nKeep-Alive: {header}\r\nContent-Length: 2\r\n\r\nok".encode())
        await asking
        hand.now = max(0.0, rests - 0.5)
        assert connection.usable is (rests > 0)
        hand.now = rests + 0.5
        assert not connection.usable

    run(main())


def test_a_request_that_is_cancelled_takes_its_connection_along(run: Run) -> None:
    async def main() -> None:
        server = Server(None)
        async with server.serving() as client:
            task = asyncio.create_task(client.send(asked(), 10))
            while not server.heads:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait((task,))
            assert task.cancelled()
            assert client.idle
            assert not client._resting

    run(main())


def test_requests_at_once_have_connections_of_their_own(run: Run) -> None:
    async def main() -> None:
        server = Server(OK, OK)
        async with server.serving() as client:
            found = await asyncio.gather(*(client.send(asked(), 10) for _ in range(5)))
            assert [reply.body for reply in found] == [b"ok"] * 5
            await client.send(asked(), 10)
        assert server.connections == 5

    run(main())


@pytest.mark.parametrize(
    "request_",
    [
        asked("GET /x HTTP/1.1\r\nX:"),
        asked(""),
        asked("GÉT"),
        asked(url="http://api.invalid/a b"),
        asked(url="http://api.invalid/a\r\nX: y"),
        asked(url="http://api.invalid/é"),
        *(
            Request(method="GET", url="http://api.invalid/", headers=(header,), body=None)
            for header in (
                ("X", "a\r\nb"),
                ("X", "a\nb"),
                ("X", "a\0b"),
                ("X", "\ud800"),
                ("X:", "a"),
                ("", "a"),
                ("X Y", "a"),
                ("Host", "evil"),
                ("Content-Length", "0"),
                ("transfer-encoding", "chunked"),
                ("Connection", "close"),
            )
        ),
    ],
)
def test_what_would_be_read_as_another_request_is_never_written(request_: Request) -> None:
    with pytest.raises(ValueError, match=r".+"):
        written(request_, "api.invalid")


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://h.test", b"/"),
        ("http://h.test/", b"/"),
        ("http://h.test?a=/b", b"/?a=/b"),
        ("http://h.test/a?b=/c", b"/a?b=/c"),
    ],
)
def test_the_target_is_what_stands_behind_the_origin(url: str, target: bytes) -> None:
    assert written(asked(url=url), "h.test").startswith(b"GET " + target + b" HTTP/1.1\r\nHost: h.test\r\n")


@pytest.mark.parametrize(
    ("scheme", "host", "port", "authority"),
    [
        ("http", "h.test", 80, "h.test"),
        ("https", "h.test", 443, "h.test"),
        ("http", "h.test", 443, "h.test:443"),
        ("http", "::1", 8080, "[::1]:8080"),
    ],
)
def test_the_host_is_named_with_its_port_where_that_is_not_the_usual_one(
    scheme: str, host: str, port: int, authority: str
) -> None:
    assert make(port, scheme=scheme, host=host)._authority == authority
