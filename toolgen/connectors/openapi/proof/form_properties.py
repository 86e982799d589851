"""Properties of a form, found in all parts of the body's schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolgen.connectors.openapi.proof.reader import (
    is_json,
)
from toolgen.connectors.openapi.proof.spec_operation import SpecOperation

__all__ = ["wants_file"]

_MAX_DEPTH = 12
_BRANCHES = ("allOf", "anyOf", "oneOf")
_SAYS_NOTHING = frozenset({"title", "description", "example", "examples", "deprecated", "default"})


def wants_file(described: SpecOperation, body: Any, name: str, how: Mapping[str, Any]) -> bool:
    """Return True if a property may be raw bytes: `format: binary` (3.0), a `contentMediaType` without `contentEncoding` (3.1), or an empty
    schema with a contentType that is no text."""
    kind = str(how.get("contentType", "")).partition(",")[0].strip().lower()
    binary = bool(kind) and not is_json(kind) and not kind.startswith("text/")
    return any(
        _is_file_part(schema, binary=binary)
        for branch in _branches(described, body, 0)
        for written in _properties(branch, name)
        for schema in _values(described, written)
    )


def _properties(schema: Mapping[str, Any], name: str) -> Iterator[Any]:
    named = schema.get("properties")
    if isinstance(named, Mapping) and name in named:
        yield named[name]
    else:
        yield schema.get("additionalProperties")
        patterns = schema.get("patternProperties")
        yield from patterns.values() if isinstance(patterns, Mapping) else ()


def _values(described: SpecOperation, written: Any) -> Iterator[Mapping[str, Any]]:
    for schema in _branches(described, written, 0):
        yield schema
        yield from _branches(described, schema.get("items"), 0)


def _branches(described: SpecOperation, written: Any, depth: int) -> Iterator[Mapping[str, Any]]:
    schema = described.schema(written) if isinstance(written, Mapping) else None
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return
    yield schema
    for key in _BRANCHES:
        for one in schema.get(key) or ():
            yield from _branches(described, one, depth + 1)


def _is_file_part(schema: Mapping[str, Any], *, binary: bool) -> bool:
    if schema.get("format") == "binary" or ("contentMediaType" in schema and "contentEncoding" not in schema):
        return True
    return binary and not schema.keys() - _SAYS_NOTHING
