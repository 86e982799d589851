"""Google ADK: `python with_google_adk.py TOOL '{"argument": "value"}'`.

An agent has the tools as `LlmAgent(tools=[toolset])`.
"""

import asyncio
import json
import os
import sys
from typing import Any

from google.adk.tools.mcp_tool import McpToolset, StreamableHTTPConnectionParams

URL = os.environ.get("TOOLGEN_URL", "http://127.0.0.1:8080") + "/mcp"
HEADERS = {"Authorization": f"Bearer {os.environ['TOOLGEN_KEY']}"}


async def main(tool: str, arguments: dict[str, Any]) -> None:
    connection = StreamableHTTPConnectionParams(url=URL, headers=HEADERS, timeout=120)
    toolset = McpToolset(connection_params=connection)
    tools = {one.name: one for one in await toolset.get_tools()}
    print([*tools])
    print(await tools[tool].run_async(args=arguments, tool_context=None))
    await toolset.close()


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
