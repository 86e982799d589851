"""An MCP server written with the official SDK, as most are: over its pipes, or over HTTP on a port that it says first."""

from __future__ import annotations

import socket
import sys

import uvicorn
from mcp.server import MCPServer
from mcp.types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("Calculator", version="3.1")


class Sum(BaseModel):
    total: int


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> Sum:
    """Adds two numbers."""
    return Sum(total=a + b)


@server.tool(annotations=ToolAnnotations(destructive_hint=False, idempotent_hint=True))
def setMemory(value: int) -> str:
    """Keeps a number."""
    return f"kept {value}"


@server.tool()
def clear() -> str:
    """Forgets everything."""
    raise ValueError("there is nothing to forget")


if __name__ == "__main__":
    if sys.argv[1:] == ["http"]:
        listener = socket.create_server(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error")).run(sockets=[listener])
    else:
        server.run("stdio")
