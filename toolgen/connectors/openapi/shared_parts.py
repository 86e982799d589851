"""Parts of one schema that are written out several times, moved to `$defs`: no constraint changes, and the tool gets cheaper."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection
from typing import Any

import msgspec

from toolgen.model.subschemas import MAPS, Steps, subschemas

__all__ = ["shared"]

_WORTHWHILE = 400  # bytes; below that a reader loses more than the model gains


def shared(schema: dict[str, Any], taken: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema with its repeated parts as references, and the definitions they lead to, under names not in `taken`.

    Names come from the property a part was first found under, so the same schema always gets the same ones. Nothing passed in is changed.
    """
    if len(msgspec.json.encode(schema)) < 2 * _WORTHWHILE:
        return schema, {}
    sharing = _Sharing(taken)
    sharing.count(schema)
    if not any(count > 1 for count in sharing.counts.values()):
        return schema, {}
    return sharing.rewrite(schema, "part"), sharing.definitions


class _Sharing:
    """Sharing of one schema's repeated parts as definitions."""

    def __init__(self, taken: Collection[str]) -> None:
        self.counts: Counter[bytes] = Counter()
        self.definitions: dict[str, Any] = {}
        self._taken = taken
        self._names: dict[bytes, str] = {}
        self._texts: dict[int, bytes] = {}  # by identity of a part that `count` keeps alive through its root

    def count(self, schema: dict[str, Any]) -> None:
        """Count of the places in which each part would be written if all larger ones were shared: what is in a repeated part counts
        once."""
        for _, part in subschemas(schema):
            text = msgspec.json.encode(part)
            if len(text) < _WORTHWHILE:
                continue
            self._texts[id(part)] = text
            self.counts[text] += 1
            if self.counts[text] == 1:
                self.count(part)

    def rewrite(self, schema: dict[str, Any], under: str) -> dict[str, Any]:
        """The schema with references in it; one that has no repeated part is returned as it is."""
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
            self.definitions[name] = part  # holds the name while its own parts are named
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
    """A copy of the path from a schema to one part of it, made once, with the part replaced."""
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
