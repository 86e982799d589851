"""Options of an answer: the argument `answer`, which belongs to the gateway and never reaches a stage, the audit log or an upstream system.

Tools are verified, pinned and approved without it. If their answers are lists, it is added when a client lists the tools, and it is removed
before the call is made. A tool with its own argument `answer` keeps it, and the options get another name (`option_name`). The former name
`_answer` is not listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, count
from typing import Any

import msgspec
from msgspec import Struct

from toolgen.model.excerpt import bounded
from toolgen.model.field_mask import MAX_FIELDS, Mask
from toolgen.model.schema import Json, JsonObject, Schema
from toolgen.model.shown_schema import shown
from toolgen.model.tool import Effect, Tool
from toolgen.model.wire_names import members
from toolgen.pipeline.responses.choice import MAX_TOP, Choice, choice_of
from toolgen.pipeline.responses.more import has_cursor
from toolgen.pipeline.responses.pagination import MAX_PAGES, Pagings

__all__ = [
    "ARGUMENT",
    "FORMER",
    "WHOLE",
    "AnswerOptions",
    "may_have_options",
    "may_offer",
    "offering",
    "option_name",
    "option_names",
    "taken",
]

ARGUMENT = "answer"
FORMER = "_answer"
"""Former name, which Pydantic does not accept as a field: accepted if the tool has no such argument."""
_ALTERNATIVE = "answer_options"
_MAX_CURSOR_LENGTH = 16_384
_KEYS = frozenset({"fields", "pages", "cursor", "where", "sort", "top"})
_FIELDS: Schema = {
    "type": "array",
    "items": {"type": "string"},
    "maxItems": MAX_FIELDS,
    "description": "Keep only these, as items.name",
}
_PAGES: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_PAGES, "description": "Follow as many pages"}
_WHERE: Schema = {
    "type": "array",
    "items": {"type": "string"},
    "description": "Keep items with all of these: size > 5, user.login = ada, name contains x",
}
_SORT: Schema = {"type": "string", "description": "Path in an item; -size: largest first"}
_TOP: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_TOP, "description": "Keep so many items"}
_CHOICE: Schema = {"where": _WHERE, "sort": _SORT, "top": _TOP}
_CURSOR: Schema = {"type": "string", "description": "Read on from meta.next_cursor, with the same arguments"}
_CONNECTION_DEPTH = 2  # the field of an operation, and the edges of its connection
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


class AnswerOptions(Struct, frozen=True, kw_only=True):
    """Options of an answer: `mask` selects fields, `choice` selects items, `pages` is the number of pages to follow (0: not set),
    `cursor` continues an answer."""

    mask: Mask | None = None
    choice: Choice | None = None
    pages: int = 0
    cursor: str = ""


WHOLE = AnswerOptions()


def option_name(tool: Tool) -> str:
    """Return the name of the argument with the options of this tool's answers: `answer`, or the first of `answer_options`,
    `answer_options_2` … that is free.

    The tool has to be complete: an argument that a policy sets is hidden, but its name is still used.
    """
    own = members(tool.input_schema, tool.input_schema)
    if ARGUMENT not in own:
        return ARGUMENT
    numbered = (f"{_ALTERNATIVE}_{number}" for number in count(2))
    return next(name for name in chain((_ALTERNATIVE,), numbered) if name not in own)


def option_names(tool: Tool) -> tuple[str, ...]:
    """Return the names of the arguments with which a call may set the options of its answer, the listed one first; none for a tool
    without options."""
    if not _takes(tool):
        return ()
    former = () if FORMER in members(tool.input_schema, tool.input_schema) else (FORMER,)
    return (option_name(tool), *former)


def _takes(tool: Tool) -> bool:
    """Return True for a tool whose answers may contain lists that the gateway can select from: HTTP, and reads of GraphQL, SQL and MCP
    servers."""
    return tool.sends_request or (tool.binding.answers_lists and tool.effect is Effect.READ)


def may_have_options(arguments: JsonObject) -> bool:
    """Return False for arguments without any name that options of an answer have."""
    for name in arguments:  # noqa: SIM110 - a generator would take longer than the test itself
        if name == FORMER or name.startswith(ARGUMENT):
            return True
    return False


def taken(tool: Tool, arguments: JsonObject, pagings: Pagings) -> tuple[AnswerOptions, JsonObject]:
    """Return the options of the answer, and the arguments without them. Raises `ValueError` with the error and the argument.

    If options are not listed, an argument with their name but another form stays, like any other unknown argument.
    """
    names = option_names(tool)
    found = [name for name in names if name in arguments]
    if not found:
        return WHOLE, arguments
    if found == [names[0]] and not _looks_like_options(arguments[names[0]]) and not may_offer(tool, pagings):
        return WHOLE, arguments
    rest = {name: value for name, value in arguments.items() if name not in found}
    if len(found) > 1 and arguments[found[0]] != arguments[found[1]]:
        raise ValueError(f"{found[0]}: {found[1]} is the same argument; give one of them")
    try:
        return _read(arguments[found[0]]), rest
    except ValueError as error:
        raise ValueError(f"{found[0]}: {error}") from None


def _looks_like_options(given: Json) -> bool:
    try:
        _read(given)
    except ValueError:
        return False
    return True


def _read(given: Json) -> AnswerOptions:
    if given is None:
        return WHOLE
    if isinstance(given, str):  # some models send an object as its text
        try:
            given = msgspec.json.decode(given)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            given = 0
    if not isinstance(given, Mapping):
        raise ValueError("it must be an object")  # noqa: TRY004 - an error of the caller's value
    said = {name: value for name, value in given.items() if value is not None}
    if unknown := said.keys() - _KEYS:
        raise ValueError(f"'{bounded(min(unknown), 40)}' is not one of fields, where, sort, top, pages and cursor")
    fields, pages, cursor = said.get("fields"), said.get("pages", 0), said.get("cursor", "")
    if fields is not None and not (isinstance(fields, list) and all(isinstance(one, str) for one in fields)):
        raise ValueError("fields must be an array of paths like items.name")
    if isinstance(pages, bool) or not isinstance(pages, int) or ("pages" in said and not 1 <= pages <= MAX_PAGES):
        raise ValueError(f"pages must be a whole number from 1 to {MAX_PAGES}")
    if not isinstance(cursor, str) or len(cursor) > _MAX_CURSOR_LENGTH or ("cursor" in said and not cursor):
        raise ValueError("cursor must be a value of meta.next_cursor")
    mask = Mask.of([str(one) for one in fields]) if fields else None
    return AnswerOptions(mask=mask, choice=choice_of(said), pages=pages, cursor=cursor)


def offering(tool: Tool, narrowed: Tool, pagings: Pagings) -> Tool:
    """Return a tool as an agent sees it: if its answers are lists, with their options, and with an output schema that a part of an answer
    fits.

    `narrowed` is the tool without the arguments that a policy sets. The digest stays that of the called tool.
    """
    narrowed = shown(narrowed)
    if not may_offer(tool, pagings):
        return narrowed
    properties = narrowed.input_schema.get("properties", {})
    paged = pagings.of(tool) is not None or has_cursor(tool)
    rows = tool.asks_database
    asked = {
        **({} if rows else {"fields": _FIELDS}),
        **_CHOICE,
        **({"pages": _PAGES} if paged else {}),
        **({"cursor": _CURSOR} if tool.sends_request else {}),
    }
    answer = {"type": "object", "description": "How much of the answer to read", "properties": asked}
    schema = {**narrowed.input_schema, "properties": {**properties, option_name(tool): answer}}
    output = None if narrowed.output_schema is None else _relaxed(narrowed.output_schema)
    return msgspec.structs.replace(narrowed, input_schema=schema, output_schema=output)


def may_offer(tool: Tool, pagings: Pagings) -> bool:
    """Return True for a tool that is listed with the options of its answers: one that only reads, and whose answers are lists or pages."""
    properties = tool.input_schema.get("properties", {})
    if not _takes(tool) or tool.effect is not Effect.READ or not isinstance(properties, Mapping):
        return False
    if tool.asks_database:
        return True
    if pagings.of(tool) is not None:
        return True
    depth = _CONNECTION_DEPTH if tool.selects_fields else 1
    return _lists(tool.output_schema, depth)


def _lists(schema: Schema | None, depth: int) -> bool:
    """Return True for an answer that is a list, or an object that contains one at most so many levels down."""
    return schema is not None and _holds_list(schema, schema, depth)


def _holds_list(node: Mapping[str, Any], root: Schema, depth: int) -> bool:
    at = _resolved(node, root)
    if _is_list(at):
        return True
    properties = at.get("properties")
    below = properties.values() if depth and isinstance(properties, Mapping) else ()
    return any(isinstance(one, Mapping) and _holds_list(one, root, depth - 1) for one in below)


def _is_list(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "array" or (isinstance(kind, list) and "array" in kind)


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Resolve one reference of a schema into the tool's own `$defs`."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/$defs/"):
        return schema
    found = root.get("$defs", {}).get(reference.removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~"))
    return found if isinstance(found, Mapping) else schema


def _relaxed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema of the same types and names without keywords that only a whole answer fulfils.

    `oneOf` becomes `anyOf`, because a part may fit several branches.
    """
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
