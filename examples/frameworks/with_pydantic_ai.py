"""pydantic-ai: `python with_pydantic_ai.py TOOL '{"argument": "value"}'`.

An agent has the tools as `Agent(MODEL, toolsets=[toolset])`.
"""

import asyncio
import json
import os
import sys
from typing import Any

from pydantic_ai.mcp import MCPToolset

URL = os.environ.get("TOOLGEN_URL", "http://127.0.0.1:8080") + "/mcp"
HEADERS = {"Authorization": f"Bearer {os.environ['TOOLGEN_KEY']}"}


async def person(message: str, *_: object) -> dict[str, bool]:
    return {"approve": await asyncio.to_thread(input, f"{message}\nAgree? ") == "yes"}


async def main(tool: str, arguments: dict[str, Any]) -> None:
    toolset = MCPToolset(
        URL,
        headers=HEADERS,
        tool_error_behavior="failed",
        elicitation_handler=person,
        read_timeout=120,
    )
    async with toolset:
        print([one.name for one in await toolset.list_tools()])
        print(await toolset.direct_call_tool(tool, arguments))


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
