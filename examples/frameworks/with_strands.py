"""Strands Agents: `python with_strands.py TOOL '{"argument": "value"}'`.

An agent has the tools as `Agent(tools=[client])`.
"""

import asyncio
import json
import os
import sys
from datetime import timedelta
from typing import Any

from mcp.types import ElicitRequestParams, ElicitResult
from strands.tools.mcp import MCPClient

URL = os.environ.get("TOOLGEN_URL", "http://127.0.0.1:8080") + "/mcp"
HEADERS = {"Authorization": f"Bearer {os.environ['TOOLGEN_KEY']}"}


async def person(context: object, params: ElicitRequestParams) -> ElicitResult:
    agreed = await asyncio.to_thread(input, f"{params.message}\nAgree? ") == "yes"
    return ElicitResult(action="accept" if agreed else "decline", content={"approve": agreed})


def main(tool: str, arguments: dict[str, Any]) -> None:
    with MCPClient(url=URL, headers=HEADERS, elicitation_callback=person) as client:
        print([one.tool_name for one in client.list_tools_sync()])
        print(client.call_tool_sync("1", tool, arguments, timedelta(seconds=120)))


main(sys.argv[1], json.loads(sys.argv[2]))
