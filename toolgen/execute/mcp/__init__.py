"""Calls of the tools of MCP servers, over HTTP or over the pipes of a command."""

from __future__ import annotations

from toolgen.execute.mcp.executor import McpExecutor

__all__ = ["McpExecutor"]
