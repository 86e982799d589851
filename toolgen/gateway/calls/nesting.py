"""Nesting of calls: the ancestry of an inner call, and the calls that may not be nested."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from toolgen.model.call import Call
from toolgen.model.result import Error
from toolgen.model.tool import NoBinding, Tool

__all__ = ["MAX_DEPTH", "inside", "nesting_error"]

MAX_DEPTH = 5
"""Maximum nesting of calls."""


def inside(call: Call, outer: Call) -> Call:
    """Return a call as an inner call of `outer`, with the ancestry of `outer` and itself."""
    return replace(call, parent=outer.id, ancestry=(*outer.ancestry, outer.tool.name), trace=outer.trace)


def nesting_error(call: Call, tool: Callable[[str], Tool | None]) -> Error | None:
    """Return the reason why a call may not be made within the calls of its ancestry; None if it may.

    No tool is called within itself, and code does not run code, at any distance. `tool` finds a tool by name; a missing one may have been
    code. A tool that the caller may not see is refused as unknown later.
    """
    if len(call.ancestry) > MAX_DEPTH:
        return _TOO_DEEP
    if isinstance(call.tool.binding, NoBinding):
        return None
    if call.tool.name in call.ancestry:
        return _ITSELF
    if call.tool.binding.takes_code:
        above = map(tool, call.ancestry)
        return _CODE if any(one is None or one.binding.takes_code for one in above) else None
    return None


_TOO_DEEP = Error(
    code="forbidden",
    message=f"calls may be nested at most {MAX_DEPTH} levels deep",
    suggestion="reduce the nesting of tools",
    rule="depth",
)
_CODE = Error(
    code="forbidden",
    message="this call was made by code, and code may not run code, even through other tools",
    suggestion="call the tools that the inner code would call",
    rule="recursion",
)
_ITSELF = Error(
    code="forbidden",
    message="this tool is already running in this chain of calls: it would call itself",
    suggestion="tell the operator of the gateway which tools call one another",
    rule="recursion",
)
