"""Form of a request body among the arguments of a tool: one argument, or its properties as separate arguments.

Models confuse the two forms. Unambiguous arguments are converted to the tool's form; the rest is unknown, and `body_advice` explains its
place.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import msgspec

from toolgen.core.json_codec import decode_json
from toolgen.model.schema import Json, JsonObject, Schema
from toolgen.model.tool import HttpBody, Tool

__all__ = ["body_advice", "in_body_form"]

_WRAPPERS = ("body", "requestBody", "request_body")
_MAX_TEXT_LENGTH = 65_536
_MAX_LEVELS = 8  # levels of references and combinators
_MAX_PARTS = 100
_KINDS = {"array": ", a list", "object": ", an object", "string": ", a text"}


def in_body_form(tool: Tool, arguments: JsonObject) -> tuple[JsonObject, tuple[str, ...]]:
    """Return the arguments in the tool's form, and the names of the moved ones."""
    http = tool.http
    body = None if http is None else http.body
    if body is None:
        return arguments, ()
    known = tool.input_schema.get("properties", {})
    if body.argument is None:
        return _spread(body, arguments, known)
    if known.keys() >= arguments.keys():
        return arguments, ()
    members = _members(tool.input_schema, body.argument)
    moved = {name: value for name, value in arguments.items() if name not in known and name in members}
    whole = _object(arguments.get(body.argument, {}))
    if not moved or whole is None or not moved.keys().isdisjoint(whole):
        return arguments, ()
    kept = {name: value for name, value in arguments.items() if name not in moved}
    return {**kept, body.argument: {**whole, **moved}}, tuple(moved)


def body_advice(tool: Tool, unknown: str) -> str:
    """Return advice on the place of an unknown argument that may belong to the body, or ""."""
    http = tool.http
    body = None if http is None else http.body
    if body is None:
        return ""
    if body.argument is None:
        return f"give {_listed(body)} as separate arguments" if body.properties and unknown in _WRAPPERS else ""
    if unknown in _members(tool.input_schema, body.argument):
        return f"put it into '{body.argument}'"
    declared = tool.input_schema.get("properties", {}).get(body.argument)
    kind = _KINDS.get(str(declared.get("type")), "") if isinstance(declared, Mapping) else ""
    return f"the request body is the argument '{body.argument}'{kind}"


def _spread(body: HttpBody, arguments: JsonObject, known: Mapping[str, object]) -> tuple[JsonObject, tuple[str, ...]]:
    """Return the members of a body that was given as one argument, each as a separate argument."""
    named = {prop: argument for argument, prop in body.properties.items()} | {name: name for name in body.properties}
    for wrapper in _WRAPPERS:
        if wrapper in known or (whole := _object(arguments.get(wrapper))) is None or not whole.keys() <= named.keys():
            continue
        members = {named[name]: value for name, value in whole.items()}
        if len(members) == len(whole) and members.keys().isdisjoint(arguments):
            kept = {name: value for name, value in arguments.items() if name != wrapper}
            return {**kept, **members}, (wrapper,)
    return arguments, ()


def _members(root: Schema, argument: str) -> Mapping[str, object]:
    """Return the members that the schema of an argument names, in any branch of its choices."""
    found: dict[str, object] = {}
    level: list[object] = [root.get("properties", {}).get(argument)]
    for _ in range(_MAX_LEVELS):
        below: list[object] = []
        for schema in islice(level, _MAX_PARTS):
            if not isinstance(schema, Mapping):
                continue
            found.update(schema.get("properties") or {})
            for keyword in ("allOf", "anyOf", "oneOf"):
                below += schema.get(keyword) or ()
            if isinstance(ref := schema.get("$ref"), str):
                below.append(root.get("$defs", {}).get(ref.removeprefix("#/$defs/")))
        level = below
    return found


def _object(value: Json) -> JsonObject | None:
    """Return an object, also from its JSON text; None for anything else."""
    if isinstance(value, str) and value.lstrip()[:1] == "{" and len(value) <= _MAX_TEXT_LENGTH:
        try:
            value = decode_json(value.encode())
        except (ValueError, msgspec.MsgspecError):
            return None
    return value if isinstance(value, Mapping) else None


def _listed(body: HttpBody) -> str:
    names = [f"'{name}'" for name in body.properties]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
