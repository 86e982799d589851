"""Clients that ask for a call and leave before it is answered, over every front end: by closing the connection, or by cancelling."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import httpx
import msgspec
import pytest

from tests.gateway.clients import bearer, listening
from toolgen.frontends.http.app import App
from toolgen.frontends.mcp.stdio import serve_streams
from toolgen.frontends.python.gateway import Gateway

STATEFUL = {"mcp-protocol-version": "2025-11-25", "mcp-session-id": "0" * 32}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}

AT_ONCE_S = 10.0
"""How soon an API sees its connection closed on a busy machine; an idle one takes 0.3 s, and a time-out would take 30 s."""
Leave = Callable[[], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A call, and the credential of the principal `bot` that asks for it."""

    name: str
    key: str
    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def params(self) -> dict[str, Any]:
        return {"name": self.name, "arguments": self.arguments}

    @property
    def path(self) -> str:
        return f"/v1/tools/{self.name}/call"


async def until(condition: Callable[[], bool]) -> None:
    """Waits until it holds; `run` gives up on one that never does."""
    holds = False
    while not holds:
        holds = await asyncio.to_thread(condition)
        await asyncio.sleep(0 if holds else 0.02)


def message(method: str, request: int | None = None, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params} | ({} if request is None else {"id": request})


async def post(url: str, path: str, body: object, key: str, headers: dict[str, str], padding: int = 0) -> Leave:
    """Sends a request; what is returned closes its connection."""
    host, port = url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    content = msgspec.json.encode(body) + b" " * padding
    lines = {"host": f"{host}:{port}", "content-type": "application/json", "content-length": len(content), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in {**lines, **bearer(key)}.items())
    writer.write(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + content)
    await writer.drain()

    async def leave() -> None:
        writer.close()

    return leave


@asynccontextmanager
async def over_rest(gateway: Gateway, asked: Asked) -> AsyncIterator[Leave]:
    async with listening(App(gateway)) as url:
        yield await post(url, asked.path, {"arguments": asked.arguments}, asked.key, {})


@asynccontextmanager
async def over_rest_with_a_large_body(gateway: Gateway, asked: Asked) -> AsyncIterator[Leave]:
    async with listening(App(gateway)) as url:
        yield await post(url, asked.path, {"arguments": asked.arguments}, asked.key, {}, padding=500_000)


@asynccontextmanager
async def over_tool_calls(gateway: Gateway, asked: Asked) -> AsyncIterator[Leave]:
    async with listening(App(gateway)) as url:
        calls = [{"name": asked.name, "args": asked.arguments, "id": str(number)} for number in range(2)]
        yield await post(url, "/v1/tool_calls", calls, asked.key, {})


@asynccontextmanager
async def over_mcp(gateway: Gateway, asked: Asked) -> AsyncIterator[Leave]:
    """The stateless style, whose only way to cancel is to close the connection."""
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": asked.name}
    async with listening(App(gateway)) as url:
        yield await post(url, "/mcp", message("tools/call", 1, **asked.params, _meta=META), asked.key, headers)


@asynccontextmanager
async def over_mcp_by_notification(gateway: Gateway, asked: Asked) -> AsyncIterator[Leave]:
    async with listening(App(gateway)) as url, httpx.AsyncClient(base_url=url, headers=bearer(asked.key)) as http:
        calling = asyncio.create_task(
            http.post("/mcp", json=message("tools/call", 1, **asked.params), headers=STATEFUL, timeout=120)
        )

        async def leave() -> None:
            for session, request in (("1" * 32, 1), ("0" * 32, 2), ("0" * 32, True), ("0" * 32, "1")):
                headers = {**STATEFUL, "mcp-session-id": session}
                answer = await http.post(
                    "/mcp", json=message("notifications/cancelled", requestId=request), headers=headers
                )
                assert answer.status_code == 202
            assert not calling.done()
            await http.post("/mcp", json=message("notifications/cancelled", requestId=1), headers=STATEFUL)

        yield leave
        answer = await calling
        assert (answer.status_code, answer.content) == (202, b"")  # no answer to a request that was cancelled


@asynccontextmanager
async def over_mcp_stream_by_notification(gateway: Gateway, asked: Asked) -> AsyncIterator[Leave]:
    """A client that wants to be told the progress, and is answered by a stream of events."""
    headers = {**STATEFUL, "accept": "application/json, text/event-stream"}
    async with listening(App(gateway)) as url, httpx.AsyncClient(base_url=url, headers=bearer(asked.key)) as http:
        call = message("tools/call", 1, **asked.params, _meta={"progressToken": 7})
        calling = asyncio.create_task(http.post("/mcp", json=call, headers=headers, timeout=120))

        async def leave() -> None:
            await http.post("/mcp", json=message("notifications/cancelled", requestId=1), headers=headers)

        yield leave
        answer = await calling
        assert b'"id"' not in answer.content, answer.content


@asynccontextmanager
async def over_stdio(gateway: Gateway, asked: Asked) -> AsyncIterator[tuple[BinaryIO, BinaryIO, asyncio.Task[None]]]:
    """What the client writes to, what it reads from, and the serving."""
    (source, feed), (answers, sink) = pipe(), pipe()
    with source, feed, answers, sink:
        serving = asyncio.create_task(serve_streams(gateway, gateway.principal("bot"), source, sink))
        feed.write(msgspec.json.encode(message("tools/call", 1, **asked.params)) + b"\n")
        yield feed, answers, serving
        feed.close()
        await asyncio.gather(serving, return_exceptions=True)


@asynccontextmanager
async def over_stdio_by_notification(gateway: Gateway, asked: Asked) -> AsyncIterator[Leave]:
    async with over_stdio(gateway, asked) as (feed, answers, serving):

        async def leave() -> None:
            feed.write(msgspec.json.encode(message("notifications/cancelled", requestId=1)) + b"\n")

        yield leave
        feed.write(msgspec.json.encode(message("ping", 2)) + b"\n")
        feed.close()
        await serving
        told = await asyncio.to_thread(answers.read, 65_536)
        assert [msgspec.json.decode(line)["id"] for line in told.splitlines()] == [2]


@asynccontextmanager
async def over_stdio_that_closes(gateway: Gateway, asked: Asked) -> AsyncIterator[Leave]:
    async with over_stdio(gateway, asked) as (feed, answers, _):

        async def leave() -> None:
            answers.close()
            feed.close()

        yield leave


@asynccontextmanager
async def over_stdio_that_is_stopped(gateway: Gateway, asked: Asked) -> AsyncIterator[Leave]:
    async with over_stdio(gateway, asked) as (_, _, serving):

        async def leave() -> None:
            serving.cancel()

        yield leave


@asynccontextmanager
async def from_python(gateway: Gateway, asked: Asked) -> AsyncIterator[Leave]:
    task = asyncio.create_task(gateway.call(asked.name, asked.arguments, principal="bot"))

    async def leave() -> None:
        task.cancel()

    yield leave
    with pytest.raises(asyncio.CancelledError):
        await task


def pipe() -> tuple[BinaryIO, BinaryIO]:
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb", buffering=0), os.fdopen(writing, "wb", buffering=0)


FRONTS = [
    over_rest,
    over_rest_with_a_large_body,
    over_tool_calls,
    over_mcp,
    over_mcp_by_notification,
    over_mcp_stream_by_notification,
    over_stdio_by_notification,
    over_stdio_that_closes,
    over_stdio_that_is_stopped,
    from_python,
]
