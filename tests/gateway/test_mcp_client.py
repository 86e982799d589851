"""The official SDK's client against the real server: both eras, over HTTP and over a subprocess's standard streams."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPDeprecationWarning

from tests.gateway.clients import bearer, listening
from tests.gateway.gateways import TOOLS, FakeGateway, tool
from toolgen.frontends.http.app import App

ROOT = Path(__file__).parents[2]
MODES = [("auto", "2026-07-28"), ("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")]


@contextlib.asynccontextmanager
async def over_http(gateway: FakeGateway, mode: str) -> AsyncIterator[Client]:
    async with (
        listening(App(gateway)) as url,
        httpx2.AsyncClient(headers=bearer()) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@contextlib.asynccontextmanager
async def over_stdio(mode: str) -> AsyncIterator[Client]:
    server = StdioServerParameters(command=sys.executable, args=["-m", "tests.gateway.stdio_server"], cwd=ROOT)
    async with Client(server, mode=mode) as client:
        yield client


async def talk(client: Client, version: str) -> None:
    """What every client does: agree, list, call, be refused."""
    assert client.protocol_version == version
    listed = await client.list_tools()
    assert [item.name for item in listed.tools] == [item.name for item in TOOLS]
    assert listed.tools[5].output_schema is not None
    assert listed.tools[5].output_schema["properties"].keys() == {"id", "gateway_note"}
    assert listed.tools[6].annotations is not None
    assert listed.tools[6].annotations.read_only_hint is False
    pet = await client.call_tool("test__pet", {"text": "hi"})
    assert (pet.is_error, pet.structured_content) == (False, {"id": 5, "name": "Rex"})
    echo = await client.call_tool("test__echo", {"text": "hi"})
    assert (echo.structured_content, echo.content[0].text) == (None, '{"text":"hi"}')  # type: ignore[union-attr]
    other = await client.call_tool("test__broken_promise", {})
    assert (other.is_error, other.structured_content) == (False, {"gateway_note": '{"id":"five"}'})
    for name in ("test__fail", "test__fail_typed", "test__missing"):
        failed = await client.call_tool(name, {})
        assert failed.is_error is True
        assert failed.content[0].type == "text"
    with pytest.raises(MCPError):
        await client.list_tools(cursor="made up")


@pytest.mark.parametrize(("mode", "version"), MODES)
async def test_the_sdk_client_works_over_http(mode: str, version: str) -> None:
    gateway = FakeGateway()
    async with over_http(gateway, mode) as client:
        await talk(client, version)
    assert {call["client"] for call in gateway.calls} == {"mcp/0.1.0"}
    assert len({call["session"] for call in gateway.calls}) == 1


@pytest.mark.parametrize(("mode", "version"), MODES[:2])
async def test_the_sdk_client_works_over_stdio_although_the_gateway_prints(mode: str, version: str) -> None:
    async with over_stdio(mode) as client:
        await talk(client, version)
        slow = await client.call_tool("test__slow", {"text": "hi"})
        assert slow.is_error is False


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_sdk_client_pages_through_a_long_catalog(mode: str) -> None:
    gateway = FakeGateway(tools=tuple(tool(f"test__t{number:04}") for number in range(2_100)))
    async with over_http(gateway, mode) as client:
        first = await client.list_tools()
        rest = await client.list_tools(cursor=first.next_cursor)
        assert rest.next_cursor is None
        assert [item.name for item in first.tools + rest.tools] == [item.name for item in gateway.tools]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_sdk_client_is_told_what_the_server_is(mode: str) -> None:
    async with over_http(FakeGateway(), mode) as client:
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.resources is not None
        assert client.server_info is not None
        assert client.server_info.name == "toolgen"


async def test_the_sdk_client_pings_in_the_handshake_era() -> None:
    async with over_http(FakeGateway(), "legacy") as client:
        with pytest.warns(MCPDeprecationWarning, match="ping"):
            await client.send_ping()


async def test_the_conversation_in_the_calls_meta_reaches_the_gateway() -> None:
    gateway = FakeGateway()
    async with over_http(gateway, "auto") as client:
        await client.call_tool("test__echo", {}, meta={"conversationId": "talk-9"})
    assert gateway.calls[0]["session"] == "talk-9"
