"""What MCP servers say of their tools -> Tools and Problems."""

from __future__ import annotations

from toolgen.sources.mcp.read import read_mcp

__all__ = ["read_mcp"]
