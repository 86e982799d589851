"""LlamaIndex: `python with_llama_index.py TOOL '{"argument": "value"}'`.

An agent has the tools as `FunctionAgent(llm=MODEL, tools=tools)`.
"""

import asyncio
import json
import os
import sys
from typing import Any

from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

URL = os.environ.get("TOOLGEN_URL", "http://127.0.0.1:8080") + "/mcp"
HEADERS = {"Authorization": f"Bearer {os.environ['TOOLGEN_KEY']}"}


async def main(tool: str, arguments: dict[str, Any]) -> None:
    client = BasicMCPClient(URL, headers=HEADERS, timeout=120)
    tools = {one.metadata.name: one for one in await McpToolSpec(client).to_tool_list_async()}
    print([*tools])
    print(await tools[tool].acall(**arguments))


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
