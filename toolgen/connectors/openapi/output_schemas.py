"""Output schemas of a bounded size: parts far from the root are left open instead of repeated in every tool."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from toolgen.model.schema import Schema

__all__ = ["MAX_SIZE", "Outputs"]

MAX_SIZE = 32_768  # maximum bytes of `$defs` in one tool's output schema
_OPEN: dict[str, Any] = {"description": "Not described here; see the API's own documentation."}
# After a part was opened, these keywords would accept less than before: exactly one branch, none, a condition, unevaluated members.
_CONTRARY = frozenset(
    {
        *("not", "if", "then", "else", "contains", "minContains", "maxContains"),
        *("unevaluatedProperties", "unevaluatedItems", "dependentSchemas"),
    }
)


class Outputs:
    """Cache of the shared definitions of output schemas, cut to size."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._relaxed: dict[str, Schema] = {}
        self._kept: dict[tuple[str, ...], tuple[dict[str, Schema], bool]] = {}

    def bounded(
        self,
        schema: dict[str, Any],
        first: Collection[str],
        definition: Callable[[str], Schema],
        uses: Callable[[str], frozenset[str]],
    ) -> tuple[dict[str, Any], dict[str, Schema]]:
        """Return the schema and the definitions it reaches, nearest first, up to `MAX_SIZE` bytes; the rest accept any value.

        A cut schema accepts all values that it accepted before, and more. Schemas with the same references get the same definitions.
        """
        roots = tuple(sorted(first))
        if roots not in self._kept:
            self._kept[roots] = self._nearest(roots, definition, uses)
        definitions, cut = self._kept[roots]
        return (_relaxed(schema) if cut else schema), definitions

    def _nearest(
        self,
        roots: tuple[str, ...],
        definition: Callable[[str], Schema],
        uses: Callable[[str], frozenset[str]],
    ) -> tuple[dict[str, Schema], bool]:
        """Return the definitions in the order of names, and True if some of them were cut."""
        kept: dict[str, Schema] = {}
        cut: set[str] = set()
        level, size = list(roots), 0
        while level:
            following: set[str] = set()
            for name in level:
                size += self._size(name, definition)
                if size > MAX_SIZE:
                    cut.add(name)
                else:
                    kept[name] = definition(name)
                    following |= uses(name)
            level = sorted(name for name in following if name not in kept and name not in cut)
        if cut:
            kept = {name: self._relax(name, kept[name]) for name in kept} | dict.fromkeys(cut, _OPEN)
        return dict(sorted(kept.items())), bool(cut)

    def _size(self, name: str, definition: Callable[[str], Schema]) -> int:
        size = self._sizes.get(name)
        if size is None:
            size = self._sizes[name] = len(msgspec.json.encode(definition(name)))
        return size

    def _relax(self, name: str, schema: Schema) -> Schema:
        relaxed = self._relaxed.get(name)
        if relaxed is None:
            relaxed = self._relaxed[name] = _relaxed(schema)
        return relaxed


def _relaxed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a schema without the keywords that would reject values that a relaxed part now accepts."""
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
