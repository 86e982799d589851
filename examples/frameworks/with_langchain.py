"""LangChain: `python with_langchain.py TOOL '{"argument": "value"}'`.

An agent has the tools as `create_agent(MODEL, tools)`.
"""

import asyncio
import json
import os
import sys
from datetime import timedelta
from typing import Any

from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from mcp.types import ElicitRequestParams, ElicitResult

URL = os.environ.get("TOOLGEN_URL", "http://127.0.0.1:8080") + "/mcp"
HEADERS = {"Authorization": f"Bearer {os.environ['TOOLGEN_KEY']}"}


async def person(mcp_context: object, params: ElicitRequestParams, context: object) -> ElicitResult:
    agreed = await asyncio.to_thread(input, f"{params.message}\nAgree? ") == "yes"
    return ElicitResult(action="accept" if agreed else "decline", content={"approve": agreed})


async def main(tool: str, arguments: dict[str, Any]) -> None:
    server = {"transport": "http", "url": URL, "headers": HEADERS, "timeout": timedelta(seconds=120)}
    client = MultiServerMCPClient({"gateway": server}, callbacks=Callbacks(on_elicitation=person))
    tools = {one.name: one for one in await client.get_tools()}
    print([*tools])
    print(await tools[tool].ainvoke(arguments))


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
