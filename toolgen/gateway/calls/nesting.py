"""Calls inside of calls: what a call is made inside of, and which calls may not be made there."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from toolgen.model.call import Call
from toolgen.model.result import Error
from toolgen.model.tool import NoBinding, Tool

__all__ = ["MAX_DEPTH", "inside", "nesting_error"]

MAX_DEPTH = 5
"""How many calls one may be made inside of."""


def inside(call: Call, outer: Call) -> Call:
    """A call as one that `outer` makes, with all that this is made inside of as its ancestry."""
    return replace(call, parent=outer.id, ancestry=(*outer.ancestry, outer.tool.name), trace=outer.trace)


def nesting_error(call: Call, tool: Callable[[str], Tool | None]) -> Error | None:
    """Why a call may not be made inside of the calls of its ancestry; None where it may.

    No tool is called inside of itself, and code does not run code, whatever is in between. `tool` finds a tool by name; one that is gone
    may have been code. What the caller may not see is refused as unknown later.
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
    message=f"calls may be made inside of each other {MAX_DEPTH} deep at most",
    suggestion="let the outer tools call fewer others",
    rule="depth",
)
_CODE = Error(
    code="forbidden",
    message="this call was made by code, and code does not run code, whatever is in between",
    suggestion="call the tools that the inner code would call",
    rule="recursion",
)
_ITSELF = Error(
    code="forbidden",
    message="this tool is being called already: it would call itself",
    suggestion="tell the operator of the gateway which tools call one another",
    rule="recursion",
)
