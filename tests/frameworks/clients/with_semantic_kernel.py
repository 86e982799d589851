"""Semantic Kernel: MCPStreamableHttpPlugin, whose functions the kernel calls for a model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from semantic_kernel import Kernel
from semantic_kernel.connectors.ai.function_calling_utils import kernel_function_metadata_to_function_call_format
from semantic_kernel.connectors.mcp import MCPStreamableHttpPlugin
from semantic_kernel.contents import ChatHistory, FunctionCallContent

from tests.frameworks.clients.client import PATIENCE_S, Endpoint, Given, Part, Toolbox, image, run, text


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Toolbox]:
    plugin = MCPStreamableHttpPlugin(
        name="gateway", url=endpoint.url, headers=endpoint.headers, request_timeout=PATIENCE_S, load_prompts=False
    )
    async with plugin:
        kernel = Kernel()
        functions = kernel.add_plugin(plugin).functions

        async def call(name: str, arguments: dict[str, Any]) -> Given:
            history = ChatHistory()
            made = FunctionCallContent(id="c1", name=f"gateway-{name}", arguments=arguments)
            await kernel.invoke_function_call(made, history)
            return [part for item in history.messages[-1].items for part in parts(item.result)], None

        schemas = {
            name: kernel_function_metadata_to_function_call_format(function.metadata)["function"]["parameters"]
            for name, function in functions.items()
        }
        yield Toolbox(schemas=schemas, call=call)


def parts(result: Any) -> list[Part]:
    if not isinstance(result, list):
        return [text(str(result))]
    return [image(one.data_string, one.mime_type) if one.content_type == "image" else text(str(one)) for one in result]


if __name__ == "__main__":
    run(connect, "semantic-kernel")
