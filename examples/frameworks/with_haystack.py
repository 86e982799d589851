"""Haystack: `python with_haystack.py TOOL '{"argument": "value"}'`.

An agent has the tools as `Agent(chat_generator=MODEL, tools=toolset)`.
"""

import json
import os
import sys
from typing import Any

from haystack_integrations.tools.mcp import MCPToolset, StreamableHttpServerInfo

URL = os.environ.get("TOOLGEN_URL", "http://127.0.0.1:8080") + "/mcp"
HEADERS = {"Authorization": f"Bearer {os.environ['TOOLGEN_KEY']}"}


def main(tool: str, arguments: dict[str, Any]) -> None:
    toolset = MCPToolset(StreamableHttpServerInfo(url=URL, headers=HEADERS, timeout=120), invocation_timeout=120)
    toolset.warm_up()
    tools = {one.name: one for one in toolset}
    print([*tools])
    print(tools[tool].invoke(**arguments))
    toolset.close()


main(sys.argv[1], json.loads(sys.argv[2]))
