"""MCP's Python SDK, version 1: `python with_mcp_1.py TOOL '{"argument": "value"}'`."""

import asyncio
import json
import os
import sys
from datetime import timedelta
from typing import Any

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

URL = os.environ.get("TOOLGEN_URL", "http://127.0.0.1:8080") + "/mcp"
HEADERS = {"Authorization": f"Bearer {os.environ['TOOLGEN_KEY']}"}


async def main(tool: str, arguments: dict[str, Any]) -> None:
    async with (
        streamablehttp_client(URL, headers=HEADERS, timeout=120) as (reading, writing, _),
        ClientSession(reading, writing, read_timeout_seconds=timedelta(seconds=120)) as session,
    ):
        await session.initialize()
        print([one.name for one in (await session.list_tools()).tools])
        result = await session.call_tool(tool, arguments)
        print([block.text for block in result.content if block.type == "text"])


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
