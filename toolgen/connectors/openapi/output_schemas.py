"""Output schemas of a bounded size: what is far from the root of an answer is left open rather than repeated in every tool.

What of a schema belongs to one direction alone: readOnly to answers, writeOnly to requests, required or not (3.0.4, section 4.7.24).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from typing import Any

import msgspec

from toolgen.connectors.openapi.documents import Documents, UnresolvedRefError
from toolgen.model.schema import Schema

__all__ = ["MAX_SIZE", "Direction", "Outputs", "Visibility"]

MAX_SIZE = 32_768  # bytes of `$defs` one tool's output schema may hold
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
        self._relaxed: dict[str, Schema] = {}
        self._kept: dict[tuple[str, ...], tuple[dict[str, Schema], bool]] = {}

    def bounded(
        self,
        schema: dict[str, Any],
        first: Collection[str],
        definition: Callable[[str], Schema],
        uses: Callable[[str], frozenset[str]],
    ) -> tuple[dict[str, Any], dict[str, Schema]]:
        """The schema and the definitions it reaches, nearest first, up to `MAX_SIZE` bytes; the rest accept anything.

        A schema that had to be cut accepts all that it accepted before, and more. Schemas that refer to the same have the same definitions.
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
        """The definitions in the order of names, and whether some of them were cut."""
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


_NONE: frozenset[str] = frozenset()
_MAX_DEPTH = 60
_OBJECTS = frozenset({"properties", "allOf", "anyOf", "oneOf", "$ref"})


class Direction(Enum):
    """Direction of a schema: readOnly members belong to the output only, writeOnly members to the input only."""

    INPUT = "readOnly"
    OUTPUT = "writeOnly"

    __hash__ = object.__hash__  # each is one object; a name's hash takes a call in Python


class Visibility:
    """Which properties take no part in a direction, of schemas as written; remembered for each reference."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._hidden: dict[tuple[str, Direction], bool] = {}
        self._names: dict[tuple[str, Direction], frozenset[str]] = {}
        self._required: dict[str, frozenset[str]] = {}
        self._demanded: dict[str, frozenset[str]] = {}

    def hidden(self, raw: Any, direction: Direction, depth: int = 0) -> bool:
        """Return True if a property is hidden in this direction, by itself or by a schema that it refers to or is composed of."""
        if not isinstance(raw, dict) or depth > _MAX_DEPTH:
            return False
        if raw.get(direction.value) is True:
            return True
        if "$ref" not in raw and "allOf" not in raw:
            return False
        branches = self._held(raw).get("allOf")
        if isinstance(branches, list) and any(self.hidden(one, direction, depth + 1) for one in branches):
            return True
        ref = raw.get("$ref")
        if not isinstance(ref, str):
            return False
        known = self._hidden.get((ref, direction))
        if known is None:
            self._hidden[ref, direction] = False  # of what leads back to itself
            known = self._hidden[ref, direction] = self.hidden(self._target(ref), direction, depth + 1)
        return known

    def names(self, raw: Any, direction: Direction, depth: int = 0) -> frozenset[str]:
        """The properties of an object that take no part, wherever in its composition they stand."""
        if not isinstance(raw, dict) or depth > _MAX_DEPTH or _OBJECTS.isdisjoint(raw):
            return _NONE
        found: set[str] = set()
        raw = self._held(raw)
        if isinstance(properties := raw.get("properties"), dict):
            found.update(name for name, item in properties.items() if self.hidden(item, direction))
        if isinstance(branches := raw.get("allOf"), list):
            found.update(*(self.names(one, direction, depth + 1) for one in branches))
        for key in ("anyOf", "oneOf"):
            # Where an alternative would have it sent, the object may require it.
            if isinstance(branches := raw.get(key), list) and branches:
                common = self.names(branches[0], direction, depth + 1)
                for one in branches[1:]:
                    common = common and common & self.names(one, direction, depth + 1)
                found |= common
        if isinstance(ref := raw.get("$ref"), str):
            known = self._names.get((ref, direction))
            if known is None:
                self._names[ref, direction] = _NONE
                known = self._names[ref, direction] = self.names(self._target(ref), direction, depth + 1)
            found |= known
        return frozenset(found)

    def demanded(self, raw: Any, depth: int = 0) -> frozenset[str]:
        """Return the properties that an object's composition requires, except those that the same schema describes as read-only.

        A property that is read-only and required in the same schema is required of responses only (3.0.4, section 4.7.24.2). A property
        that is required elsewhere, as for a reference to something that exists, must be sent.
        """
        if not isinstance(raw, dict) or depth > _MAX_DEPTH:
            return _NONE
        raw = self._held(raw)
        found: set[str] = set()
        written, properties = raw.get("required"), raw.get("properties")
        if isinstance(written, list):
            own = properties if isinstance(properties, dict) else {}
            names = [name for name in written if isinstance(name, str)]
            found.update(name for name in names if not self.hidden(own.get(name), Direction.INPUT))
        if isinstance(branches := raw.get("allOf"), list):
            found.update(*(self.demanded(one, depth + 1) for one in branches))
        if isinstance(ref := raw.get("$ref"), str):
            known = self._demanded.get(ref)
            if known is None:
                self._demanded[ref] = _NONE
                known = self._demanded[ref] = self.demanded(self._target(ref), depth + 1)
            found |= known
        return frozenset(found)

    def required(self, ref: str) -> frozenset[str]:
        """Return the names required of every object that the target of a reference describes."""
        known = self._required.get(ref)
        if known is None:
            known = self._required[ref] = frozenset(self._requirements(ref))
        return known

    def _requirements(self, ref: str) -> Iterator[str]:
        seen = {ref}
        todo = [self._target(ref)]
        while todo:
            node = todo.pop()
            if not isinstance(node, dict):
                continue
            node = self._held(node)
            if isinstance(written := node.get("required"), list):
                yield from (name for name in written if isinstance(name, str))
            if isinstance(following := node.get("$ref"), str) and following not in seen:
                seen.add(following)
                todo.append(self._target(following))
            if isinstance(branches := node.get("allOf"), list):
                todo += branches

    def _held(self, schema: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._documents.held(schema)
        except UnresolvedRefError:
            return schema

    def _target(self, ref: str) -> Any:
        try:
            return self._documents.lookup(ref)
        except UnresolvedRefError:
            return None
