"""Tool plan: what a policy settles about the calls of one principal to one tool before they enter the pipeline.

Ordinary arguments are a flat object of plain values, each under a name that the tool lists. The gateway takes them as they are: nothing is
repaired, renamed, dropped or bound. Any other call is prepared in the general way (`call_preparation.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from toolgen.model.tool import Tool
from toolgen.pipeline.responses.answer_argument import may_have_options

__all__ = ["OrdinaryArguments", "ToolPlan"]

_PLAIN = frozenset({int, bool})
_NUMBERS = frozenset({"integer", "number", "boolean"})
_MAX_ARGUMENTS = 1_000


class OrdinaryArguments:
    """Arguments of a tool whose plain values are taken as they are sent: text where the schema declares text, integers and booleans."""

    __slots__ = ("_texts", "_values")

    def __init__(self, tool: Tool) -> None:
        properties = tool.input_schema.get("properties")
        declared = properties if isinstance(properties, Mapping) else {}
        names = [name for name in declared if name.isascii() and name[:1] != "_" and not may_have_options({name: None})]
        kinds = {name: declared[name].get("type") for name in names if isinstance(declared[name], Mapping)}
        self._texts = frozenset(
            name for name, kind in kinds.items() if kind == "string" and "contentMediaType" not in declared[name]
        )
        self._values = self._texts | {
            name for name, kind in kinds.items() if isinstance(kind, str) and kind in _NUMBERS
        }

    def includes(self, arguments: object) -> bool:
        """Return True if these arguments are JSON, and what `meant` makes of them is what they are."""
        if type(arguments) is not dict or len(arguments) > _MAX_ARGUMENTS:
            return False
        for name, value in arguments.items():
            if type(value) is str:
                if not value or name not in self._texts or not value.isascii():
                    return False
            elif type(value) not in _PLAIN or name not in self._values:
                return False
        return True


class ToolPlan(Struct, frozen=True, kw_only=True):
    """Plan for calls of a principal to a tool that it may see. `catalog` is the object that holds its tools under this policy."""

    tool: Tool
    ordinary: OrdinaryArguments
    catalog: tuple[Tool, ...]
