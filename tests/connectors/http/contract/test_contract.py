"""Contract of HTTP clients: the same request, the same limits, and no answer where a server breaks off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.connectors.http.contract.clients import CLIENTS, HOST, LONG, Answered, Client, NoAnswerError
from toolgen.connectors.failure_settings import Timeouts
from toolgen.connectors.http.request_builder import HttpRequest

Make = Callable[..., Client]
START_OF_LONG = 65_536  # bytes of a body that are read if its length is beyond the limit


@pytest.fixture(params=CLIENTS)
def make(request: pytest.FixtureRequest) -> Make:
    def made(**seconds: float) -> Client:
        return CLIENTS[request.param](Timeouts(**{"connect_s": 60, "first_byte_s": 60, "total_s": 60, **seconds}))

    return made


@pytest.mark.parametrize(
    ("method", "body"),
    [("GET", None), ("DELETE", None), ("POST", b""), ("PUT", b"\x00\xff" * 50_000), ("PATCH", b"{}")],
)
async def test_a_request_is_sent_as_it_is(make: Make, method: str, body: bytes | None) -> None:
    client = make()
    async with client.serving():
        headers = (("X-Key", "s3cret"), ("Content-Type", "application/json"), ("X-Key", "twice"))
        assert await client.ask("/ok?a=1&b=%20", method, headers, body) == Answered(status=200, body=b"ok")
        (found,) = client.received
        assert (found.method, found.target, found.host) == (method, "/ok?a=1&b=%20", f"{HOST}:{client.port}")
        assert found.body == (body or b"")
        own = [(name.lower(), value) for name, value in headers]
        assert [pair for pair in found.headers if pair[0] in {"x-key", "content-type"}] == own
        added = {name for name, _ in found.headers} - {"x-key", "content-type"}
        assert added <= {"accept-encoding", "content-length"}, "no cookie, no name of a program, no proxy's header"


@pytest.mark.parametrize(("path", "status", "body"), [("/missing", 404, b"gone"), ("/moved", 302, b"")])
async def test_an_answer_is_passed_on_and_nothing_is_followed(make: Make, path: str, status: int, body: bytes) -> None:
    client = make()
    async with client.serving():
        assert await client.ask(path) == Answered(status=status, body=body)
        assert await client.ask("/ok") == Answered(status=200, body=b"ok")
        assert [one.target for one in client.received] == [path, "/ok"]
        assert not any(name == "cookie" for one in client.received for name, _ in one.headers)


async def test_no_proxy_of_the_environment_is_asked(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    client = make()
    async with client.serving():
        assert (await client.ask()).body == b"ok"


async def test_a_long_body_is_read_whole_or_cut_where_it_is_limited(make: Make) -> None:
    client = make()
    async with client.serving():
        assert await client.ask("/long") == Answered(status=200, body=b"x" * LONG)
        if client.limited:
            for limit in (1, 1000, LONG - 1):
                found = await client.ask("/long", limit=limit)
                assert (found.body, found.truncated) == (b"x" * min(limit, START_OF_LONG), True)
            assert not (await client.ask("/long", limit=LONG)).truncated
        assert (await client.ask()).body == b"ok", "what is left of a body is no answer to the next request"


@pytest.mark.parametrize("path", ["/half", "/nothing", "/noise", "/head"])
async def test_what_breaks_off_or_is_no_answer_or_has_too_long_a_head_is_no_answer(make: Make, path: str) -> None:
    client = make()
    async with client.serving():
        with pytest.raises(NoAnswerError):
            await client.ask(path)
        assert (await client.ask()).body == b"ok", "the next request is not affected"


@pytest.mark.parametrize("path", ["/silent", "/stalled"])
async def test_no_answer_is_awaited_for_ever(make: Make, path: str) -> None:
    client = make(first_byte_s=0.2)
    async with client.serving():
        with pytest.raises(NoAnswerError) as caught:
            await client.ask(path)
        assert caught.value.late


async def test_where_nobody_listens_there_is_no_answer(make: Make) -> None:
    client = make()
    async with client.serving():
        pass  # its server is gone
    with pytest.raises(NoAnswerError) as caught:
        await client.ask()
    assert not caught.value.late
    assert client.received == []


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/ok", (("X-A", "1\r\nX-B: 2"),)),
        ("/ok", (("X-A", "1\n2"),)),
        ("/ok", (("X-A", "1\x002"),)),
        ("/ok", (("X A", "1"),)),
        ("/ok", (("X-A\r\nX-B", "1"),)),
        ("/ok", ((":path", "/other"),)),
        ("/ok\r\nX-B: 2", ()),
        ("/ok HTTP/1.1\r\n\r\nGET /other", ()),
    ],
)
async def test_what_would_be_read_as_another_request_is_never_sent(
    make: Make, path: str, headers: tuple[tuple[str, str], ...]
) -> None:
    client = make()
    async with client.serving():
        with pytest.raises((ValueError, NoAnswerError)):
            await client.send(HttpRequest(method="GET", url=client.url + path, headers=headers, body=None))
        assert client.received == []
        assert (await client.ask()).body == b"ok"


async def test_a_cancelled_request_answers_nobody_else(make: Make) -> None:
    client = make()
    async with client.serving():
        task = asyncio.create_task(client.ask("/stalled"))
        async with asyncio.timeout(60):
            while not client.received:  # noqa: ASYNC110 - each client has a server of its own kind
                await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await client.ask() == Answered(status=200, body=b"ok")


async def test_requests_at_once_have_answers_of_their_own(make: Make) -> None:
    client = make()
    async with client.serving():
        paths = ["/ok", "/missing", "/moved"] * 4
        found = await asyncio.gather(*(client.ask(path) for path in paths))
        assert [one.status for one in found] == [{"/ok": 200, "/missing": 404, "/moved": 302}[path] for path in paths]
