"""A gateway as an ASGI application: its lifespan, and paths below the one that it is mounted at."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

import toolgen
import toolgen.core.errors
from toolgen.frontends.http.mounted import below_root


def convert(amount: float, rate: float = 2.0) -> float:
    """Converts an amount."""
    return amount * rate


def gateway_of(root: Path) -> toolgen.Gateway:
    return toolgen.Gateway.from_functions(convert, record=root / "audit")


@contextlib.asynccontextmanager
async def served(app: Any, lifespan: str = "on") -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, lifespan=lifespan, log_config=None, ws="none")  # type: ignore[arg-type]
        server = uvicorn.Server(config)
        server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign]
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            async with asyncio.timeout(60):
                while not server.started and not running.done():  # noqa: ASYNC110 - a server tells nobody
                    await asyncio.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running


async def converted(url: str, key: str) -> Any:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(headers=headers, timeout=60) as client:
        answer = await client.post(f"{url}/v1/tools/convert/call", json={"arguments": {"amount": 2}})
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]


async def test_a_server_opens_and_closes_it(tmp_path: Path) -> None:
    gateway = gateway_of(tmp_path)
    async with served(gateway.asgi()) as url:
        assert gateway.entered
        assert await converted(url, gateway.key) == 4.0
    assert not gateway.entered


async def test_one_that_is_open_stays_open(tmp_path: Path) -> None:
    async with gateway_of(tmp_path) as gateway:
        async with served(gateway.asgi()) as url:
            assert await converted(url, gateway.key) == 4.0
        assert gateway.entered
        assert (await gateway.call("convert", {"amount": 1})).unwrap() == 2.0


@pytest.mark.parametrize("place", ["/agent", "/agents/café tools"])
async def test_it_is_mounted_in_another_application(tmp_path: Path, place: str) -> None:
    """MCP and REST, below any path; what is not below it is the other application's."""
    gateway = gateway_of(tmp_path)
    app = Starlette(routes=[Route("/v1/tools", lambda _: PlainTextResponse("mine")), Mount(place, app=gateway.asgi())])
    async with served(app) as url:
        at = str(httpx.URL(url + place))
        assert await converted(at, gateway.key) == 4.0  # which opens it
        assert gateway.entered
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {gateway.key}"}, timeout=60) as http:
            assert (await http.get(f"{url}/v1/tools")).text == "mine"
            assert (await http.get(f"{at}/v1/nothing")).status_code == 404
            async with Client(streamable_http_client(f"{at}/mcp", http_client=http)) as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == ["convert"]
                assert not (await client.call_tool("convert", {"amount": 2})).is_error
    await gateway.__aexit__(None, None, None)


async def test_requests_that_come_at_once_open_it_once(tmp_path: Path) -> None:
    gateway = gateway_of(tmp_path)
    async with served(gateway.asgi(), "off") as url:
        assert await asyncio.gather(*(converted(url, gateway.key) for _ in range(8))) == [4.0] * 8
    await gateway.__aexit__(None, None, None)


@pytest.mark.parametrize(
    ("asgi", "status"), [({}, 421), ({"hosts": ["Tools.example"]}, 200), ({"url": "https://tools.example"}, 200)]
)
async def test_it_answers_to_its_names_alone(tmp_path: Path, asgi: dict[str, Any], status: int) -> None:
    async with gateway_of(tmp_path) as gateway:
        transport = httpx.ASGITransport(gateway.asgi(**asgi))
        async with httpx.AsyncClient(transport=transport, base_url="http://tools.example") as client:
            assert (await client.get("/healthz")).status_code == status


@pytest.mark.parametrize(
    ("scope", "path", "raw"),
    [
        ({"path": "/mcp", "root_path": ""}, "/mcp", b"-"),
        ({"path": "/a/mcp", "root_path": "/a", "raw_path": b"/a/mcp"}, "/mcp", b"/mcp"),
        ({"path": "/a", "root_path": "/a", "raw_path": b"/a"}, "/", b"/"),
        ({"path": "/ab/mcp", "root_path": "/a", "raw_path": b"/ab/mcp"}, "/ab/mcp", b"/ab/mcp"),
        ({"path": "/mcp", "root_path": "/a", "raw_path": b"/mcp"}, "/mcp", b"/mcp"),
        ({"path": "/é/mcp", "root_path": "/é", "raw_path": b"/%C3%A9/mcp"}, "/mcp", None),
        ({"path": "/a/x%2fy", "root_path": "/a", "raw_path": b"/a/x%252fy"}, "/x%2fy", b"/x%252fy"),
    ],
)
def test_the_path_below_the_root(scope: dict[str, Any], path: str, raw: bytes | None) -> None:
    found = below_root({"type": "http", **scope})
    assert (found["path"], found.get("raw_path", b"-")) == (path, raw)


async def test_a_gateway_that_cannot_open_fails_the_start_of_the_server(tmp_path: Path) -> None:
    """And the program that runs it is told why."""
    (tmp_path / "audit").write_text("no folder", encoding="utf-8")
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        sent.append(message)

    with pytest.raises(toolgen.core.errors.AuditError):
        await gateway_of(tmp_path).asgi()({"type": "lifespan"}, receive, send)
    assert [message["type"] for message in sent] == ["lifespan.startup.failed"]


async def test_the_data_of_a_call_or_its_error(tmp_path: Path) -> None:
    async with gateway_of(tmp_path) as gateway:
        envelope = await gateway.call("convert", {"amount": 3, "rate": 3})
        assert envelope.unwrap() == 9.0
        with pytest.raises(toolgen.CallError) as caught:
            (await gateway.call("convert", {"rate": "x"})).unwrap()
        error = caught.value
        assert (error.status, error.code, error.where) == ("refused", "validation", "convert")
        assert error.call_id.startswith("call_")
        assert "amount" in str(error)
