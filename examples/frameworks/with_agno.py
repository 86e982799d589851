"""Agno: `python with_agno.py TOOL '{"argument": "value"}'`.

An agent has the tools as `Agent(model=MODEL, tools=[tools])`.
"""

import asyncio
import json
import os
import sys
from typing import Any

from agno.tools.function import FunctionCall
from agno.tools.mcp import MCPTools, StreamableHTTPClientParams

URL = os.environ.get("TOOLGEN_URL", "http://127.0.0.1:8080") + "/mcp"
HEADERS = {"Authorization": f"Bearer {os.environ['TOOLGEN_KEY']}"}


async def main(tool: str, arguments: dict[str, Any]) -> None:
    params = StreamableHTTPClientParams(url=URL, headers=HEADERS)
    async with MCPTools(transport="streamable-http", server_params=params, timeout_seconds=120) as tools:
        functions = {**tools.functions, **tools.async_functions}
        print([*functions])
        print((await FunctionCall(function=functions[tool], arguments=arguments).aexecute()).result)


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
