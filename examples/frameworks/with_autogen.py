"""AutoGen: `python with_autogen.py TOOL '{"argument": "value"}'`.

An agent has the tools as `AssistantAgent(…, workbench=workbench)`.
"""

import asyncio
import json
import os
import sys
from typing import Any

from autogen_ext.tools.mcp import McpWorkbench, StreamableHttpServerParams

URL = os.environ.get("TOOLGEN_URL", "http://127.0.0.1:8080") + "/mcp"
HEADERS = {"Authorization": f"Bearer {os.environ['TOOLGEN_KEY']}"}


async def main(tool: str, arguments: dict[str, Any]) -> None:
    params = StreamableHttpServerParams(url=URL, headers=HEADERS, timeout=120, sse_read_timeout=120)
    async with McpWorkbench(params) as workbench:
        print([one["name"] for one in await workbench.list_tools()])
        print((await workbench.call_tool(tool, arguments)).to_text())


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
