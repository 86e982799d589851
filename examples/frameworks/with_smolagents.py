"""smolagents: `python with_smolagents.py TOOL '{"argument": "value"}'`.

An agent has the tools as `ToolCallingAgent(tools, model)`.
"""

import json
import os
import sys
from typing import Any

from smolagents import MCPClient

URL = os.environ.get("TOOLGEN_URL", "http://127.0.0.1:8080") + "/mcp"
HEADERS = {"Authorization": f"Bearer {os.environ['TOOLGEN_KEY']}"}


def main(tool: str, arguments: dict[str, Any]) -> None:
    server = {"url": URL, "transport": "streamable-http", "headers": HEADERS}
    patience = {"connect_timeout": 120, "client_session_timeout_seconds": 120}
    with MCPClient(server, patience, structured_output=False) as tools:
        print([one.name for one in tools])
        (called,) = [one for one in tools if one.name == tool]
        print(called(**arguments))


main(sys.argv[1], json.loads(sys.argv[2]))
