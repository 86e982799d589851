"""What of a schema belongs to one direction alone: readOnly to answers, writeOnly to requests, required or not (3.0.4, section 4.7.24)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

from toolgen.sources.documents import Documents, UnresolvedRefError

__all__ = ["Direction", "Visibility"]

_NONE: frozenset[str] = frozenset()
_DEEPEST = 60


class Direction(Enum):
    """Whether a schema says what is sent or what comes back: readOnly belongs to the second alone, writeOnly to the first."""

    INPUT = "readOnly"
    OUTPUT = "writeOnly"


class Visibility:
    """Which properties take no part in a direction, of schemas as written; remembered for each reference."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._hidden: dict[tuple[str, Direction], bool] = {}
        self._names: dict[tuple[str, Direction], frozenset[str]] = {}
        self._required: dict[str, frozenset[str]] = {}

    def hidden(self, raw: Any, direction: Direction, depth: int = 0) -> bool:
        """Whether a property takes no part: it says so itself, or what it refers to or is composed of does."""
        if not isinstance(raw, dict) or depth > _DEEPEST:
            return False
        if raw.get(direction.value) is True:
            return True
        branches = raw.get("allOf")
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
        if not isinstance(raw, dict) or depth > _DEEPEST:
            return _NONE
        found: set[str] = set()
        if isinstance(properties := raw.get("properties"), dict):
            found.update(name for name, item in properties.items() if self.hidden(item, direction))
        if isinstance(branches := raw.get("allOf"), list):
            found.update(*(self.names(one, direction, depth + 1) for one in branches))
        for key in ("anyOf", "oneOf"):
            # Where an alternative would have it sent, the object may require it.
            if isinstance(branches := raw.get(key), list) and branches:
                found |= frozenset.intersection(*(self.names(one, direction, depth + 1) for one in branches))
        if isinstance(ref := raw.get("$ref"), str):
            known = self._names.get((ref, direction))
            if known is None:
                self._names[ref, direction] = _NONE
                known = self._names[ref, direction] = self.names(self._target(ref), direction, depth + 1)
            found |= known
        return frozenset(found)

    def required(self, ref: str) -> frozenset[str]:
        """Whatever is required of every object that what a reference leads to describes."""
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
            if isinstance(written := node.get("required"), list):
                yield from (name for name in written if isinstance(name, str))
            if isinstance(following := node.get("$ref"), str) and following not in seen:
                seen.add(following)
                todo.append(self._target(following))
            if isinstance(branches := node.get("allOf"), list):
                todo += branches

    def _target(self, ref: str) -> Any:
        try:
            return self._documents.lookup(ref)
        except UnresolvedRefError:
            return None
