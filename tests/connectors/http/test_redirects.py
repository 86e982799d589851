"""Redirects: off unless the policy says otherwise, then within one origin, each hop dialled and signed like a request of its own."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from tests.connectors.http.bindings import binding, call
from tests.connectors.http.test_executor import CANARY, Server, echo, executor, saying
from toolgen.connectors.executor import Destination
from toolgen.connectors.http.client import Http1Client
from toolgen.connectors.http.connector import Timeouts
from toolgen.connectors.http.redirects import moved
from toolgen.connectors.http.reply import RawResponse
from toolgen.connectors.http.request_builder import HttpRequest
from toolgen.model.result import Failed, Success
from toolgen.model.verdict import Allow, Deny, Verdict

ASKED = HttpRequest(method="GET", url="http://api.test/v1/a?x=1", headers=(), body=None)


@pytest.mark.parametrize(
    ("location", "to"),
    [
        ("/v1/b", "http://api.test/v1/b"),
        ("b?y=2", "http://api.test/v1/b?y=2"),
        ("http://api.test/v1/b", "http://api.test/v1/b"),
        ("http://api.test:80/v1/b", "http://api.test:80/v1/b"),
        ("http://API.test/", "http://API.test/"),
        ("/v1/b?key=stolen&y=2", "http://api.test/v1/b?y=2"),
        ("/v1/b?K%65Y=stolen", "http://api.test/v1/b"),
        ("", None),
        ("https://api.test/v1/b", None),
        ("http://api.test:8080/v1/b", None),
        ("http://evil.test/", None),
        ("//evil.test/", None),
        ("http://api.test@evil.test/", None),
        ("http://evil.test@api.test/", None),
        ("http://api.test.evil.test/", None),
        ("\\\\evil.test", None),
        ("/\\evil.test", None),
        ("/a\r\nHost: evil.test", None),
        ("/\u00e9", None),
        ("http://169.254.169.254/latest/meta-data", None),
        ("http://[::1", None),
        ("http://api.test:x/", None),
        ("file:///etc/passwd", None),
        ("javascript:alert(1)", None),
        ("/" + "a" * 10_000, None),
    ],
)
def test_only_a_place_on_the_same_origin_is_followed(location: str, to: str | None) -> None:
    found = moved(ASKED, 302, location, {"key"})
    assert (found and found.url) == to


@pytest.mark.parametrize(
    ("method", "status", "followed"),
    [
        *(("GET", status, True) for status in (301, 302, 303, 307, 308)),
        *(("GET", status, False) for status in (300, 304, 305, 306, 399)),
        *(("POST", status, False) for status in (301, 302, 303)),
        *(("POST", status, True) for status in (307, 308)),
        ("DELETE", 302, False),
    ],
)
def test_a_redirect_never_makes_another_kind_of_request(method: str, status: int, followed: bool) -> None:
    asked = HttpRequest(
        method=method, url="http://api.test/a", headers=(("X", "1"),), body=b"b" if method == "POST" else None
    )
    found = moved(asked, status, "/b", set())
    assert (found is not None) is followed
    if found is not None:
        assert (found.method, found.headers, found.body) == (asked.method, asked.headers, asked.body)


def redirecting(location: str, *, times: int = 1, status: str = "302 Found") -> Any:
    """A server that sends the first requests elsewhere and answers those after them."""
    seen: list[bytes] = []

    async def behave(head: bytes, writer: asyncio.StreamWriter) -> None:
        seen.append(head)
        if len(seen) <= times:
            await saying(b"", status=status, headers=f"Location: {location}\r\n")(head, writer)
        else:
            await echo(head, writer)

    return behave


async def asked(server: Server, **more: Any) -> Any:
    async with server.serving() as port:
        sender = executor(**more)
        try:
            return await sender.execute(
                call(binding(servers=(f"http://127.0.0.1:{port}",), security=(("key", "bearer"),)))
            )
        finally:
            await sender.close()


def closed(destination: Destination) -> Verdict:
    return Deny(rule="egress", reason="no") if destination.service == "redirect" else Allow(rule="t")


async def test_a_redirect_is_not_followed_unless_the_policy_says_so() -> None:
    server = Server(redirecting("/other"))
    outcome = await asked(server, permit=closed)
    assert isinstance(outcome, Failed)
    assert outcome.error.code == "upstream_error"
    assert len(server.heads) == 1


async def test_a_followed_redirect_is_signed_anew_and_counted() -> None:
    server = Server(redirecting(f"/other?key={CANARY}&page=2"))
    outcome = await asked(server)
    assert isinstance(outcome, Success)
    assert outcome.delivery.attempts == 2
    assert server.heads[1].startswith(f"GET /other?page=2&key={CANARY} HTTP/1.1\r\n".encode())
    assert server.heads[1].count(b"Authorization: Bearer ") == 1
    assert CANARY not in repr(outcome.data)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_all_hops_together_have_the_time_of_one_call_where_breaking_off_is_harmless(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[float] = []

    send = Http1Client.send

    async def sent(*given: Any) -> RawResponse:
        times.append(given[4])  # `until`
        return await send(*given)

    monkeypatch.setattr(Http1Client, "send", sent)

    began = asyncio.get_running_loop().time()
    async with Server(redirecting("/other", status="307 Temporary Redirect")).serving() as port:
        sender = executor(timeouts=Timeouts(total_s=7))
        bound = binding(method=method, servers=(f"http://127.0.0.1:{port}",))
        await sender.execute(call(bound))
        await sender.close()
    ended = asyncio.get_running_loop().time()
    assert len(times) == 2
    assert times[0] == times[1]
    assert began + 7 <= times[0] <= ended + 7 if method == "GET" else times[0] == math.inf


async def test_a_redirect_in_a_circle_ends() -> None:
    server = Server(redirecting("/e", times=100))
    outcome = await asked(server)
    assert isinstance(outcome, Failed)
    assert len(server.heads) == 4


async def test_a_redirect_inside_is_never_followed_and_never_dialled() -> None:
    dialled: list[Destination] = []

    def permit(destination: Destination) -> Verdict:
        if destination.service == "http":
            dialled.append(destination)
        return Allow(rule="t")

    server = Server(redirecting("http://169.254.169.254/latest/meta-data"))
    outcome = await asked(server, permit=permit)
    assert isinstance(outcome, Failed)
    assert [one.host for one in dialled] == ["127.0.0.1"]


async def test_each_hop_is_put_to_the_policy_again() -> None:
    """A name that is bound again between two hops."""
    verdicts = [Allow(rule="t"), Allow(rule="t"), Deny(rule="egress", code="egress_refused", reason="closed by now")]
    server = Server(redirecting("/other"))
    outcome = await asked(server, permit=lambda _: verdicts.pop(0))
    assert outcome.error.code == "egress_refused"
    assert len(server.heads) == 1
