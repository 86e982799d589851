"""CrewAI: `python with_crewai.py TOOL '{"argument": "value"}'`.

An agent has the tools as `Agent(…, mcps=[server])`.
"""

import asyncio
import json
import os
import sys
from typing import Any

from crewai.mcp import MCPServerHTTP
from crewai.mcp.tool_resolver import MCPToolResolver
from crewai.utilities.logger import Logger

URL = os.environ.get("TOOLGEN_URL", "http://127.0.0.1:8080") + "/mcp"
HEADERS = {"Authorization": f"Bearer {os.environ['TOOLGEN_KEY']}"}


async def main(tool: str, arguments: dict[str, Any]) -> None:
    server = MCPServerHTTP(url=URL, headers=HEADERS, streamable=True)
    resolver = MCPToolResolver(agent=None, logger=Logger(verbose=False))  # what Agent(mcps=[server]) does
    tools = {one.original_tool_name: one for one in resolver.resolve([server])}
    print([*tools])
    print(tools[tool].run(**arguments))


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
