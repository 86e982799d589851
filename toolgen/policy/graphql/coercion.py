"""What a service makes of arguments before it looks at them (spec, section 3, input coercion): a rule has to hold for that as well."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from graphql import GraphQLInputObjectType, GraphQLInputType, GraphQLList, GraphQLNonNull

from toolgen.model.schema import Json, JsonObject, Schema

__all__ = ["coerced", "listed"]

_TWOFOLD = frozenset({"string", "integer"})
_WHOLE = re.compile(r"-?[0-9]{1,300}\Z")


def coerced(schema: Schema, arguments: JsonObject) -> JsonObject:
    """The arguments of a GraphQL tool with one spelling for what has two: an ID is text, a scalar of whole numbers is a number.

    `schema` is the tool's own. The very same object, where nothing is to be changed.
    """
    changed = _coerced(schema, arguments, schema.get("$defs", {}))
    return changed if isinstance(changed, Mapping) else arguments


def _coerced(schema: Schema, value: Json, definitions: Mapping[str, Schema]) -> Json:
    match value:
        case bool() | float() | None:
            return value
        case int() | str():
            return _scalar(schema, value)
        case Mapping():
            known = _members(schema, definitions)
            made = {key: _coerced(known[key], one, definitions) if key in known else one for key, one in value.items()}
            return made if any(made[key] is not one for key, one in value.items()) else value
        case _:
            items = schema.get("items", {})
            listed_ = [_coerced(items, one, definitions) for one in value]
            return listed_ if any(new is not old for new, old in zip(listed_, value, strict=True)) else value


def _scalar(schema: Schema, value: int | str) -> Json:
    types = schema.get("type")
    if not isinstance(types, list) or set(types) - {"null"} != _TWOFOLD:
        return value
    if "pattern" not in schema:
        return str(value) if isinstance(value, int) else value
    return int(value) if isinstance(value, str) and _WHOLE.match(value) else value


def _members(schema: Schema, definitions: Mapping[str, Schema]) -> Mapping[str, Schema]:
    """The properties of an object, through the one reference that a tool's schema makes of an input type."""
    for one in (schema, *schema.get("anyOf", ())):
        meant = definitions.get(str(one["$ref"]).removeprefix("#/$defs/"), {}) if "$ref" in one else one
        if "properties" in meant:
            found: Mapping[str, Schema] = meant["properties"]
            return found
    return {}


def listed(type_: GraphQLInputType, value: Any) -> Any:
    """A value of a document with lists where a single item stands for one (spec, section 3.11)."""
    inner = type_.of_type if isinstance(type_, GraphQLNonNull) else type_
    match inner:
        case GraphQLList():
            if value is None:
                return None
            items = value if isinstance(value, list) else [value]
            return [listed(inner.of_type, item) for item in items]
        case GraphQLInputObjectType() if isinstance(value, Mapping):
            known = inner.fields
            return {key: listed(known[key].type, one) if key in known else one for key, one in value.items()}
        case _:
            return value
