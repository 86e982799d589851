"""Properties of one direction: readOnly properties in answers and writeOnly properties in requests (OpenAPI 3.0.4, section 4.7.24)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

from toolgen.connectors.openapi.documents import Documents, UnresolvedRefError

__all__ = ["Direction", "Visibility"]

_NONE: frozenset[str] = frozenset()
_MAX_DEPTH = 60
_OBJECTS = frozenset({"properties", "allOf", "anyOf", "oneOf", "$ref"})


class Direction(Enum):
    """Direction of a schema: readOnly members belong to the output only, writeOnly members to the input only."""

    INPUT = "readOnly"
    OUTPUT = "writeOnly"

    __hash__ = object.__hash__  # each member is one object; the hash of an enum member takes a call in Python


class Visibility:
    """Hidden properties of schemas as written in each direction, cached per reference."""

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
            self._hidden[ref, direction] = False  # for a circular reference
            known = self._hidden[ref, direction] = self.hidden(self._target(ref), direction, depth + 1)
        return known

    def names(self, raw: Any, direction: Direction, depth: int = 0) -> frozenset[str]:
        """Return the hidden properties of an object, from all parts of its composition."""
        if not isinstance(raw, dict) or depth > _MAX_DEPTH or _OBJECTS.isdisjoint(raw):
            return _NONE
        found: set[str] = set()
        raw = self._held(raw)
        if isinstance(properties := raw.get("properties"), dict):
            found.update(name for name, item in properties.items() if self.hidden(item, direction))
        if isinstance(branches := raw.get("allOf"), list):
            found.update(*(self.names(one, direction, depth + 1) for one in branches))
        for key in ("anyOf", "oneOf"):
            # Only a property that every alternative hides is hidden: if one alternative sends it, the object may require it.
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
