"""Names of a tool's arguments in its HTTP request: those of its description, and those inside object values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from toolgen.model.schema import Json, JsonObject, Schema
from toolgen.model.tool import HttpBinding, HttpBody, HttpParameter, HttpPart

__all__ = ["Brought", "Spread", "brought", "is_form", "members", "owned", "spreads"]

_FORM = "application/x-www-form-urlencoded"
_BRANCHES = ("allOf", "anyOf", "oneOf")
_MAX_WIRE_NAME_DEPTH = 20


class Brought(Struct, frozen=True, kw_only=True):
    """Name in an argument's value that becomes a separate name on the wire. `owner` is the argument, or one field of a form."""

    argument: str
    owner: str
    name: str


class Spread(Struct, frozen=True, kw_only=True):
    """Object whose members are names on the wire: as they are or, if it is `deep`, within brackets (`name[member]`).

    `name` is the object's own, and "" for a form that is one object. `schema` is its described schema.
    """

    argument: str
    owner: str
    name: str
    value: Mapping[str, Json]
    schema: Schema
    deep: bool


def owned(binding: HttpBinding) -> Iterator[tuple[str, str]]:
    """Yield every owner with its name on the wire, sent or not: arguments, and the known properties of a body."""
    for parameter in binding.parameters:
        yield parameter.argument, parameter.name
    for constant in binding.constants or ():
        yield "", constant.parameter.name
    if binding.body is not None:
        yield from binding.body.properties.items()


def is_form(media_type: str | None) -> bool:
    """Return True if the body is sent as names and values."""
    plain = (media_type or "").partition(";")[0].strip().lower()
    return plain == _FORM or plain.startswith("multipart/")


def spreads(binding: HttpBinding, arguments: JsonObject, schema: Schema) -> Iterator[Spread]:
    """Yield the objects in the arguments that are spread over a query, a path, a cookie or a form. `schema` is the tool's input schema."""
    for parameter in binding.parameters:
        value = arguments.get(parameter.argument)
        if isinstance(value, (Mapping, list, tuple)):
            below = _below(schema, parameter.argument, schema)
            if parameter.in_ == "querystring" and parameter.content_type is not None:
                if is_form(parameter.content_type) and isinstance(value, Mapping):
                    yield from _fields(parameter.argument, value, parameter.parts, below, schema)
            elif parameter.content_type is None and (deep := _deep(parameter)) is not None:
                yield from _objects(parameter.argument, parameter.argument, parameter.name, value, below, deep=deep)
    body = binding.body
    if body is not None and is_form(body.media_type) and not body.file:
        yield from _body(body, arguments, schema)


def brought(spread: Spread) -> Iterator[Brought]:
    """Yield the names on the wire of an object's members."""
    for name in _names(spread.name, spread.value, 0) if spread.deep else spread.value:
        yield Brought(argument=spread.argument, owner=spread.owner, name=name)


def members(schema: Schema, root: Schema) -> Mapping[str, Schema]:
    """Return the properties that a schema names, through references and branches."""
    found: dict[str, Schema] = {}
    _collect(schema, root, found, 0)
    return found


def _body(body: HttpBody, arguments: JsonObject, schema: Schema) -> Iterator[Spread]:
    if body.argument is not None:
        value = arguments.get(body.argument)
        if isinstance(value, Mapping):
            yield from _fields(body.argument, value, body.parts, _below(schema, body.argument, schema), schema)
        return
    for argument, name in body.properties.items():
        value, part = arguments.get(argument), body.parts.get(name)
        if isinstance(value, (Mapping, list, tuple)) and part is not None and (deep := _part_deep(part)) is not None:
            yield from _objects(argument, argument, name, value, _below(schema, argument, schema), deep=deep)


def _fields(
    argument: str, value: Mapping[str, Json], parts: Mapping[str, HttpPart], schema: Schema, root: Schema
) -> Iterator[Spread]:
    """Yield the objects of a form that is one object: its members are fields, and those with a style may contribute further ones."""
    yield Spread(argument=argument, owner=argument, name="", value=value, schema=schema, deep=False)
    known = members(schema, root)
    for name, item in value.items():
        part = parts.get(name)
        if isinstance(item, (Mapping, list, tuple)) and part is not None and (deep := _part_deep(part)) is not None:
            yield from _objects(argument, f"{argument}.{name}", name, item, known.get(name, {}), deep=deep)


def _objects(argument: str, owner: str, name: str, value: Json, schema: Schema, *, deep: bool) -> Iterator[Spread]:
    if isinstance(value, Mapping):
        yield Spread(argument=argument, owner=owner, name=name, value=value, schema=schema, deep=deep)
    elif deep and isinstance(value, Sequence) and not isinstance(value, str):
        for index, item in enumerate(value):
            yield from _objects(argument, owner, f"{name}[{index}]", item, {}, deep=True)


def _deep(parameter: HttpParameter) -> bool | None:
    """Return True if an object is sent in brackets, False if its members are separate parameters, None if it has one name or no name."""
    match parameter.in_, parameter.style:
        case "query" | "querystring" | "cookie", "deepObject":
            return True
        case "query" | "querystring" | "cookie", _:
            return False if parameter.explode else None
        case "path", "matrix":
            return False if parameter.explode else None
        case _:
            return None


def _part_deep(part: HttpPart) -> bool | None:
    if part.style == "deepObject":
        return True
    styled = bool(part.style) or part.explode is not None or part.allow_reserved
    explode = part.explode if part.explode is not None else part.style in {None, "form"}
    return False if styled and explode else None


def _names(prefix: str, value: Json, depth: int) -> Iterator[str]:
    if isinstance(value, Mapping) and depth < _MAX_WIRE_NAME_DEPTH:
        for key, item in value.items():
            yield from _names(f"{prefix}[{key}]", item, depth + 1)
    elif isinstance(value, (list, tuple)) and depth < _MAX_WIRE_NAME_DEPTH:
        for item in value:
            yield from _names(f"{prefix}[]", item, depth + 1)
    else:
        yield prefix


def _below(schema: Schema, name: str, root: Schema) -> Schema:
    return members(schema, root).get(name, {})


def _collect(schema: Any, root: Schema, found: dict[str, Schema], depth: int) -> None:
    if not isinstance(schema, Mapping) or depth > _MAX_WIRE_NAME_DEPTH:
        return
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        for name, below in properties.items():
            found.setdefault(name, below if isinstance(below, Mapping) else {})
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        _collect(root.get("$defs", {}).get(reference.removeprefix("#/$defs/")), root, found, depth + 1)
    for keyword in _BRANCHES:
        for branch in schema.get(keyword, ()):
            _collect(branch, root, found, depth + 1)
