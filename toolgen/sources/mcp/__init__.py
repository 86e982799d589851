"""Reader of MCP servers' tool lists: makes Tools and Problems."""

from __future__ import annotations

from toolgen.sources.mcp.read import read_mcp

__all__ = ["read_mcp"]
