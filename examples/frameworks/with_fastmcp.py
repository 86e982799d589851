"""FastMCP's client: `python with_fastmcp.py TOOL '{"argument": "value"}'`."""

import asyncio
import json
import os
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

URL = os.environ.get("TOOLGEN_URL", "http://127.0.0.1:8080") + "/mcp"
HEADERS = {"Authorization": f"Bearer {os.environ['TOOLGEN_KEY']}"}


async def main(tool: str, arguments: dict[str, Any]) -> None:
    async with Client(StreamableHttpTransport(URL, headers=HEADERS), timeout=120) as client:
        print([one.name for one in await client.list_tools()])
        result = await client.call_tool(tool, arguments, raise_on_error=False)
        print([block.text for block in result.content if block.type == "text"])


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
