"""Output schemas of a bounded size: what is far from the root of an answer is left open rather than repeated in every tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

__all__ = ["LARGEST", "Outputs"]

LARGEST = 32_768  # bytes of `$defs` one tool's output schema may hold
_OPEN: dict[str, Any] = {"description": "Not described here; see the API's own documentation."}
# Where a part accepts more than it used to, these would accept less: exactly one branch, none, a condition, what nothing else evaluated.
_CONTRARY = frozenset(
    {
        *("not", "if", "then", "else", "contains", "minContains", "maxContains"),
        *("unevaluatedProperties", "unevaluatedItems", "dependentSchemas"),
    }
)


class Outputs:
    """Cuts the definitions that output schemas share; what it computes of a definition it keeps for the next tool."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._relaxed: dict[str, dict[str, Any]] = {}

    def bounded(
        self,
        schema: dict[str, Any],
        first: list[str],
        definition: Callable[[str], dict[str, Any]],
        uses: Callable[[str], frozenset[str]],
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """The schema and the definitions it reaches, nearest first, up to `LARGEST` bytes; the rest accept anything.

        A schema that had to be cut accepts all that it accepted before, and more.
        """
        kept: dict[str, dict[str, Any]] = {}
        cut: set[str] = set()
        level, size = sorted(first), 0
        while level:
            following: set[str] = set()
            for name in level:
                size += self._size(name, definition)
                if size > LARGEST:
                    cut.add(name)
                else:
                    kept[name] = definition(name)
                    following |= uses(name)
            level = sorted(name for name in following if name not in kept and name not in cut)
        if not cut:
            return schema, kept
        relaxed = {name: self._relax(name, kept[name]) for name in kept}
        return _relaxed(schema), relaxed | dict.fromkeys(cut, _OPEN)

    def _size(self, name: str, definition: Callable[[str], dict[str, Any]]) -> int:
        size = self._sizes.get(name)
        if size is None:
            size = self._sizes[name] = len(orjson.dumps(definition(name)))
        return size

    def _relax(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        relaxed = self._relaxed.get(name)
        if relaxed is None:
            relaxed = self._relaxed[name] = _relaxed(schema)
        return relaxed


def _relaxed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same schema without the keywords that would refuse what an opened part newly accepts."""
    built: dict[str, Any] = {}
    for keyword, value in schema.items():
        match keyword:
            case _ if keyword in _CONTRARY:
                continue
            case "oneOf":
                branches = {"anyOf": [_part(item) for item in value]}
                built["allOf"] = [*built.get("allOf", []), branches]
            case "allOf":
                built["allOf"] = [*built.get("allOf", []), *(_part(item) for item in value)]
            case "anyOf" | "prefixItems":
                built[keyword] = [_part(item) for item in value]
            case "properties" | "patternProperties" | "$defs":
                built[keyword] = {name: _part(item) for name, item in value.items()}
            case "items" | "additionalProperties" | "propertyNames":
                built[keyword] = _part(value)
            case _:
                built[keyword] = value
    return built


def _part(value: Any) -> Any:
    return _relaxed(value) if isinstance(value, Mapping) else value
