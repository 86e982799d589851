"""DSPy: `python with_dspy.py TOOL '{"argument": "value"}'`.

A module has the tools as `dspy.ReAct(SIGNATURE, tools=tools)`.
"""

import asyncio
import json
import os
import sys
from typing import Any

import dspy
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

URL = os.environ.get("TOOLGEN_URL", "http://127.0.0.1:8080") + "/mcp"
HEADERS = {"Authorization": f"Bearer {os.environ['TOOLGEN_KEY']}"}


async def main(tool: str, arguments: dict[str, Any]) -> None:
    http = httpx2.AsyncClient(headers=HEADERS, timeout=120)
    async with http, Client(streamable_http_client(URL, http_client=http)) as client:
        tools = {one.name: dspy.Tool.from_mcp_tool(client, one) for one in (await client.list_tools()).tools}
        print([*tools])
        print(await tools[tool].acall(**arguments))


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
