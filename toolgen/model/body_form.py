"""Form of a request body among the arguments of a tool: one argument, or its properties spread over several.

Models mix the two forms up. What is unambiguous is put into the form that the tool has; the rest is unknown, and `body_advice` says where
it belongs.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from toolgen.json_codec import decode_json
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import HttpBinding, HttpBody, Tool

__all__ = ["body_advice", "in_body_form"]

_WRAPPERS = ("body", "requestBody", "request_body")
_MAX_TEXT_LENGTH = 65_536


def in_body_form(tool: Tool, arguments: JsonObject) -> tuple[JsonObject, tuple[str, ...]]:
    """The arguments in the form that the tool has, and the names of those that were moved."""
    body = tool.binding.body if isinstance(tool.binding, HttpBinding) else None
    if body is None:
        return arguments, ()
    known = tool.input_schema.get("properties", {})
    if body.argument is None:
        return _spread(body, arguments, known)
    members = _members(known.get(body.argument))
    moved = {name: value for name, value in arguments.items() if name not in known and name in members}
    whole = _object(arguments.get(body.argument, {}))
    if not moved or whole is None or not moved.keys().isdisjoint(whole):
        return arguments, ()
    kept = {name: value for name, value in arguments.items() if name not in moved}
    return {**kept, body.argument: {**whole, **moved}}, tuple(moved)


def body_advice(tool: Tool, unknown: str) -> str:
    """Where an unknown argument belongs that has to do with the body, or ""."""
    body = tool.binding.body if isinstance(tool.binding, HttpBinding) else None
    if body is None:
        return ""
    if body.argument is None:
        return f"give {_listed(body)} each by itself" if body.properties and unknown in _WRAPPERS else ""
    members = _members(tool.input_schema.get("properties", {}).get(body.argument))
    return f"put it into '{body.argument}'" if unknown in members else ""


def _spread(body: HttpBody, arguments: JsonObject, known: Mapping[str, object]) -> tuple[JsonObject, tuple[str, ...]]:
    """The members of a body that was given as one argument, each as the argument that it is."""
    named = {prop: argument for argument, prop in body.properties.items()} | {name: name for name in body.properties}
    for wrapper in _WRAPPERS:
        if wrapper in known or (whole := _object(arguments.get(wrapper))) is None or not whole.keys() <= named.keys():
            continue
        members = {named[name]: value for name, value in whole.items()}
        if len(members) == len(whole) and members.keys().isdisjoint(arguments):
            kept = {name: value for name, value in arguments.items() if name != wrapper}
            return {**kept, **members}, (wrapper,)
    return arguments, ()


def _members(schema: object) -> Mapping[str, object]:
    members = schema.get("properties") if isinstance(schema, Mapping) else None
    return members if isinstance(members, Mapping) else {}


def _object(value: Json) -> JsonObject | None:
    """An object, also one that is written as text; None for anything else."""
    if isinstance(value, str) and value.lstrip()[:1] == "{" and len(value) <= _MAX_TEXT_LENGTH:
        try:
            value = decode_json(value.encode())
        except (ValueError, msgspec.MsgspecError):
            return None
    return value if isinstance(value, Mapping) else None


def _listed(body: HttpBody) -> str:
    names = [f"'{name}'" for name in body.properties]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
