"""Changes of a call to a bridged MCP server."""

from __future__ import annotations

from collections.abc import Iterator

from toolgen.model.binding_change import BindingChange, breaking, compatible, one_line
from toolgen.model.tool import McpBinding, Tool

__all__ = ["server_changes"]


def server_changes(before: Tool, after: Tool) -> Iterator[BindingChange]:
    """Yield changes of the server, the tool there, and how the server describes it."""
    old, new = before.binding, after.binding
    if not isinstance(old, McpBinding) or not isinstance(new, McpBinding):
        return
    if old.url != new.url:
        yield breaking("server", f"calls go to {new.url or 'a command'} (before: {old.url or 'a command'})")
    if old.tool != new.tool:
        yield breaking("binding", f"now calls {one_line(new.tool)}")
    for part in sorted(old.parts.keys() | new.parts.keys()):
        if old.parts.get(part) != new.parts.get(part):
            yield compatible("listed", f"its server gives it another {part}")
