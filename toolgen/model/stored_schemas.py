"""Stored schemas of a source whose tools share so many definitions that a file with all of them in each would be too large.

In place of a `$defs` there is the text `definitions`, for a schema's part of the definitions of its source, or a key of the source's
`parts`. These contain each `$defs`, with a key in place of every definition, and each definition, by its digest. Reading restores the
written schemas, shared between the tools again.
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
"""Bytes of `$defs` in the tools of a source above which they are stored in parts."""
_DIGITS = slice(7, 31)  # hex digits of `sha256:…`


class Stored:
    """Writer of the schemas of one source; `parts` are the parts so far."""

    def __init__(self) -> None:
        self.parts: dict[str, Any] = {}
        self._keys: dict[int, tuple[object, str]] = {}

    def of(self, schema: Schema) -> Schema:
        """Return the schema as it is stored."""
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
    """Reader of the schemas of one source. Raises `KeyError` for a missing part."""

    def __init__(self, definitions: Mapping[str, Schema], parts: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._shared: Definitions | None = None
        self._parts = parts
        self._made: dict[str, Schema] = {}

    def of(self, schema: Schema) -> Schema:
        """Return the schema of a stored one."""
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
    """Return the schema without its shared parts; unchanged if it has none."""
    return {**schema, "$defs": ALL} if isinstance(schema.get("$defs"), Closure) else schema


def complete(schema: Schema) -> Schema:
    """Return the schema as plain JSON data, with all its definitions in a separate dictionary: megabytes for tools of some sources."""
    return {**schema, "$defs": dict(closure)} if isinstance(closure := schema.get("$defs"), Closure) else schema
