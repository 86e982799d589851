"""Stored schemas of a source whose tools have so much in common that a file with all of it in each would be too large.

In place of a `$defs` stands the text `definitions`, for what a schema leads to among the definitions of its source, or a key of the
source's `parts`. There are each `$defs`, with a key in place of every definition, and each definition, under the digest of it. What is
read back is what was written, and is shared between the tools again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgen.core.canonical import schema_digest
from toolgen.model.schema import Schema
from toolgen.model.shared_definitions import Closure, Definitions
from toolgen.model.subschemas import references

__all__ = ["ALL", "MAX_REPEATED", "Opened", "Stored", "complete", "unshared"]

ALL = "definitions"
MAX_REPEATED = 32 * 1024 * 1024
"""Bytes of `$defs` in the tools of a source, of which more are stored in parts."""
_DIGITS = slice(7, 31)  # of `sha256:…`


class Stored:
    """Writes the schemas of one source; `parts` is what it has made of them so far."""

    def __init__(self) -> None:
        self.parts: dict[str, Any] = {}
        self._keys: dict[int, tuple[object, str]] = {}

    def of(self, schema: Schema) -> Schema:
        """The schema as it is stored."""
        match schema.get("$defs"):
            case Closure():
                return unshared(schema)
            case dict() as definitions:
                return {**schema, "$defs": self._key(definitions, definitions)}
            case _:
                return schema

    def _key(self, value: Any, definitions: Mapping[str, Any] | None = None) -> str:
        known = self._keys.get(id(value))
        if known is None:
            if definitions is not None:
                stored: Any = {name: self._key(one) for name, one in definitions.items()}
            else:
                stored = value
            key = schema_digest(stored)[_DIGITS]
            self.parts[key] = stored
            known = self._keys[id(value)] = (value, key)
        return known[1]


class Opened:
    """Reads the schemas of one source. Raises `KeyError` for what it has no part for."""

    def __init__(self, definitions: Mapping[str, Schema], parts: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._shared: Definitions | None = None
        self._parts = parts
        self._made: dict[str, Schema] = {}

    def of(self, schema: Schema) -> Schema:
        """The schema that is stored so."""
        key = schema.get("$defs")
        if not isinstance(key, str):
            return schema
        if key == ALL:
            if self._shared is None:
                self._shared = Definitions(self._definitions)
            return {**schema, "$defs": Closure(self._shared, references(schema))}
        if key not in self._made:
            self._made[key] = {name: self._parts[one] for name, one in self._parts[key].items()}
        return {**schema, "$defs": self._made[key]}


def unshared(schema: Schema) -> Schema:
    """The schema without what it has in common with others; one that has nothing, as it is."""
    return {**schema, "$defs": ALL} if isinstance(schema.get("$defs"), Closure) else schema


def complete(schema: Schema) -> Schema:
    """The schema as plain JSON data, with all that it leads to in a dictionary of its own: megabytes, of the tools of some sources."""
    return {**schema, "$defs": dict(closure)} if isinstance(closure := schema.get("$defs"), Closure) else schema
