"""Repeated parts of one schema, moved to `$defs`: no constraint changes, and the tool needs fewer tokens."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection
from typing import Any

import msgspec

from toolgen.model.subschemas import MAPS, Steps, subschemas

__all__ = ["shared"]

_WORTHWHILE = 400  # bytes; a reference to a smaller part harms the reader more than it saves


def shared(schema: dict[str, Any], taken: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema with its repeated parts as references, and their definitions, under names not in `taken`.

    A name comes from the property with the first occurrence, so the same schema always gets the same names. The given values are not
    changed.
    """
    if len(msgspec.json.encode(schema)) < 2 * _WORTHWHILE:
        return schema, {}
    sharing = _Sharing(taken)
    sharing.count(schema)
    if not any(count > 1 for count in sharing.counts.values()):
        return schema, {}
    return sharing.rewrite(schema, "part"), sharing.definitions


class _Sharing:
    """Definitions for the repeated parts of one schema."""

    def __init__(self, taken: Collection[str]) -> None:
        self.counts: Counter[bytes] = Counter()
        self.definitions: dict[str, Any] = {}
        self._taken = taken
        self._names: dict[bytes, str] = {}
        self._texts: dict[int, bytes] = {}  # JSON of each part by its identity; the root keeps the parts alive

    def count(self, schema: dict[str, Any]) -> None:
        """Count the places of each part if all larger parts are shared: a part inside a repeated part counts once."""
        for _, part in subschemas(schema):
            text = msgspec.json.encode(part)
            if len(text) < _WORTHWHILE:
                continue
            self._texts[id(part)] = text
            self.counts[text] += 1
            if self.counts[text] == 1:
                self.count(part)

    def rewrite(self, schema: dict[str, Any], under: str) -> dict[str, Any]:
        """Return the schema with references, or the schema itself if it has no repeated part."""
        built = schema
        for steps, part in subschemas(schema):
            found = steps[-1] if isinstance(steps[-1], str) and steps[0] in MAPS else under
            fresh = self._placed(part, found)
            if fresh is not part:
                built = _replaced(built, schema, steps, fresh)
        return built

    def _placed(self, part: dict[str, Any], under: str) -> dict[str, Any]:
        text = self._texts.get(id(part)) or msgspec.json.encode(part)
        if self.counts[text] < 2:
            return self.rewrite(part, under) if len(text) >= _WORTHWHILE else part
        name = self._names.get(text)
        if name is None:
            name = self._names[text] = self._name(under, text)
            self.definitions[name] = part  # reserves the name while the parts inside get theirs
            self.definitions[name] = self.rewrite(part, under)
        return {"$ref": f"#/$defs/{name}"}

    def _name(self, under: str, text: bytes) -> str:
        base = re.sub(r"[^A-Za-z0-9_.-]+", "_", under)[:40] or "part"
        if base not in self._taken and base not in self.definitions:
            return base
        digest = hashlib.sha256(text).hexdigest()
        return next(
            name
            for length in range(6, 64)
            if (name := f"{base}_{digest[:length]}") not in self._taken and name not in self.definitions
        )


def _replaced(built: dict[str, Any], original: dict[str, Any], steps: Steps, fresh: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of the path from a schema to one of its parts, with the part replaced."""
    if built is original:
        built = dict(original)
    key = steps[0]
    if len(steps) == 1:
        built[str(key)] = fresh
        return built
    if built[str(key)] is original[str(key)]:
        built[str(key)] = original[str(key)].copy()
    built[str(key)][steps[1]] = fresh
    return built
