"""crewai-tools: `python with_crewai_tools.py TOOL '{"argument": "value"}'`.

An agent has the tools as `Agent(…, tools=tools)`.
"""

import json
import os
import sys
from typing import Any

from crewai_tools import MCPServerAdapter

URL = os.environ.get("TOOLGEN_URL", "http://127.0.0.1:8080") + "/mcp"
HEADERS = {"Authorization": f"Bearer {os.environ['TOOLGEN_KEY']}"}


def main(tool: str, arguments: dict[str, Any]) -> None:
    server = {"url": URL, "transport": "streamable-http", "headers": HEADERS}
    with MCPServerAdapter(server, connect_timeout=60) as tools:
        print([one.name for one in tools])
        (called,) = [one for one in tools if one.name == tool.replace("__", "_")]
        print(called.run(**arguments))


main(sys.argv[1], json.loads(sys.argv[2]))
