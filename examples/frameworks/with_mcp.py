"""MCP's Python SDK: lists the gateway's tools, and calls one: `python with_mcp.py TOOL '{"argument": "value"}'`."""

import asyncio
import json
import os
import sys
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitRequestParams, ElicitResult

URL = os.environ.get("TOOLGEN_URL", "http://127.0.0.1:8080") + "/mcp"
HEADERS = {"Authorization": f"Bearer {os.environ['TOOLGEN_KEY']}"}


async def person(context: object, params: ElicitRequestParams) -> ElicitResult:
    agreed = await asyncio.to_thread(input, f"{params.message}\nAgree? ") == "yes"
    return ElicitResult(action="accept" if agreed else "decline", content={"approve": agreed})


async def main(tool: str, arguments: dict[str, Any]) -> None:
    http = httpx2.AsyncClient(headers=HEADERS, timeout=120)
    async with http, Client(streamable_http_client(URL, http_client=http), elicitation_callback=person) as client:
        print([one.name for one in (await client.list_tools()).tools])
        result = await client.call_tool(tool, arguments)
        print([block.text for block in result.content if block.type == "text"])


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
