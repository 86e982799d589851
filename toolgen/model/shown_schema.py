"""GraphQL tool as agents see it: input types within a budget of tokens, and pages with the gateway's sizes.

The tool itself keeps its complete schema, which every rule and every check of a call uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from toolgen.model.schema import Schema
from toolgen.model.tool import Tool

__all__ = ["MAX_SHOWN", "closure", "is_large", "outline", "shown"]

MAX_SHOWN = 6144
"""Bytes of an input schema for agents; about 2,000 tokens."""
_MANY = MAX_SHOWN // 32  # number of definitions above which they never fit, however short they are
_LEAST = 256  # bytes below which nothing more is examined
_PREFIX = "#/$defs/"
_HINT = "Types named in the descriptions of arguments are shown by describe_types."


def is_large(schema: Schema) -> bool:
    """Return True if a schema exceeds the length for agents, and has types that can be left out."""
    if "$defs" not in schema:
        return False
    if len(schema.get("$defs", ())) > _MANY:
        return True
    return len(msgspec.json.encode(schema, enc_hook=dict)) > MAX_SHOWN


def shown(tool: Tool) -> Tool:
    """Return the tool with the schema for agents, under its own digest."""
    if not tool.selects_fields:
        return tool
    schema = tool.binding.listed_schema(tool.input_schema)
    if not is_large(schema) or tool.description.endswith(_HINT):
        return tool if schema is tool.input_schema else msgspec.structs.replace(tool, input_schema=schema)
    return msgspec.structs.replace(tool, input_schema=_shortened(schema), description=f"{tool.description}\n{_HINT}")


def outline(schema: Schema, kept: frozenset[str] = frozenset()) -> Schema:
    """Return the schema with only these definitions, and a named object in place of each of the others."""
    definitions = schema.get("$defs", {})
    closed = {name: _closed(definitions[name], definitions, kept) for name in sorted(kept)}
    top = _closed({key: one for key, one in schema.items() if key != "$defs"}, definitions, kept)
    return {**top, **({"$defs": closed} if closed else {})}


def closure(schema: Schema, definitions: Mapping[str, Schema]) -> dict[str, Schema]:
    """Return the definitions that a schema leads to."""
    waiting = [*_references(schema)]
    found: dict[str, Schema] = {}
    while waiting:
        name = waiting.pop()
        if name not in found and name in definitions:
            found[name] = definitions[name]
            waiting += _references(definitions[name])
    return dict(sorted(found.items()))


def _shortened(schema: Schema) -> Schema:
    """Return the schema with as many of its definitions as fit, those near the root first; the rest become named objects.

    It accepts all values of the complete schema.
    """
    definitions: Mapping[str, Schema] = schema["$defs"]
    top = {key: one for key, one in schema.items() if key != "$defs"}
    kept: dict[str, Schema] = {}
    left = MAX_SHOWN - _size(_closed(top, definitions, frozenset()))
    waiting = [*dict.fromkeys(_references(top))]
    seen = set(waiting)
    for name in waiting:  # grows during the iteration
        if left < _LEAST:
            break
        for one in (definitions[name], _plain(definitions[name])):
            size = _size(_closed(one, definitions, frozenset())) + len(name) + 4
            if size <= left:
                kept[name] = one
                left -= size
                found = [other for other in dict.fromkeys(_references(one)) if other not in seen]
                waiting += found
                seen |= {*found}
                break
    return outline({**top, "$defs": {**definitions, **kept}}, frozenset(kept))


def _size(schema: Schema) -> int:
    return len(msgspec.json.encode(schema, enc_hook=dict))


def _references(schema: Schema) -> Iterator[str]:
    """Return the definitions that a schema refers to. Only keywords with schemas are searched, because a property may be called
    `default`.
    """
    if "$ref" in schema:
        yield schema["$ref"].removeprefix(_PREFIX)
    for inner in (*schema.get("properties", {}).values(), *schema.get("anyOf", ())):
        yield from _references(inner)
    if "items" in schema:
        yield from _references(schema["items"])


def _closed(schema: Schema, definitions: Mapping[str, Schema], kept: frozenset[str]) -> dict[str, Any]:
    """Return a schema that refers only to the definitions in `kept`, with a named object in place of any other."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_PREFIX)
        if name in kept:
            return dict(schema)
        return {"type": definitions[name].get("type", "object"), "description": name}
    built = dict(schema)
    if "properties" in schema:
        built["properties"] = {key: _closed(one, definitions, kept) for key, one in schema["properties"].items()}
    if "items" in schema:
        built["items"] = _closed(schema["items"], definitions, kept)
    match schema.get("anyOf"):
        case [{"$ref": str() as reference}, {"type": "null"}] if reference.removeprefix(_PREFIX) not in kept:
            del built["anyOf"]
            inner = _closed({"$ref": reference}, definitions, kept)
            # The type's name is more useful than a sentence about the argument, because describe_types accepts it.
            return {**built, "type": [inner["type"], "null"], "description": inner["description"]}
        case list() as alternatives:
            built["anyOf"] = [_closed(one, definitions, kept) for one in alternatives]
    return built


def _plain(schema: Schema) -> Schema:
    """Return an input object without descriptions of its members."""
    properties = {
        name: {key: value for key, value in one.items() if key not in {"description", "deprecated"}}
        for name, one in schema.get("properties", {}).items()
    }
    plain = {key: value for key, value in schema.items() if key != "description"}
    return {**plain, "properties": properties} if properties else plain
