"""Grammar of public names: sources, tools, and `source__tool`."""

from __future__ import annotations

import re

__all__ = ["ADDED", "MAX_NAME_LENGTH", "META_TOOLS", "SOURCE_NAME", "TOOL_NAME", "join"]

SOURCE_NAME = re.compile(r"[a-z][a-z0-9_]{0,19}\Z")
TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,47}\Z")
MAX_NAME_LENGTH = 48
ADDED = "added"
"""Source of the tools that a program adds while its gateway runs."""
META_TOOLS = frozenset(
    {
        "search_tools",
        "describe_tool",
        "run_tool",
        "run_read_tool",
        "call_tool",
        "call_read_tool",
        "get_call_result",
        "read_file",
    }
)
"""Names of the gateway's own tools, former ones too, which no tool of a source may have."""
_SEPARATOR = "__"


def join(source: str, local: str) -> str:
    """Return `petstore__get_pet` for `petstore` and `get_pet`."""
    return f"{source}{_SEPARATOR}{local}"
