"""Microsoft Agent Framework: `python with_agent_framework.py TOOL '{"argument": "value"}'`.

An agent has the tools as `Agent(…, tools=tool)`.
"""

import asyncio
import json
import os
import sys
from typing import Any

from agent_framework import MCPStreamableHTTPTool

URL = os.environ.get("TOOLGEN_URL", "http://127.0.0.1:8080") + "/mcp"
HEADERS = {"Authorization": f"Bearer {os.environ['TOOLGEN_KEY']}"}


async def main(tool: str, arguments: dict[str, Any]) -> None:
    async with MCPStreamableHTTPTool("gateway", URL, static_headers=HEADERS, request_timeout=120) as gateway:
        functions = {one.name: one for one in gateway.functions}
        print([*functions])
        print([str(content) for content in await functions[tool].invoke(arguments=arguments)])


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
