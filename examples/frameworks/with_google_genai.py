"""Google's Gen AI SDK: `python with_google_genai.py TOOL '{"argument": "value"}'`.

A model has the tools as `await client.aio.models.generate_content(model=MODEL, contents=QUESTION, config={"tools": [session]})`.
"""

import asyncio
import json
import os
import sys
from typing import Any

import httpx2
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

URL = os.environ.get("TOOLGEN_URL", "http://127.0.0.1:8080") + "/mcp"
HEADERS = {"Authorization": f"Bearer {os.environ['TOOLGEN_KEY']}"}


async def main(tool: str, arguments: dict[str, Any]) -> None:
    async with (
        httpx2.AsyncClient(headers=HEADERS, timeout=120) as http,
        streamable_http_client(URL, http_client=http) as (reading, writing),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        print([one.name for one in (await session.list_tools()).tools])
        print((await session.call_tool(tool, arguments)).content)


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
