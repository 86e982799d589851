"""Inlining of definitions that are used once: the same schema with fewer words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from toolgen.model.schema import Schema

__all__ = ["inlined"]

_PREFIX = "#/$defs/"
_MAX_COUNT = 60  # inlined definitions; they may be nested


def inlined(schema: Schema, definitions: Mapping[str, Schema]) -> tuple[Schema, dict[str, Schema]]:
    """Return the schema and its remaining definitions. A recursive definition is kept."""
    if len(definitions) > _MAX_COUNT:
        return schema, dict(definitions)
    uses = Counter(name for one in (schema, *definitions.values()) for name in _references(one))
    once = {name for name in definitions if uses[name] == 1 and not _returns(name, definitions)}
    if not once:
        return schema, dict(definitions)
    kept: dict[str, Schema] = {
        name: _replaced(one, definitions, once) for name, one in definitions.items() if name not in once
    }
    return _replaced(schema, definitions, once), kept


def _references(schema: Schema) -> Iterator[str]:
    """Yield the definitions that a generated schema refers to. Only keywords with schemas are searched, because a property may be
    called `default`.
    """
    if "$ref" in schema:
        yield schema["$ref"].removeprefix(_PREFIX)
    for inner in (*schema.get("properties", {}).values(), *schema.get("anyOf", ())):
        yield from _references(inner)
    if "items" in schema:
        yield from _references(schema["items"])


def _returns(name: str, definitions: Mapping[str, Schema]) -> bool:
    """Return True if a definition refers to itself, directly or through others."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        for other in _references(definitions[waiting.pop()]):
            if other == name:
                return True
            if other not in seen and other in definitions:
                seen.add(other)
                waiting.append(other)
    return False


def _replaced(schema: Schema, definitions: Mapping[str, Schema], once: set[str]) -> dict[str, Any]:
    name = schema["$ref"].removeprefix(_PREFIX) if "$ref" in schema else ""
    if name in once:
        inner = _replaced(definitions[name], definitions, once)
        return {**inner, **{key: one for key, one in schema.items() if key != "$ref"}}
    built = dict(schema)
    if "properties" in schema:
        built["properties"] = {key: _replaced(one, definitions, once) for key, one in schema["properties"].items()}
    if "items" in schema:
        built["items"] = _replaced(schema["items"], definitions, once)
    if "anyOf" in schema:
        built["anyOf"] = [_replaced(one, definitions, once) for one in schema["anyOf"]]
    match built.pop("anyOf", None):
        case [{"type": str() as type_, **rest}, {"type": "null"}]:
            # The alternative of a reference and null became an object or null, which one schema can express.
            widened: dict[str, Any] = {str(key): one for key, one in rest.items()}
            if "enum" in widened:
                widened["enum"] = [*widened["enum"], None]
            return widened | {"type": [type_, "null"]} | built
        case None:
            return built
        case alternatives:
            return {"anyOf": alternatives, **built}
