"""Bodies that are taken in parts: the same bytes as when they are read whole, in bounded memory, however they come."""

from __future__ import annotations

import asyncio
import gzip
import random
import zlib
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.connectors.http.upstreams import Asking, Server, asked
from toolgen.connectors.http.connection import ORDINARY
from toolgen.connectors.http.connector import Target, Timeouts
from toolgen.connectors.http.message import PORTION, BodyReader, UndecodableError, pass_on
from toolgen.connectors.http.reply import BrokenError, RawResponse, TimedOutError
from toolgen.connectors.http.scrubber import Scrubber

FILE = random.Random(5).randbytes(2_000_000)
AFTER = ORDINARY


class Taking:
    """Keeps what it is given; `refuses` takes nothing, and after `enough` bytes no more is wanted."""

    def __init__(
        self, *, refuses: bool = False, enough: int = 1 << 40, pause_s: float = 0.0, after: int = AFTER
    ) -> None:
        self.after, self.most = after, 1 << 30
        self.taken: list[bytes] = []
        self.begun = False
        self._refuses, self._enough, self._pause_s = refuses, enough, pause_s

    def wants(self, status: int, headers: Mapping[str, str]) -> bool:
        return status == 200 and headers.get("content-type") != "application/json"

    def begin(self, body: bytes) -> bool:
        assert len(body) > min(self.after, 300_000)
        assert not self.begun
        self.begun = not self._refuses
        return self.begun

    async def write(self, data: bytes) -> bool:
        assert len(data) <= self.after + 2 * PORTION
        self.taken.append(data)
        await asyncio.sleep(self._pause_s)
        return sum(map(len, self.taken)) < self._enough


def framed(body: bytes, how: str, kind: str = "a/b") -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n"
    if how.endswith("gzip"):
        head, body = f"{head}Content-Encoding: gzip\r\n", gzip.compress(body, 1)
    if how.endswith("deflate"):
        head, body = f"{head}Content-Encoding: deflate\r\n", zlib.compress(body)
    if how.startswith("chunked"):
        pieces = [body[at : at + 70_001] for at in range(0, len(body), 70_001)]
        return b"".join(
            [
                f"{head}Transfer-Encoding: chunked\r\n\r\n".encode(),
                *(b"%x\r\n%b\r\n" % (len(one), one) for one in pieces),
                b"0\r\n\r\n",
            ]
        )
    if how.startswith("closed"):
        return head.encode() + b"\r\n" + body
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def read(
    server: Server, sink: Taking | None, limit: int = 300_000, times: int = 1, **more: Any
) -> list[RawResponse]:
    async def once(client: Asking) -> RawResponse:
        target = Target.of(client.origin + "/a")
        (address,) = await client.dialer.addresses(target)
        return await client.dialer.client(target, address).send(
            asked(url=client.origin + "/a"), limit, client.places, sink=sink
        )

    async with server.serving(host="127.0.0.1", **more) as client:
        return [await once(client) for _ in range(times)]


HOW = ["length", "length gzip", "length deflate", "chunked", "chunked gzip", "closed", "closed gzip"]


@pytest.mark.usefixtures("loop_factory")
@pytest.mark.parametrize("how", HOW)
async def test_a_long_file_is_taken_in_parts(how: str) -> None:
    sink = Taking()
    server = Server(framed(FILE, how), ends=how.startswith("closed"))
    (reply,) = await read(server, sink)
    assert b"".join([*sink.taken, reply.body]) == FILE
    assert not reply.truncated
    assert len(reply.body) <= PORTION


@pytest.mark.usefixtures("loop_factory")
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("size", [0, 10, AFTER, AFTER + 1, 299_999, 300_000, 300_001, 900_000])
async def test_an_answer_that_no_sink_takes_is_read_as_without_one(how: str, size: int) -> None:
    body = FILE[:size]
    replies = [
        (await read(Server(framed(body, how), ends=how.startswith("closed")), sink))[0]
        for sink in (None, Taking(refuses=True), Taking(refuses=True, after=1 << 20))
    ]
    whole, *others = ((one.body, one.truncated, one.status) for one in replies)
    assert all(other == whole for other in others)
    assert whole[1] is (size > 300_000)


@pytest.mark.usefixtures("loop_factory")
async def test_a_sink_is_not_asked_about_data() -> None:
    sink = Taking()
    (reply,) = await read(Server(framed(FILE, "chunked", "application/json")), sink)
    assert reply.truncated
    assert not sink.begun


@pytest.mark.usefixtures("loop_factory")
async def test_the_connection_is_used_again_after_a_file() -> None:
    answer = framed(FILE, "length")
    server = Server(answer, answer)
    sinks = Taking(), Taking()

    async with server.serving(host="127.0.0.1") as client:
        for sink in sinks:
            target = Target.of(client.origin + "/a")
            (address,) = await client.dialer.addresses(target)
            reply = await client.dialer.client(target, address).send(
                asked(url=client.origin + "/a"), 300_000, client.places, sink=sink
            )
            assert b"".join([*sink.taken, reply.body]) == FILE
    assert server.connections == 1


@pytest.mark.usefixtures("loop_factory")
async def test_the_server_waits_for_a_slow_sink_and_no_limit_runs_meanwhile() -> None:
    sink = Taking(pause_s=0.5)
    timeouts = Timeouts(connect_s=60, first_byte_s=0.3, total_s=60)
    (reply,) = await read(Server(framed(FILE[:900_000], "length")), sink, timeouts=timeouts)
    assert b"".join([*sink.taken, reply.body]) == FILE[:900_000]


@pytest.mark.usefixtures("loop_factory")
async def test_a_sink_that_wants_no_more_ends_the_answer() -> None:
    sink = Taking(enough=400_000)
    server = Server(framed(FILE, "length"))
    (reply,) = await read(server, sink)
    assert reply.truncated
    assert reply.body == b""
    assert sum(map(len, sink.taken)) < 400_000 + AFTER + 2 * PORTION


@pytest.mark.usefixtures("loop_factory")
@pytest.mark.parametrize(
    ("script", "ends", "error"),
    [
        (framed(FILE, "length")[:-1], True, BrokenError),
        (framed(FILE, "chunked")[:1_000_000], True, BrokenError),
        (framed(FILE, "length")[:-1], False, TimedOutError),
        (framed(FILE, "closed gzip")[:-1_000], True, UndecodableError),
        (framed(FILE, "chunked gzip").replace(b"0\r\n\r\n", b"1\r\nx\r\n0\r\n\r\n"), False, UndecodableError),
    ],
)
async def test_a_file_that_breaks_off_is_none(script: bytes, ends: bool, error: type[Exception]) -> None:
    timeouts = Timeouts(connect_s=60, first_byte_s=2.0, total_s=60)
    with pytest.raises(error):
        await read(Server(script, ends=ends), Taking(), timeouts=timeouts)


async def test_a_file_that_is_much_longer_decoded_is_decoded_a_portion_at_a_time() -> None:
    packed = gzip.compress(bytes(64 * 1024 * 1024), 9)
    body = BodyReader("gzip", 300_000, AFTER)
    body.feed(packed)  # all of it, 64 KiB
    assert body.paused
    assert body.size <= AFTER + 1
    body.stream(1 << 30)

    sink, most, count = Taking(), 0, 0
    while body.paused:
        part = body.take()
        most, count = max(most, len(part)), count + len(part)
        assert await sink.write(part)
    assert most <= PORTION + 1
    assert count + len(body.end()) == 64 * 1024 * 1024


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(1, 90_000), min_size=1, max_size=12),
    st.sampled_from(["", "gzip", "deflate"]),
    st.integers(1, 200_000),
    st.integers(0, 400_000),
)
async def test_whatever_pieces_a_body_comes_in_the_same_is_taken(
    steps: list[int], coding: str, after: int, size: int
) -> None:
    whole = (b"ab" * 50_000 + FILE)[:size]
    sent = {"": whole, "gzip": gzip.compress(whole), "deflate": zlib.compress(whole)}[coding]
    body, sink, at = BodyReader(coding, 1 << 20, after), Taking(after=after), 0
    streams = False

    step = 0
    while at < len(sent):
        body.feed(sent[at : at + steps[step % len(steps)]])
        at += steps[step % len(steps)]
        step += 1
        if body.paused:
            if not streams:
                body.stream(1 << 20)
                streams = True
            assert await pass_on(body, sink)
    outcome = True
    assert outcome
    assert b"".join(sink.taken) + body.end() == whole


SECRETS = ["abcdef", "abcdefgh", "s3cr3t-of-the-service", "Schlüssel-ÄÖ"]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "abcdef",
                "gh",
                "ABCDEFGH",
                "abc",
                "def",
                "s3cr3t-of-",
                "the-service",
                "\xe9\x00",
                "-",
                "Schlüssel-",
                "ÄÖ",
                "schlüssel-äö",
                "SCHLÜSSEL-ÄÖ",
            ]
        ),
        max_size=40,
    ),
    st.lists(st.integers(1, 30), min_size=1, max_size=10),
)
def test_secrets_are_taken_out_whatever_portions_they_come_in(words: list[str], steps: list[int]) -> None:
    scrubber = Scrubber(SECRETS)
    body = "".join(words).encode()
    portions, shown, at, step = scrubber.portions(), b"", 0, 0
    while at < len(body):
        width = steps[step % len(steps)]
        shown += portions.feed(body[at : at + width])
        at, step = at + width, step + 1
    shown += portions.feed(b"", last=True)
    assert shown == scrubber.raw(body)
    assert not any(one.lower() in shown.decode("utf-8", "ignore").lower() for one in SECRETS)
