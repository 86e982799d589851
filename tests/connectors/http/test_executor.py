"""The executor against real servers on loopback: what is sent, to whom, and how every kind of ending is told."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.connectors.http.bindings import binding, call, parameter
from tests.resolvers import resolving
from tests.stream_servers import stream_server
from toolgen.connectors.executor import Destination
from toolgen.connectors.http.connector import Timeouts
from toolgen.connectors.http.executor import HttpExecutor
from toolgen.connectors.http.parameter_styles import UnbindableError
from toolgen.connectors.secrets import SecretReference, SecretResolver
from toolgen.core.errors import SecretError
from toolgen.model.manifest import SecurityScheme
from toolgen.model.result import Failed, Success
from toolgen.model.tool import HttpBinding, HttpBody
from toolgen.model.verdict import Allow, Deny, Verdict

CANARY = "canary-1f9c2e"
SCHEMES = {
    "key": SecurityScheme(type="apiKey", in_="query", name="key"),
    "bearer": SecurityScheme(type="http", scheme="bearer"),
}
AUTH = {"key": SecretReference("env", "CANARY"), "bearer": {"token": SecretReference("env", "CANARY")}}

Behaviour = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


def allow(_: Destination) -> Verdict:
    return Allow(rule="t")


def executor(**more: Any) -> HttpExecutor:
    options: dict[str, Any] = {
        "schemes": SCHEMES,
        "auth": AUTH,
        "secrets": SecretResolver({"CANARY": CANARY}),
        "permit": allow,
    }
    return HttpExecutor(**{**options, **more})


class Server:
    """A server that keeps what it was sent and does as `behaviour` says."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self.heads: list[bytes] = []

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        async with stream_server(self._serve) as port:
            yield port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        await self._behaviour(head, writer)


def saying(body: bytes, *, status: str = "200 OK", headers: str = "Content-Type: application/json\r\n") -> Behaviour:
    async def behave(_: bytes, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{headers}\r\n"
        writer.write(head.encode() + body)
        await writer.drain()

    return behave


async def echo(head: bytes, writer: asyncio.StreamWriter) -> None:
    await saying(json.dumps({"head": head.decode()}).encode())(head, writer)


async def hang_up(_: bytes, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def stop_in_the_middle(_: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    await writer.drain()


async def wait_for_ever(_: bytes, writer: asyncio.StreamWriter) -> None:
    await writer.drain()
    await asyncio.Event().wait()


def run(
    behaviour: Behaviour, bound: HttpBinding, arguments: dict[str, Any] | None = None, **more: Any
) -> tuple[Any, Server]:
    """The outcome of one call against one server, and the server."""

    async def scenario() -> tuple[Any, Server]:
        server = Server(behaviour)
        async with server.serving() as port:
            sender = executor(**more)
            try:
                at = HttpBinding(
                    **{
                        **{field: getattr(bound, field) for field in bound.__struct_fields__},
                        "servers": (f"http://{more.get('host', '127.0.0.1')}:{port}",),
                    }
                )
                return await sender.execute(call(at, arguments)), server
            finally:
                await sender.close()

    more.pop("host", None)
    return asyncio.run(scenario())


def test_a_call_is_sent_exactly_and_its_echoed_secret_is_scrubbed() -> None:
    bound = binding(
        parameter("path", name="id"), parameter("query"), path="/p/{id}", security=(("key", "bearer"),), method="POST"
    )
    outcome, server = run(echo, bound, {"id": "a/b", "q": [1, 2]})
    assert isinstance(outcome, Success)
    head = server.heads[0].decode()
    assert head.startswith(f"POST /p/a%2Fb?q=1&q=2&key={CANARY} HTTP/1.1\r\n")
    assert f"\r\nAuthorization: Bearer {CANARY}\r\n" in head
    assert CANARY not in json.dumps(outcome.data)
    assert outcome.delivery.status == 200


def test_nothing_sends_a_credential_that_the_operation_does_not_need() -> None:
    _, server = run(echo, binding(security=()))
    assert CANARY not in server.heads[0].decode()


async def test_a_name_is_connected_at_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Destination] = []

    def permit(destination: Destination) -> Verdict:
        seen.append(destination)
        return Allow(rule="t")

    resolve = resolving("127.0.0.1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")

    server = Server(echo)
    async with server.serving() as port:
        sender = executor(permit=permit, resolver=resolve)
        outcome = await sender.execute(call(binding(servers=(f"http://api.invalid:{port}",))))
        assert isinstance(outcome, Success)
        await sender.close()
    assert b"\r\nHost: api.invalid:" in server.heads[0]
    assert [destination.address for destination in seen] == ["", "127.0.0.1"]


def test_a_refused_destination_is_never_connected_to() -> None:
    outcome, server = run(echo, binding(), permit=lambda _: Deny(rule="no-loopback", reason="loopback is refused"))
    assert isinstance(outcome, Failed)
    assert (outcome.error.code, outcome.error.rule) == ("egress_refused", "no-loopback")
    assert server.heads == []


async def test_the_next_checked_address_is_tried_when_one_does_not_answer() -> None:
    resolve = resolving("::1", "127.0.0.1")
    server = Server(echo)
    async with server.serving() as port:
        sender = executor(resolver=resolve)
        outcome = await sender.execute(call(binding(servers=(f"http://api.invalid:{port}",), method="POST")))
        await sender.close()
    assert isinstance(outcome, Success)


@pytest.mark.parametrize(
    ("behaviour", "method", "code"),
    [
        (hang_up, "GET", "upstream_error"),
        (hang_up, "POST", "outcome_unknown"),
        (stop_in_the_middle, "GET", "upstream_error"),
        (stop_in_the_middle, "POST", "outcome_unknown"),
        (wait_for_ever, "GET", "upstream_timeout"),
        (wait_for_ever, "POST", "outcome_unknown"),
        (saying(b"{}", status="404 Not Found"), "POST", "upstream_error"),
        (saying(b"", status="302 Found", headers="Location: http://127.0.0.1:9/\r\n"), "GET", "upstream_error"),
        (saying(b"x" * 2_000_000), "GET", "response_too_large"),
        (
            saying(gzip.compress(b"0" * 30_000_000, mtime=0), headers="Content-Encoding: gzip\r\n"),
            "GET",
            "response_too_large",
        ),
    ],
)
def test_every_bad_ending_has_its_code(behaviour: Behaviour, method: str, code: str) -> None:
    bound = binding(method=method, security=(("key",),))
    timeouts = Timeouts(first_byte_s=0.2 if behaviour is wait_for_ever else 30, total_s=60)
    outcome, server = run(behaviour, bound, timeouts=timeouts)
    assert isinstance(outcome, Failed)
    assert outcome.error.code == code
    assert len(server.heads) == 1
    assert CANARY not in repr(outcome)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_connection_that_is_refused_is_told_as_not_sent(method: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    sender = executor()
    outcome = await sender.execute(
        call(binding(servers=(f"http://127.0.0.1:{port}",), method=method, security=(("key",),)))
    )
    await sender.close()
    assert outcome.error.code == "upstream_unavailable"
    assert outcome.delivery.unsent
    assert CANARY not in repr(outcome)


async def test_a_name_that_does_not_resolve_is_unavailable() -> None:
    found = await executor(resolver=resolving()).execute(call(binding(servers=("http://api.invalid",))))
    assert found.error.code == "upstream_unavailable"


@pytest.mark.parametrize(
    ("bound", "arguments", "code"),
    [
        (binding(parameter("path"), path="/p/{q}"), {"q": ".."}, "validation"),
        (binding(parameter("header", name="X-Q")), {"X-Q": "a\r\nb"}, "validation"),
        (binding(path="/a?b\ud800c"), {}, "validation"),
        (binding(method="BAD METHOD"), {}, "validation"),
        (binding(security=(("missing",),)), {}, "secret_unavailable"),
    ],
)
def test_what_cannot_be_bound_is_never_sent(bound: HttpBinding, arguments: dict[str, Any], code: str) -> None:
    outcome, server = run(echo, bound, arguments)
    assert isinstance(outcome, Failed)
    assert outcome.error.code == code
    assert server.heads == []


def test_a_dry_run_shows_the_request_with_its_secrets_masked() -> None:
    body = HttpBody(media_type="application/json", properties={"a": "a"}, required=True)
    bound = binding(parameter("query"), body=body, method="POST", security=(("key", "bearer"),))
    shown = executor(secrets=SecretResolver({})).preview(call(bound, {"q": "x y", "a": "é"}))
    assert shown == {
        "method": "POST",
        "url": "http://api.test/e?q=x%20y&key=***",
        "headers": [
            ["Accept", "application/json, */*;q=0.5"],
            ["User-Agent", "toolgen"],
            ["Content-Type", "application/json"],
            ["Authorization", "Bearer ***"],
        ],
        "body": '{"a":"é"}',
    }


def test_a_dry_run_shows_bytes_as_base64() -> None:
    body = HttpBody(media_type="application/octet-stream", argument="body", file=True)
    shown = executor().preview(call(binding(body=body, method="POST"), {"body": {"base64": "AP8="}}))
    assert (shown["body"], shown["body_base64"]) == (None, "AP8=")


def test_a_dry_run_of_what_cannot_be_sent_says_so() -> None:
    with pytest.raises(UnbindableError):
        executor().preview(call(binding(parameter("path"), path="/p/{q}"), {"q": ".."}))
    with pytest.raises(SecretError):
        executor().preview(call(binding(security=(("missing",),))))


def test_no_secret_reaches_a_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        run(hang_up, binding(security=(("key", "bearer"),)))
        run(echo, binding(security=(("key", "bearer"),)))
    assert CANARY not in caplog.text
