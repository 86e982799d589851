"""HTTP/2 connections: calls share them, a call that is given up is reset alone, and what a server breaks is never an answer."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import h2.errors
import pytest
from cryptography import x509
from hpack import NeverIndexedHeaderTuple
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.connectors.http.http2_upstream import Connection, Upstream
from tests.connectors.http.test_client_certificates import pem
from tests.connectors.http.test_client_tls import certificates
from tests.connectors.http.test_downloads import FILE, Taking
from toolgen.connectors.failure_settings import Timeouts
from toolgen.connectors.http.http2_connection import Http2Connection
from toolgen.connectors.http.http2_frames import Flag, Kind, frame, headers_frames
from toolgen.connectors.http.http2_stream import Reading
from toolgen.connectors.http.message import UndecodableError
from toolgen.connectors.http.reply import BrokenError, TimedOutError, UnsentError
from toolgen.connectors.http.tls import client_certificate

CANCEL = int(h2.errors.ErrorCodes.CANCEL)
AT_ONCE_S = 1.0


def begun(connection: Connection, stream: int) -> None:
    """Begins an answer and never ends it."""
    connection.h2.send_headers(stream, [(":status", "200")])
    connection.h2.send_data(stream, b"x" * 100)


def of(*headers: tuple[str, str], body: bytes = b"", status: int = 200) -> Callable[[Connection, int], None]:
    return lambda connection, stream: connection.answer(stream, body, *headers, status=status)


@pytest.mark.parametrize("path", ["/silent", "/begun"])
@pytest.mark.usefixtures("loop_factory")
async def test_a_cancelled_call_is_reset_alone(path: str) -> None:
    upstream = Upstream({"/begun": begun})
    async with upstream.serving() as caller:
        others = [asyncio.create_task(caller.send("/later")) for _ in range(4)]
        given_up = asyncio.create_task(caller.send(path))
        await upstream.until(lambda: len(upstream.requests) == 5)
        await asyncio.sleep(0.05)  # so that the head of the answer arrives
        given_up.cancel()
        began = time.monotonic()
        await upstream.until(lambda: bool(upstream.resets), AT_ONCE_S)
        assert time.monotonic() - began < AT_ONCE_S
        (connection,) = upstream.connections
        for stream, asked in connection.paths.items():
            if asked == "/later":
                connection.answer(stream, b"there")
        connection.flush()
        assert [reply.body for reply in await asyncio.gather(*others)] == [b"there"] * 4
        assert (await caller.send()).status == 200
        assert upstream.resets == [(path, CANCEL)]
        assert len(upstream.connections) == 1
        with pytest.raises(asyncio.CancelledError):
            await given_up


@pytest.mark.usefixtures("loop_factory")
async def test_calls_at_the_same_time_share_a_connection() -> None:
    upstream = Upstream()
    async with upstream.serving() as caller:
        replies = await asyncio.gather(*(caller.send("/e", headers=(("X-N", str(n)),)) for n in range(16)))
        assert [json.loads(reply.body)["headers"]["x-n"] for reply in replies] == [str(n) for n in range(16)]
        assert len(upstream.connections) == 1
        assert caller.client.idle


@pytest.mark.usefixtures("loop_factory")
async def test_a_server_is_sent_no_more_calls_at_a_time_than_it_takes() -> None:
    upstream = Upstream(most=2)
    async with upstream.serving() as caller:
        calls = [asyncio.create_task(caller.send("/later")) for _ in range(5)]
        await upstream.until(lambda: len(upstream.requests) == 5)
        assert sorted(len(one.paths) for one in upstream.connections) == [1, 2, 2]
        for connection in upstream.connections:
            for stream in connection.paths:
                connection.answer(stream, b"there")
            connection.flush()
        assert [reply.body for reply in await asyncio.gather(*calls)] == [b"there"] * 5


@pytest.mark.usefixtures("loop_factory")
async def test_a_server_that_takes_no_call_is_sent_none() -> None:
    upstream = Upstream(most=0)
    async with upstream.serving() as caller:
        with pytest.raises(UnsentError):
            await caller.send()
        assert upstream.requests == []


@pytest.mark.usefixtures("loop_factory")
async def test_a_request_is_what_it_is_in_http1_and_no_header_is_indexed() -> None:
    upstream = Upstream()
    async with upstream.serving() as caller:
        reply = await caller.send(
            "/e", "POST", headers=(("Authorization", "Bearer s"), ("X-Long", "v" * 40_000)), body=b"abc"
        )
        said = json.loads(reply.body)
        assert said["body"] == "abc"
        assert said["headers"] == {
            ":method": "POST",
            ":scheme": "http",
            ":authority": f"api.invalid:{upstream.port}",
            ":path": "/e",
            "accept-encoding": "gzip, deflate",
            "authorization": "Bearer s",
            "x-long": "v" * 40_000,
            "content-length": "3",
        }
        fields = upstream.connections[0].fields[1]
        named = [one for one in fields if not one[0].startswith(b":")]
        assert all(isinstance(one, NeverIndexedHeaderTuple) for one in named)
        for wrong in [("Host", "x"), ("TE", "trailers"), ("X", "a\r\nb"), ("", "x"), (":path", "/x")]:
            with pytest.raises(ValueError, match="header"):
                await caller.send("/e", headers=(wrong,))
        assert len(upstream.requests) == 1


@pytest.mark.usefixtures("loop_factory")
async def test_no_header_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        upstream = Upstream({"/e": of(("x-a", "canary-a"))})
        async with upstream.serving() as caller:
            await caller.send("/e", headers=(("X-B", "canary-b"),))
    assert "canary" not in caplog.text


class Parts:
    """A body that is sent in parts."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._data = data

    async def parts(self) -> AsyncIterator[bytes]:
        for at in range(0, self.size, 50_000):
            yield self._data[at : at + 50_000]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.usefixtures("loop_factory")
async def test_a_long_body_is_sent_as_it_is_taken(streamed: bool) -> None:
    upstream = Upstream()
    async with upstream.serving() as caller:
        body: dict[str, Any] = {"stream": Parts(FILE)} if streamed else {"body": FILE}
        reply = await caller.send("/e", "PUT", limit=1 << 24, **body)
        assert json.loads(reply.body)["body"] == FILE.decode("latin-1")
        assert json.loads(reply.body)["headers"]["content-length"] == str(len(FILE))


@pytest.mark.usefixtures("loop_factory")
async def test_an_answer_before_the_end_of_a_body_ends_the_sending() -> None:
    upstream = Upstream({"/early": of(status=413)})
    async with upstream.serving() as caller:
        await caller.send()
        upstream.connections[0].takes_bodies = False
        assert (await caller.send("/early", "PUT", stream=Parts(FILE))).status == 413
        await upstream.until(lambda: upstream.resets == [("/early", CANCEL)])
        upstream.connections[0].takes_bodies = True
        assert (await caller.send()).status == 200


@pytest.mark.usefixtures("loop_factory")
async def test_a_body_that_nobody_takes_is_late() -> None:
    upstream = Upstream()
    async with upstream.serving(timeouts=Timeouts(first_byte_s=0.3)) as caller:
        await caller.send()
        upstream.connections[0].takes_bodies = False
        with pytest.raises(TimedOutError):
            await caller.send("/e", "PUT", stream=Parts(FILE))
        await upstream.until(lambda: upstream.resets == [("/e", CANCEL)])


@pytest.mark.parametrize("path", ["/silent", "/begun"])
@pytest.mark.parametrize("limits", [{"first_byte_s": 0.3}, {"total_s": 0.3}])
@pytest.mark.usefixtures("loop_factory")
async def test_an_answer_that_is_late_is_reset(path: str, limits: dict[str, float]) -> None:
    upstream = Upstream({"/begun": begun})
    async with upstream.serving(timeouts=Timeouts(**limits)) as caller:
        with pytest.raises(TimedOutError):
            await caller.send(path)
        await upstream.until(lambda: upstream.resets == [(path, CANCEL)])


@pytest.mark.usefixtures("loop_factory")
async def test_a_connection_on_which_nothing_comes_any_more_is_not_used_again() -> None:
    upstream = Upstream()
    async with upstream.serving(timeouts=Timeouts(first_byte_s=0.3)) as caller:
        await caller.send()
        upstream.connections[0].transport.pause_reading()
        with pytest.raises(TimedOutError):
            await caller.send("/silent")
        assert (await caller.send()).status == 200
        assert len(upstream.connections) == 2


@pytest.mark.parametrize("limit", [1000, 1 << 20, 1 << 24])
@pytest.mark.usefixtures("loop_factory")
async def test_no_more_of_a_body_is_read_than_wanted(limit: int) -> None:
    upstream = Upstream({"/file": of(body=FILE), "/zip": of(("content-encoding", "gzip"), body=gzip.compress(FILE))})
    async with upstream.serving() as caller:
        for path in ("/file", "/zip"):
            reply = await caller.send(path, limit=limit)
            assert reply.truncated == (limit < len(FILE))
            assert FILE.startswith(reply.body)
            assert reply.truncated or reply.body == FILE
        if limit < len(FILE):
            await upstream.until(lambda: upstream.resets == [("/file", CANCEL), ("/zip", CANCEL)])
        assert (await caller.send()).status == 200
        assert len(upstream.connections) == 1


@pytest.mark.usefixtures("loop_factory")
async def test_long_files_are_taken_in_parts_at_their_own_pace() -> None:
    upstream = Upstream({"/file": of(body=FILE)})
    async with upstream.serving() as caller:
        slow, fast = Taking(pause_s=0.01), Taking()
        replies = await asyncio.gather(
            caller.send("/file", limit=300_000, sink=slow), caller.send("/file", limit=300_000, sink=fast)
        )
        for sink, reply in zip((slow, fast), replies, strict=True):
            assert b"".join([*sink.taken, reply.body]) == FILE
        enough = Taking(enough=500_000)
        assert (await caller.send("/file", limit=300_000, sink=enough)).truncated
        await upstream.until(lambda: upstream.resets == [("/file", CANCEL)])


def trailers(connection: Connection, stream: int) -> None:
    connection.h2.send_headers(stream, [(":status", "103"), ("link", "x")])
    connection.h2.send_headers(stream, [(":status", "200"), ("x-a", "head")])
    connection.h2.send_data(stream, b"body", pad_length=9)
    connection.h2.send_headers(stream, [("x-a", "trailer")], end_stream=True)


@pytest.mark.usefixtures("loop_factory")
async def test_heads_are_read_as_in_http1() -> None:
    answers = {
        "/trailers": trailers,
        "/twice": of(("x-a", "1"), ("x-a", "2"), ("x-b", "\u00e9"), ("set-cookie", "c=1")),
        "/304": of(("content-length", "10"), status=304),
        "/204": of(status=204),
        "/head": of(("content-length", "10")),
    }
    upstream = Upstream(answers)
    async with upstream.serving() as caller:
        for _ in range(2):
            reply = await caller.send("/trailers")
            assert (reply.status, reply.body, reply.headers) == (200, b"body", {"x-a": "head"})
            assert (await caller.send("/twice")).headers == {"x-a": "1", "set-cookie": "c=1"}
            assert (await caller.send("/304")).status == 304
            assert (await caller.send("/204")).status == 204
            assert (await caller.send("/head", "HEAD")).headers == {"content-length": "10"}
        assert len(upstream.connections) == 1
        assert upstream.resets == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (of(("content-length", "10"), body=b"short"), BrokenError),
        (of(("content-length", "3"), body=b"long" * 9000), BrokenError),
        (of(("content-length", "10")), BrokenError),
        (of(("content-length", "-1"), body=b"x"), BrokenError),
        (of(("content-encoding", "gzip"), ("content-encoding", "gzip"), body=b"x"), BrokenError),
        (of(("content-encoding", "br"), body=b"x"), UndecodableError),
        (of(("content-encoding", "gzip"), body=gzip.compress(b"abc")[:-4]), UndecodableError),
        (lambda connection, stream: connection.h2.reset_stream(stream, 2), BrokenError),
        (lambda connection, stream: connection.h2.reset_stream(stream, 7), UnsentError),
    ],
)
@pytest.mark.usefixtures("loop_factory")
async def test_what_a_server_breaks_is_no_answer_and_no_others_fault(answer: Any, error: type[Exception]) -> None:
    upstream = Upstream({"/bad": answer})
    async with upstream.serving() as caller:
        other = asyncio.create_task(caller.send("/later"))
        await upstream.until(lambda: bool(upstream.requests))
        with pytest.raises(error):
            await caller.send("/bad")
        (connection,) = upstream.connections
        connection.answer(1, b"there")
        connection.flush()
        assert (await other).body == b"there"


@pytest.mark.usefixtures("loop_factory")
async def test_what_was_refused_is_sent_once_more() -> None:
    def refuse(connection: Connection, stream: int) -> None:
        if len(upstream.requests) == 1:
            connection.h2.reset_stream(stream, 7)
        elif len(upstream.requests) == 2:
            connection.h2.close_connection(last_stream_id=stream - 2)
        else:
            connection.answer(stream, b"there")

    upstream = Upstream({"/e": refuse})
    async with upstream.serving() as caller:
        with pytest.raises(UnsentError):
            await caller.send()
        assert (await caller.send()).body == b"there"
        assert len(upstream.connections) == 2


@pytest.mark.usefixtures("loop_factory")
async def test_a_lost_connection_breaks_its_calls_and_the_next_one_has_another() -> None:
    upstream = Upstream()
    async with upstream.serving() as caller:
        calls = [asyncio.create_task(caller.send("/silent")) for _ in range(3)]
        await upstream.until(lambda: len(upstream.requests) == 3)
        upstream.connections[0].transport.abort()
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(one) for one in found] == [BrokenError] * 3
        assert (await caller.send()).status == 200


@pytest.mark.parametrize("trusts", [True, False])
@pytest.mark.parametrize("protocols", [["h2"], []])
@pytest.mark.usefixtures("loop_factory")
async def test_tls_is_checked_and_negotiates_http2(
    trusts: bool, protocols: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, authority = certificates(tmp_path, x509.DNSName("api.invalid"))
    if protocols:
        context.set_alpn_protocols(protocols)
    if trusts:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))

    upstream = Upstream()
    async with upstream.serving(scheme="https", tls=context) as caller:
        if trusts:
            assert (await caller.send()).status == 200
            secured: ssl.SSLObject = upstream.connections[0].transport.get_extra_info("ssl_object")
            assert secured.selected_alpn_protocol() == (protocols[0] if protocols else None)
            return
        with pytest.raises(UnsentError) as raised:
            await caller.send()
        assert raised.value.distrusted
        assert upstream.requests == []


@pytest.mark.parametrize("shows", [True, False])
@pytest.mark.usefixtures("loop_factory")
async def test_a_client_certificate_is_presented(shows: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (authority, _), server, (certificate, key) = pem("authority"), pem("server"), pem("client")
    (tmp_path / "authority.pem").write_text(authority, encoding="utf-8")
    (tmp_path / "server.pem").write_text("".join(server), encoding="utf-8")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    context.load_verify_locations(tmp_path / "authority.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])
    if not shows:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))

    upstream = Upstream()
    client = client_certificate(certificate, key, authority) if shows else None
    async with upstream.serving(scheme="https", host="127.0.0.1", tls=context, certificate=client) as caller:
        if shows:
            assert (await caller.send()).status == 200
            secured: ssl.SSLObject = upstream.connections[0].transport.get_extra_info("ssl_object")
            subject = dict(pair[0] for pair in secured.getpeercert()["subject"])  # type: ignore[index]
            assert subject["commonName"] == "client"
            return
        with pytest.raises((UnsentError, BrokenError)):
            await caller.send()
        assert upstream.requests == []


SETTINGS = frame(Kind.SETTINGS, 0, 0)
HEAD = headers_frames(1, b"\x88", ends=False)


class Transport(asyncio.Transport):
    """Transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0


async def talked(*data: bytes) -> tuple[Transport, object]:
    """Return the transport, and the answer to one request or what was raised, after a server wrote these bytes and left."""
    connection, transport = Http2Connection(60), Transport()
    connection.connection_made(transport)
    connection.data_received(SETTINGS)
    reading = Reading("GET", 1 << 20, asyncio.Semaphore(1))
    call = asyncio.create_task(connection.exchange(b"\x82\x86\x84", b"", reading))
    await asyncio.sleep(0)
    for part in data:
        connection.data_received(part)
    closed = transport.closed
    connection.connection_lost(None)
    (found,) = await asyncio.gather(call, return_exceptions=True)
    transport.closed = closed
    return transport, found


@pytest.mark.parametrize(
    "data",
    [
        frame(Kind.DATA, 0, 0, b"x"),
        frame(Kind.DATA, 0, 2, b"x"),
        frame(Kind.DATA, 0, 3, b"x"),
        HEAD + frame(Kind.DATA, Flag.PADDED, 1, b"\x05abc"),
        HEAD + frame(Kind.DATA, 0, 1, b"x" * 16_384) * 17,  # more than its window
        frame(Kind.HEADERS, Flag.END_HEADERS, 1, b"\xff\xff\xff\xff\xff"),
        frame(Kind.HEADERS, 0, 1, b"\x88") + frame(Kind.PING, 0, 0, b"12345678"),
        frame(Kind.HEADERS, 0, 1, b"\x88") + frame(Kind.CONTINUATION, 0, 1) * 100,
        frame(Kind.CONTINUATION, 0, 1, b"\x88"),
        frame(Kind.PUSH_PROMISE, Flag.END_HEADERS, 1, b"\0\0\0\2\x88"),
        frame(Kind.SETTINGS, 0, 0, b"12345"),
        frame(Kind.SETTINGS, 0, 0, b"\0\4\xff\xff\xff\xff"),
        frame(Kind.SETTINGS, Flag.ACK, 0, b"\0\4\0\0\0\1"),
        frame(Kind.PING, 0, 0, b"1"),
        frame(Kind.WINDOW_UPDATE, 0, 0, b"\0\0\0\0"),
        frame(Kind.WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff"),
        frame(Kind.GOAWAY, 0, 0, b""),
        frame(Kind.RST_STREAM, 0, 1, b""),
        b"\x00\x40\x01" + frame(Kind.DATA, 0, 1)[3:],
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
async def test_a_violation_ends_the_connection(data: bytes) -> None:
    transport, found = await talked(data)
    assert transport.closed
    assert isinstance(found, BrokenError)
    assert frame(Kind.GOAWAY, 0, 0, b"")[3:9] in transport.written


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\x88\x88",
        b"\x10\x01a\x01b\x88",
        b"\x88\x10\x01A\x01b",
        b"\x88\x10\x01a\x03b\r\n",
        b"\x88\x10\x0aconnection\x05close",
        b"\x18\x0210",
        b"\x18\x03101",
        b"\x88\x10\x05:path\x01/",
    ],
)
async def test_a_malformed_head_ends_its_call_alone(block: bytes) -> None:
    transport, found = await talked(headers_frames(1, block, ends=True))
    assert not transport.closed
    assert isinstance(found, BrokenError)


async def test_data_before_a_head_is_no_answer() -> None:
    _, found = await talked(frame(Kind.DATA, Flag.END_STREAM, 1, b"x"), HEAD)
    assert isinstance(found, BrokenError)


@given(data=st.data())
@settings(max_examples=200, deadline=None)
async def test_an_answer_is_the_same_however_its_bytes_are_cut(data: st.DataObject) -> None:
    whole = (
        HEAD + frame(Kind.DATA, Flag.PADDED, 1, b"\x02abc\0\0") + frame(99, 7, 5, b"?") + frame(Kind.DATA, 1, 1, b"d")
    )
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)))))
    parts = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    _, found = await talked(*parts)
    assert getattr(found, "body", found) == b"abcd"


FRAMES = st.builds(
    frame,
    st.integers(0, 10),
    st.integers(0, 255),
    st.sampled_from([0, 1, 1, 1, 2, 3, 2**31 - 1]),
    st.one_of(st.binary(max_size=40), st.just(b"\x88"), st.just(b"\0\0\0\1")),
)


@given(parts=st.lists(st.one_of(FRAMES, FRAMES, st.binary(max_size=60)), max_size=8))
@settings(max_examples=1000, deadline=None)
async def test_no_bytes_of_a_server_break_the_client(parts: list[bytes]) -> None:
    _, found = await talked(*parts)
    assert type(found).__name__ in {
        "RawResponse",
        "BrokenError",
        "RefusedStreamError",
        "UndecodableError",
    }
