"""Semantic Kernel: `python with_semantic_kernel.py TOOL '{"argument": "value"}'`.

A kernel has the tools as a plugin.
"""

import asyncio
import json
import os
import sys
from typing import Any

from semantic_kernel import Kernel
from semantic_kernel.connectors.mcp import MCPStreamableHttpPlugin
from semantic_kernel.contents import ChatHistory, FunctionCallContent

URL = os.environ.get("TOOLGEN_URL", "http://127.0.0.1:8080") + "/mcp"
HEADERS = {"Authorization": f"Bearer {os.environ['TOOLGEN_KEY']}"}


async def main(tool: str, arguments: dict[str, Any]) -> None:
    options = {"request_timeout": 120, "load_prompts": False}
    async with MCPStreamableHttpPlugin(name="gateway", url=URL, headers=HEADERS, **options) as plugin:
        kernel, history = Kernel(), ChatHistory()
        print([*kernel.add_plugin(plugin).functions])
        call = FunctionCallContent(id="1", name=f"gateway-{tool}", arguments=arguments)
        await kernel.invoke_function_call(call, history)
        print([str(part) for item in history.messages[-1].items for part in item.result])


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
