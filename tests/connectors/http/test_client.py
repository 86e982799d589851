"""The client against servers that answer, break off, lie and talk out of turn, on both event loops."""

from __future__ import annotations

import asyncio

import pytest

from tests.connectors.http.upstreams import OK, Asking, Server, answers, asked
from toolgen.connectors.http.connector import Timeouts
from toolgen.connectors.http.message import UndecodableError
from toolgen.connectors.http.reply import BrokenError, RawResponse, TimedOutError, UnsentError
from toolgen.connectors.http.request_builder import HttpRequest

HEAD = b"HTTP/1.1 200 OK\r\n"


MANY = 3


@pytest.mark.usefixtures("loop_factory")
async def test_requests_follow_each_other_on_a_connection() -> None:
    server = Server(*[OK] * MANY)
    found = await answers(server, *[asked()] * MANY)
    assert [reply.body for reply in found] == [b"ok"] * MANY
    assert server.connections == 1


@pytest.mark.usefixtures("loop_factory")
async def test_a_request_is_sent_as_it_is_with_its_framing() -> None:
    server = Server(OK, OK, OK)
    agent = (("X-Key", "secret"), ("Accept", "*/*"), ("User-Agent", "t"))
    requests = [asked(headers=agent), asked("POST", headers=agent), asked("POST", body=b"{}", headers=agent)]
    found = await answers(server, *requests)
    assert [reply.body for reply in found] == [b"ok"] * 3
    first, second, third = (head.decode().split("\r\n")[:-2] for head in server.heads)
    assert first[0] == "GET /a?b=1 HTTP/1.1"
    sent = ["X-Key: secret", "Accept: */*", "User-Agent: t"]
    framing = [f"Host: {server.origin[7:]}", "Accept-Encoding: gzip, deflate"]
    assert sorted(first[1:]) == sorted([*sent, *framing])
    assert sorted(second[1:]) == sorted([*sent, *framing, "Content-Length: 0"])
    assert sorted(third[1:]) == sorted([*sent, *framing, "Content-Length: 2"])


@pytest.mark.usefixtures("loop_factory")
@pytest.mark.parametrize(
    ("script", "body", "kept"),
    [
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Status: late\r\n\r\n", b"ok", True),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, b"ok", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", b"", True),
        (HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\nok", b"ok", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok", False),
        # What stands behind an answer was never asked for, and is not believed to be the next one.
        (OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", b"ok", False),
        (OK + b"garbage", b"ok", False),
        (OK + b"\r\nHTTP/1.1 ", b"ok", False),
        (OK + b"\r\n", b"ok", False),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n\r\n", b"ok", False),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\nevil", b"", False),
        (b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok", b"ok", False),
        (b"HTTP/1.1 200 OK\r\nConnection: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", b"ok", False),
    ],
)
async def test_an_answer_is_read_whole_and_a_connection_kept_only_when_nothing_is_left_on_it(
    script: bytes, body: bytes, kept: bool
) -> None:
    server = Server(script, *[OK] * MANY)
    first, *others = await answers(server, *[asked()] * MANY)
    assert isinstance(first, RawResponse)
    assert first.body == body
    assert "x-status" not in first.headers
    assert "link" not in first.headers
    assert server.connections == (1 if kept else MANY)
    assert all(isinstance(one, RawResponse) and one.body in {body, b"ok"} for one in others)


@pytest.mark.usefixtures("loop_factory")
@pytest.mark.parametrize("length", [0, 65_536, 65_537, 300_000])
async def test_a_body_of_known_length_is_read_to_its_end_and_no_further(length: int) -> None:
    body = bytes(range(97, 122)) * 12_000
    script = HEAD + b"Content-Length: %d\r\n\r\n" % length + body[:length]
    server = Server(*[script] * MANY)
    found = await answers(server, *[asked()] * MANY, limit=length)
    assert [(reply.body, reply.truncated) for reply in found] == [(body[:length], False)] * MANY
    assert server.connections == 1


@pytest.mark.usefixtures("loop_factory")
async def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    found = await answers(Server(HEAD + b"\r\nall of it", ends=True), asked())
    assert found[0].body == b"all of it"


@pytest.mark.usefixtures("loop_factory")
async def test_an_answer_to_head_has_no_body_whatever_its_length_says() -> None:
    server = Server(HEAD + b"Content-Length: 5000\r\nETag: a\r\n\r\n")
    (reply,) = await answers(server, asked("HEAD"))
    assert (reply.body, reply.headers) == (b"", {"content-length": "5000", "etag": "a"})


@pytest.mark.usefixtures("loop_factory")
async def test_of_a_repeated_header_the_first_counts_and_one_without_text_is_left_out() -> None:
    script = HEAD + b"X-A: 1\r\nX-a: 2\r\nETag: \xe9\r\nX-B: 3\r\nContent-Length: 0\r\n\r\n"
    (reply,) = await answers(Server(script), asked())
    assert reply.headers == {"x-a": "1", "x-b": "3", "content-length": "0"}
    (reply,) = await answers(Server(script.replace(b"ETag: \xe9\r\n", b"")), asked())
    assert reply.headers == {"x-a": "1", "x-b": "3", "content-length": "0"}


@pytest.mark.usefixtures("loop_factory")
@pytest.mark.parametrize(
    "script",
    [
        HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        HEAD + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nok",
        HEAD + b"Content-Length: 2, 2\r\n\r\nok",
        HEAD + b"Content-Length: 0x2\r\n\r\nok",
        HEAD + b"Content-Length: \r\n\r\nok",
        HEAD + b"Content-Length: 99999999999999999999\r\n\r\nok",
        HEAD + b"Transfer-Encoding: identity\r\n\r\nok",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2 \r\nok\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nok\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: a\r\n b\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\nX: a\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nX: a\rContent-Length: 5\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1  200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        HEAD + b": a\r\nContent-Length: 2\r\n\r\nok",
        HEAD + b"no colon\r\nContent-Length: 2\r\n\r\nok",
        HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Content-Encoding: \xe9\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFF\r\nabc",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: +2\r\n\r\nok",
        HEAD + b"X: a\r\n b\r\n\r\n",
        HEAD + b"X: \x00\r\n\r\n",
        HEAD + b"X : a\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        HEAD + b"X: y\r\n" * 40_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000,
        b"\r\n" * 10_000,
        HEAD + b"X: " + b"y" * 2_000_000,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"e" * 200_000,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 40_000,
    ],
)
async def test_what_is_no_answer_is_told_as_broken(script: bytes) -> None:
    found = await answers(Server(script), asked("POST"))
    assert [type(one) for one in found] == [BrokenError]


@pytest.mark.usefixtures("loop_factory")
@pytest.mark.parametrize("script", [b"", HEAD + b"Content-Length: 3\r\n\r\nok", b"HTTP/1.1 200 O", OK[:-1], OK[:-4]])
async def test_an_answer_that_breaks_off_is_none(script: bytes) -> None:
    (found,) = await answers(Server(script, ends=True), asked())
    assert isinstance(found, BrokenError)


@pytest.mark.usefixtures("loop_factory")
async def test_a_body_beyond_the_cap_is_cut_and_its_connection_closed() -> None:
    server = Server(HEAD + b"Content-Length: 50000000\r\n\r\n" + b"x" * 500_000)
    async with server.serving() as client:
        reply = await client.send(asked(), 1000)
        assert (reply.body, reply.truncated) == (b"x" * 1000, True)
        await asyncio.wait_for(server.gone[0].wait(), 60)


@pytest.mark.usefixtures("loop_factory")
async def test_a_body_that_cannot_be_decoded_is_said_so() -> None:
    server = Server(HEAD + b"Content-Encoding: br\r\nContent-Length: 2\r\n\r\nok")
    (found,) = await answers(server, asked())
    assert isinstance(found, UndecodableError)


class Paced(Server):
    """Answers every request, and leaves its end of a connection to the test."""

    def __init__(self) -> None:
        super().__init__()
        self.writers: list[asyncio.StreamWriter] = []

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        while True:
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(OK)


async def rested(client: Asking, server: Paced, method: str = "POST") -> asyncio.StreamWriter:
    """The server's end of a connection that was used and rests."""
    assert (await client.send(asked(method))).body == b"ok"
    return server.writers[-1]


@pytest.mark.usefixtures("loop_factory")
async def test_bytes_that_come_while_nothing_is_asked_end_the_connection() -> None:
    """An answer nobody asked for would be the answer to the next request, whoever sends that."""

    server = Paced()
    async with server.serving() as client:
        (await rested(client, server)).write(HEAD + b"Content-Length: 4\r\n\r\nevil")
        await asyncio.wait_for(server.gone[0].wait(), 60)
        assert (await client.send(asked())).body == b"ok"
    assert server.connections == 2


@pytest.mark.usefixtures("loop_factory")
async def test_a_connection_the_server_closed_is_not_used_again() -> None:
    """A server that closes what rests costs nobody the outcome of a POST."""

    server = Paced()
    async with server.serving() as client:
        for _ in range(20):
            (await rested(client, server)).write_eof()
            await asyncio.wait_for(server.gone[-1].wait(), 60)  # the client has closed its end as well
    assert server.connections == 20
    assert len(server.heads) == 20


@pytest.mark.usefixtures("loop_factory")
@pytest.mark.parametrize(
    ("hint", "rests"), [("timeout=1", False), ("max=9, TIMEOUT=0", False), ("timeout=90", True), ("timeout=x", True)]
)
async def test_a_connection_rests_no_longer_than_its_server_says(hint: str, rests: bool) -> None:
    script = HEAD + f"Keep-Alive: {hint}\r\nContent-Length: 2\r\n\r\nok".encode()
    server = Server(*[script] * MANY)
    found = await answers(server, *[asked()] * MANY)
    assert all(isinstance(one, RawResponse) for one in found)
    assert server.connections == (1 if rests else MANY)


@pytest.mark.usefixtures("loop_factory")
@pytest.mark.parametrize("seconds", [(0.3, 60.0), (60.0, 0.3)], ids=["between pieces", "altogether"])
@pytest.mark.parametrize("script", [None, HEAD + b"Content-Length: 9\r\n\r\nhalf"])
async def test_no_answer_is_awaited_for_ever(seconds: tuple[float, float], script: bytes | None) -> None:
    timeouts = Timeouts(first_byte_s=seconds[0], total_s=seconds[1])
    (found,) = await answers(Server(script), asked(), timeouts=timeouts)
    assert isinstance(found, TimedOutError)


@pytest.mark.usefixtures("loop_factory")
async def test_a_request_may_have_less_time_than_its_client_gives() -> None:
    server = Server(None)
    async with server.serving() as client:
        for left, error in ((0.3, TimedOutError), (-1.0, UnsentError)):
            with pytest.raises(error):
                await client.send(asked(), until=asyncio.get_running_loop().time() + left)


@pytest.mark.usefixtures("loop_factory")
@pytest.mark.parametrize(
    ("method", "status", "body", "kept"),
    [
        ("POST", 200, b'{"a":"b c"}', True),
        ("POST", 413, b'[1,"GET / HTTP/1.1"]', True),
        ("POST", 200, b"a=1&b=GET+%2F", True),
        ("GET", 404, None, True),
        ("POST", 404, None, True),
        ("POST", 404, b"", True),
        # A server that says no before it reads may take what is left for the next request, or for the first half of its first line.
        ("POST", 413, b"small\r\n\r\n", False),
        ("PUT", 401, b"GET /admin HTTP/1.1\r\nHost: a\r\n\r\n", False),
        ("POST", 200, b"GET /admin?", False),
        ("POST", 200, b"5", False),
        ("POST", 200, b'{\n"a":1}', False),
        ("POST", 200, b'\r{"a":1}', False),
        ("POST", 200, b' {"a":1}', False),
        # An answer that came before the request was sent whole.
        ("POST", 200, b'"' + b"x" * 2_000_000 + b'"', False),
    ],
)
async def test_what_is_left_of_a_body_is_never_in_front_of_the_next_request(
    method: str, status: int, body: bytes | None, kept: bool
) -> None:
    answer = f"HTTP/1.1 {status} So\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok".encode()

    class Reading(Server):
        async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(answer)
                await reader.readexactly(len(body or b""))

    server = Reading()
    found = await answers(server, *[asked(method, body=body)] * MANY)
    assert {one.status for one in found} == {status}
    assert server.connections == (1 if kept else MANY)
    assert {b"\r\nConnection: close\r\n" in head for head in server.heads} == {not kept}


@pytest.mark.usefixtures("loop_factory")
async def test_a_request_that_is_cancelled_answers_nobody_else() -> None:
    held, go_on = asyncio.Event(), asyncio.Event()

    class Late(Server):
        async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                if head.startswith(b"POST"):
                    held.set()
                    await go_on.wait()
                writer.write(HEAD + b"Content-Length: 4\r\n\r\n" + head[:4])

    server = Late()
    async with server.serving() as client:
        task = asyncio.create_task(client.send(asked("POST")))
        await asyncio.wait_for(held.wait(), 60)
        task.cancel()
        await asyncio.wait((task,))
        assert task.cancelled()
        del task  # its frames hold the client, whose connections end with it
        assert (await client.send(asked())).body == b"GET "
        go_on.set()
        for _ in range(5):
            assert (await client.send(asked())).body == b"GET "
    assert len(server.heads) == 7


@pytest.mark.usefixtures("loop_factory")
async def test_requests_at_once_have_connections_of_their_own() -> None:
    all_there = asyncio.Barrier(5)

    class Together(Server):
        async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            await all_there.wait()
            writer.write(OK)

    server = Together()
    async with server.serving() as client:
        found = await asyncio.gather(*(client.send(asked()) for _ in range(5)))
        assert [reply.body for reply in found] == [b"ok"] * 5
    assert server.connections == 5


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
            asked(headers=(header,))
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
                ("Keep-Alive", "timeout=9"),
            )
        ),
    ],
)
async def test_what_would_be_read_as_another_request_is_never_written(request_: HttpRequest) -> None:
    server = Server(OK)
    (found,) = await answers(server, request_)
    assert isinstance(found, ValueError)
    assert server.connections == 0
