"""Two ways bring requests to the same handlers: connections of our own, and ASGI behind somebody else's server. What they answer is
the same, byte for byte but for the time and the ids of sessions."""

from __future__ import annotations

import asyncio
import random
import re
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import pytest

from tests.exhaustive import size
from tests.gateway.clients import listening, served_by_uvicorn
from tests.gateway.gateways import KEY, FakeGateway
from toolgen.frontends.http.app import App
from toolgen.frontends.http.request import Request, Send
from toolgen.model.result import Envelope
from toolgen.pipeline.middleware import CallerConnection

Serving = Callable[[Any], AbstractAsyncContextManager[str]]
ADAPTERS: dict[str, Serving] = {"our connections": listening, "ASGI": served_by_uvicorn}

COUNT = size("TOOLGEN_ADAPTED", 800, 40_000)
METHODS = [*["POST"] * 16, *["GET"] * 6, "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "PROPFIND", "REPORT"]
PATHS = [
    "/mcp", "/mcp", "/mcp", "/v1/tools/test__echo/call", "/v1/tools/test__echo/call", "/v1/tools/test__fail/call", "/v1/tool_calls",
    "/v1/tools/test__nothing/call", "/v1/tools/a%2Fb/call", "/v1/tools", "/v1/tools?limit=2", "/v1/tools?limit=0", "/healthz", "/readyz",
    "/openapi.json", "/v1/audit", "/v1/approvals", "/nothing", "/v1/tools?token=x", "/.well-known/oauth-protected-resource", "/mcp?a=%zz",
]  # fmt: skip
BODIES = [
    b"", b"{}", b'{"arguments": {"text": "\xc3\xa9"}}', b'{"arguments": 5}', b"{", b"\xff", b'{"a":1,"a":2}', b'{"wait": 1e9}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping"}', b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
    b'{"jsonrpc":"2.0","id":"x","method":"tools/list"}', b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"test__pet"}}',
    b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"test__fail","arguments":{"text":"a"}}}',
    b'{"jsonrpc":"2.0","id":4,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}',
    b'[{"id":"a","name":"test__echo","args":{"text":"b"}}]', b'{"arguments": {"text": "' + b"a" * 70_000 + b'"}}',
]  # fmt: skip
GOOD = [
    ("POST", "/mcp", BODIES[8]), ("POST", "/mcp", BODIES[10]), ("POST", "/mcp", BODIES[11]), ("POST", "/mcp", BODIES[13]),
    ("POST", "/v1/tools/test__echo/call", BODIES[2]), ("POST", "/v1/tools/test__echo/call", BODIES[15]), ("GET", "/healthz", b""),
    ("POST", "/v1/tools/test__fail/call", b"{}"), ("POST", "/v1/tool_calls", BODIES[14]), ("GET", "/v1/tools?limit=2", b""),
]  # fmt: skip
FIELDS = [
    ("Accept", ["application/json", "text/event-stream", "*/*", "application/json, text/event-stream"]),
    ("Origin", ["http://127.0.0.1", "http://evil.example", "null"]),
    ("Mcp-Protocol-Version", ["2025-11-25", "2026-07-28", "1999-01-01"]),
    ("Mcp-Method", ["ping", "tools/call"]),
    ("Mcp-Session-Id", ["0123456789abcdef0123456789abcdef", "nobody's"]),
    ("X-Conversation-Id", ["c-1", "not one"]),
    ("Idempotency-Key", ["k-1", '"k-2"', '"']),
    ("X-On-Behalf-Of", ["ann", "bob"]),
    ("X-Toolset", ["all", "none"]),
    ("Content-Encoding", ["identity", "gzip"]),
    ("X-Forwarded-For", ["192.0.2.1"]),
    ("User-Agent", ["tester/1", "t\xe9"]),
    ("Traceparent", ["00-0123456789abcdef0123456789abcdef-0123456789abcdef-01", "?"]),
]
HEAD = (
    f"POST /v1/tools/test__echo/call HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
    "Content-Type: application/json\r\n"
).encode()


def requests(seed: int) -> list[bytes]:
    """Requests as they follow each other on one connection, which the last of them ends."""
    chance = random.Random(seed)
    count = chance.choice((1, 1, 2, 3))
    return [_request(chance, last=number == count - 1) for number in range(count)]


def _request(chance: random.Random, *, last: bool) -> bytes:
    method, path, body = chance.choice(METHODS), chance.choice(PATHS), chance.choice(BODIES)
    if chance.random() < 0.6:
        method, path, body = chance.choice(GOOD)
    version = "1.0" if last and chance.random() < 0.1 else "1.1"
    fields = [("Host", chance.choice([*["127.0.0.1"] * 15, "localhost", "evil.example"]))]
    key = chance.choice([f"Bearer {KEY}"] * 18 + [f"bearer  {KEY}", "Bearer wrong", "Basic x"])
    fields += [("Authorization", key)] * chance.choice((*[1] * 20, 0, 2))
    kind = chance.choice(["application/json"] * 12 + ["application/json; charset=utf-8", "text/plain"])
    fields += [("Content-Type", kind)] * chance.choice((*[1] * 15, 0, 2))
    for name, values in FIELDS:
        fields += [(name, chance.choice(values)) for _ in range(chance.choice((*[0] * 25, 1, 1, 2)))]
    if chance.random() < 0.2 and version == "1.1":
        fields.append(("Transfer-Encoding", "chunked"))
        body = _chunked(chance, body)
    elif body or chance.random() < 0.5:
        fields.append(("Content-Length", str(len(body))))
        if chance.random() < 0.1 and version == "1.1":
            fields.append(("Expect", "100-continue"))
    if last:
        fields.append(("Connection", chance.choice(["close", "Close", "close, te"])))
    chance.shuffle(fields)
    spelt = [(chance.choice((name, name.lower(), name.upper())), value) for name, value in fields]
    lines = [
        f"{method} {path} HTTP/{version}",
        *(f"{name}: {value}" for name, value in spelt),
    ]
    return "\r\n".join((*lines, "", "")).encode("latin-1") + body


def _chunked(chance: random.Random, body: bytes) -> bytes:
    sent = b""
    while body:
        size = chance.randint(1, len(body))
        sent, body = sent + b"%x\r\n%b\r\n" % (size, body[:size]), body[size:]
    return sent + b"0\r\n\r\n"


def pieces(sent: bytes, chance: random.Random) -> list[bytes]:
    """The same bytes in one piece, or in a few."""
    cuts = sorted(chance.randint(0, len(sent)) for _ in range(chance.choice((0, 0, 1, 3, 8))))
    return [sent[start:end] for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True)]


class Renewed:
    """One application after the other behind the same server, each with nothing remembered."""

    def __init__(self) -> None:
        self.app = App(FakeGateway())

    async def serve(self, asked: Request, send: Send) -> None:
        await self.app.serve(asked, send)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


async def answers(url: str, renewed: Renewed, seed: int) -> tuple[bytes, list[dict[str, Any]]]:
    """What is answered to them until the connection ends, and what was called."""
    gateway, chance = FakeGateway(), random.Random(seed)
    renewed.app = App(gateway)
    said, loop = b"", asyncio.get_running_loop()
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as wire:
        wire.setblocking(False)
        with suppress(ConnectionError):  # it may be closed before it has heard everything
            for piece in pieces(b"".join(requests(seed)), chance):
                await loop.sock_sendall(wire, piece)
                await asyncio.sleep(0)
        with suppress(ConnectionError):
            while more := await loop.sock_recv(wire, 65_536):
                said += more
    masked = re.sub(rb"(?m)^date: [^\r]+", b"date: now", said)
    return re.sub(rb"(?m)^mcp-session-id: [^\r]+", b"mcp-session-id: one", masked), gateway.calls


def lost_its_end(said: bytes, whole: bytes) -> bool:
    """Whether only the end of the last answer is missing, or all of it, on a connection that ends with it. uvicorn closes as soon as it has
    answered: what it has not read of the request makes that a reset, by which the client loses what it had not read."""
    start = whole.rindex(b"HTTP/1.1 ")
    return whole.startswith(said) and len(said) >= start and b"\r\nconnection: close\r\n" in whole[start:]


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(8))
async def test_what_both_adapters_answer_is_the_same_to_the_byte(part: int) -> None:
    statuses, renewed = set[bytes](), Renewed()
    async with listening(renewed) as ours, served_by_uvicorn(renewed) as theirs:
        for seed in range(part, COUNT, 8):
            found = await answers(ours, renewed, seed)
            said, calls = await answers(theirs, renewed, seed)
            assert calls == found[1], (seed, requests(seed))
            assert said == found[0] or lost_its_end(said, found[0]), (seed, requests(seed))
            statuses.update(re.findall(rb"HTTP/1\.1 (\d{3}) ", found[0]))
    assert statuses >= {b"200", b"400", b"401", b"405"}


class Attended(FakeGateway):
    """Whose call waits until its caller has left."""

    async def call(
        self, name: str, arguments: Any, *, caller_connection: CallerConnection | None = None, **more: Any
    ) -> Envelope:
        assert caller_connection is not None
        self.entered.set()
        waiting = asyncio.ensure_future(caller_connection.awaiting(asyncio.Event().wait()))
        await asyncio.wait((waiting,))
        self.answered.set()
        return await super().call(name, arguments, **more)


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize(
    "sent", ["Content-Length: 2\r\n\r\n{}", "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"]
)
async def test_a_client_that_leaves_is_noticed_while_it_is_answered(adapter: str, sent: str) -> None:
    gateway = Attended()
    async with ADAPTERS[adapter](App(gateway)) as url:
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(HEAD + sent.encode())
        await gateway.entered.wait()
        writer.close()
        await gateway.answered.wait()
