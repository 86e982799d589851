"""How much of an answer an agent wants: the argument `_answer`, which belongs to the gateway and reaches no stage, record or upstream.

Tools are proven, pinned and approved without it: it is shown to agents where lists are answered, and taken out before there is a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from toolgen.model.field_mask import MAX_FIELDS, Mask
from toolgen.model.schema import Json, JsonObject, Schema
from toolgen.model.tool import Effect, HttpBinding, Tool
from toolgen.responses.pagination import MAX_PAGES, Pagings

__all__ = ["ARGUMENT", "WHOLE", "Reading", "offering", "taken"]

ARGUMENT = "_answer"
_MAX_CURSOR_LENGTH = 16_384
_KEYS = frozenset({"fields", "pages", "cursor"})
_FIELDS: Schema = {
    "type": "array",
    "items": {"type": "string"},
    "maxItems": MAX_FIELDS,
    "description": "Keep only these, as items.name",
}
_PAGES: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_PAGES, "description": "Follow as many pages"}
_CURSOR: Schema = {"type": "string", "description": "Read on from meta.next_cursor, with the same arguments"}
_DROPPED = frozenset(
    {
        "required",
        "minItems",
        "minProperties",
        "minLength",
        "pattern",
        "format",
        "dependentRequired",
        "dependentSchemas",
        "if",
        "then",
        "else",
    }
)
_NESTED_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_VALUES = frozenset({"const", "enum", "default", "examples", "example"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """`mask` keeps some fields, `pages` follows as many pages (0: none was asked for), `cursor` reads on."""

    mask: Mask | None = None
    pages: int = 0
    cursor: str = ""


WHOLE = Reading()


def taken(tool: Tool, arguments: JsonObject) -> tuple[Reading, JsonObject]:
    """What `_answer` asks for, and the arguments without it. Raises `ValueError`, saying what is wrong with it.

    A tool that has an argument of that name keeps it, and one that is not HTTP has its own ways to read less.
    """
    properties = tool.input_schema.get("properties")
    own = isinstance(properties, Mapping) and ARGUMENT in properties
    if own or not isinstance(tool.binding, HttpBinding):
        return WHOLE, arguments
    rest = {name: value for name, value in arguments.items() if name != ARGUMENT}
    return _read(arguments[ARGUMENT]), rest


def _read(given: Json) -> Reading:
    if given is None:
        return WHOLE
    if isinstance(given, str):  # some models send an object as its text
        try:
            given = msgspec.json.decode(given)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            given = 0
    if not isinstance(given, Mapping):
        raise ValueError("it must be an object")  # noqa: TRY004 - what was sent, not what we passed
    said = {name: value for name, value in given.items() if value is not None}
    if unknown := said.keys() - _KEYS:
        raise ValueError(f"'{min(unknown)[:40]}' is none of fields, pages and cursor")
    fields, pages, cursor = said.get("fields"), said.get("pages", 0), said.get("cursor", "")
    if fields is not None and not (isinstance(fields, list) and all(isinstance(one, str) for one in fields)):
        raise ValueError("fields must be an array of paths like items.name")
    if isinstance(pages, bool) or not isinstance(pages, int) or ("pages" in said and not 1 <= pages <= MAX_PAGES):
        raise ValueError(f"pages must be a whole number from 1 to {MAX_PAGES}")
    if not isinstance(cursor, str) or len(cursor) > _MAX_CURSOR_LENGTH or ("cursor" in said and not cursor):
        raise ValueError("cursor must be what meta.next_cursor said")
    return Reading(mask=Mask.of([str(one) for one in fields]) if fields else None, pages=pages, cursor=cursor)


def offering(tool: Tool, pagings: Pagings) -> Tool:
    """A tool as an agent is shown it: where its answers are lists, with `_answer`, and with an output schema that a part of one fits.

    The digest stays that of the tool itself, which is what is called.
    """
    properties = tool.input_schema.get("properties", {})
    if (
        not isinstance(tool.binding, HttpBinding)
        or tool.effect is not Effect.READ
        or not isinstance(properties, Mapping)
        or ARGUMENT in properties
    ):
        return tool
    paged = pagings.of(tool) is not None
    if not paged and not _lists(tool.output_schema):
        return tool
    asked = {"fields": _FIELDS, **({"pages": _PAGES} if paged else {}), "cursor": _CURSOR}
    answer = {
        "type": "object",
        "description": "How much of the answer to read",
        "properties": asked,
        "additionalProperties": False,
    }
    schema = {**tool.input_schema, "properties": {**properties, ARGUMENT: answer}}
    output = None if tool.output_schema is None else _relaxed(tool.output_schema)
    return msgspec.structs.replace(tool, input_schema=schema, output_schema=output)


def _lists(schema: Schema | None) -> bool:
    """Whether an answer is a list, or an object that holds one."""
    if schema is None:
        return False
    at = _resolved(schema, schema)
    properties = at.get("properties")
    below = properties.values() if isinstance(properties, Mapping) else ()
    return _is_list(at) or any(isinstance(one, Mapping) and _is_list(_resolved(one, schema)) for one in below)


def _is_list(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "array" or (isinstance(kind, list) and "array" in kind)


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema behind one reference into the tool's own `$defs`."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/$defs/"):
        return schema
    found = root.get("$defs", {}).get(reference.removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~"))
    return found if isinstance(found, Mapping) else schema


def _relaxed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same types and names, but nothing that only a whole answer has. `oneOf` becomes `anyOf`: a part may fit several."""
    built: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _DROPPED or key == "not":
            continue
        if key in _NESTED_MAPS and isinstance(value, Mapping):
            built[key] = {name: _relaxed(one) if isinstance(one, Mapping) else one for name, one in value.items()}
        elif key not in _VALUES and isinstance(value, Mapping):
            built[key] = _relaxed(value)
        elif key not in _VALUES and isinstance(value, list):
            name = "anyOf" if key == "oneOf" and "anyOf" not in schema else key
            built[name] = [_relaxed(one) if isinstance(one, Mapping) else one for one in value]
        else:
            built[key] = value
    return built
