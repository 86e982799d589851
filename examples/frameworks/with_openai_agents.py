"""OpenAI Agents SDK: `python with_openai_agents.py TOOL '{"argument": "value"}'`.

An agent has the tools as `Agent(mcp_servers=[server])`.
"""

import asyncio
import json
import os
import sys
from typing import Any

from agents.mcp import MCPServerStreamableHttp, MCPServerStreamableHttpParams

URL = os.environ.get("TOOLGEN_URL", "http://127.0.0.1:8080") + "/mcp"
HEADERS = {"Authorization": f"Bearer {os.environ['TOOLGEN_KEY']}"}


async def main(tool: str, arguments: dict[str, Any]) -> None:
    params: MCPServerStreamableHttpParams = {"url": URL, "headers": HEADERS, "timeout": 120}
    async with MCPServerStreamableHttp(params=params, client_session_timeout_seconds=120) as server:
        print([one.name for one in await server.list_tools()])
        result = await server.call_tool(tool, arguments)
        print([block.text for block in result.content if block.type == "text"])


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
