"""Schemas within the size that a model can read: in listings, and in the answers of describe_tool.

A shortened schema accepts every value of the complete one, and more. Calls are validated against the complete schema.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any

import msgspec

from toolgen.generator.emit.dialects.listed import (
    MAX_LISTED_TOKENS,
    PARTS,
    ListedSchema,
    Nulls,
    listed_schema,
    narrowed,
)
from toolgen.generator.emit.dialects.listed_definitions import ListedDefinitions
from toolgen.generator.emit.dialects.long_enums import in_part
from toolgen.generator.emit.dialects.short_words import with_short_descriptions
from toolgen.generator.emit.tokens import tokens
from toolgen.model.excerpt import bounded
from toolgen.model.schema import Schema
from toolgen.model.shared_definitions import Closure
from toolgen.model.short_text import MAX_DESCRIPTION_LENGTH, cut, shortened
from toolgen.model.shown_schema import shown
from toolgen.model.tool import Effect, Tool

__all__ = [
    "DEEPEST",
    "MAX_DESCRIBED_TOKENS",
    "MAX_LISTED_TOKENS",
    "UnknownFieldError",
    "as_listed",
    "cost",
    "described",
    "exact",
    "is_cut",
    "listed",
    "shares_definitions",
]

MAX_DESCRIBED_TOKENS = 4_000
DEEPEST = 20
_BYTES = 4  # minimum bytes of a listed schema per token
_MAX_ASKED_TOKENS = 32_000
_MAX_PATHS = 30
_MAX_WORDS = 60
_MAX_TOLD = 1_024  # characters of a description that OpenAI accepts
_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_LISTS = frozenset({"allOf", "anyOf", "prefixItems"})
# Keywords that would refuse values of the complete schema if one of their parts is left open.
_CONTRARY = frozenset(
    {
        *("not", "if", "then", "else", "oneOf", "contains", "minContains", "maxContains"),
        *("unevaluatedProperties", "unevaluatedItems", "$defs"),
    }
)
_DEEP = ("properties", "patternProperties", "items", "prefixItems", "allOf", "anyOf", "oneOf", "additionalProperties")


class UnknownFieldError(Exception):
    """Path without a field in a schema."""


class _OverBudgetError(Exception):
    pass


def cost(tool: Tool) -> int:
    """Return the number of tokens that a tool's name, description and schema cost a model."""
    tool = listed(tool)
    words = {"name": tool.name, "description": tool.description}
    if isinstance(schema := tool.input_schema, ListedSchema) and shares_definitions(tool):
        return _cost(words) + schema.size // _BYTES  # there may be tens of thousands of them
    return _cost({**words, "input_schema": tool.input_schema})


def _cost(value: Any) -> int:
    return tokens(msgspec.json.encode(value, enc_hook=dict).decode("utf-8", "replace"))


def listed(tool: Tool, definitions: ListedDefinitions | None = None) -> Tool:
    """Return the tool as it is listed: with an input schema in its listed form, within `MAX_LISTED_TOKENS`; unchanged if its source says
    so.

    `definitions` are those of tools of the same source that were listed before.
    """
    if isinstance(tool.input_schema, ListedSchema):
        return tool
    if tool.exact_schema and not shares_definitions(tool):
        schema, size = tool.input_schema, len(msgspec.json.encode(tool.input_schema))
        return msgspec.structs.replace(
            tool, input_schema=ListedSchema(schema, schema, cut=False, large=False, size=size)
        )
    tool = _with_short_description(shown(tool))
    # A text has at most as many tokens as bytes.
    said = len(tool.name) + len(tool.description.encode("utf-8", "replace"))
    room = MAX_LISTED_TOKENS - (said if said < MAX_LISTED_TOKENS // 8 else _cost(tool.name + tool.description))
    # In a request with an effect, null clears a field.
    told = tool.effect is not Effect.READ and tool.sends_request
    short = tool.sends_request  # others have no texts above the listed length
    nulls: Nulls = "told" if told else "omitted"
    schema = listed_schema(tool.input_schema, nulls, room=room, short=short, definitions=definitions)
    return msgspec.structs.replace(tool, input_schema=schema)


def _with_short_description(tool: Tool) -> Tool:
    """Return the tool with its own description shortened if it is longer than OpenAI accepts."""
    if len(tool.description) <= _MAX_TOLD:
        return tool
    short = cut(shortened(tool.description, MAX_DESCRIPTION_LENGTH), _MAX_TOLD)
    return msgspec.structs.replace(tool, description=short)


def shares_definitions(tool: Tool) -> bool:
    """Return True if a tool's arguments lead to thousands of definitions, which it shares with others."""
    schema = tool.input_schema
    return isinstance((schema.exact if isinstance(schema, ListedSchema) else schema).get("$defs"), Closure)


def is_cut(tool: Tool) -> bool:
    """Return True if a tool is listed with parts left open, which describe_tool shows."""
    schema = listed(tool).input_schema
    return isinstance(schema, ListedSchema) and schema.cut


def exact(tool: Tool) -> Schema:
    """Return the schema that a tool's listed form was made from, if that form is complete."""
    schema = listed(tool).input_schema
    return schema.exact if isinstance(schema, ListedSchema) and not schema.large else schema


def as_listed(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """Return tools as a gateway lists them."""
    definitions: dict[str, ListedDefinitions] = {}
    return tuple(listed(tool, definitions.setdefault(tool.source, ListedDefinitions())) for tool in tools)


def described(tool: Tool, asked: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Return the description of a tool within `MAX_DESCRIBED_TOKENS`, by the arguments of describe_tool.

    `fields` are paths such as `spec.template`; a `depth` may cost more; `output_schema` adds that. `more` in the result are paths of parts
    that are left open. Raises `UnknownFieldError`.
    """
    fields, depth = asked.get("fields") or (), asked.get("depth")
    shown: dict[str, Any] = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "effect": str(tool.effect),
        "idempotent": tool.idempotent,
    }
    wanted = {"input_schema": _parts(tool.input_schema, fields) if fields else _brief(tool)}
    if asked.get("output_schema") is True and tool.output_schema is not None:
        wanted["output_schema"] = tool.output_schema
    room = (MAX_DESCRIBED_TOKENS if depth is None else _MAX_ASKED_TOKENS) - _cost(shown)
    more: list[str] = []
    for index, (key, schema) in enumerate(wanted.items()):
        share = room * 9 // 10 // (len(wanted) - index)
        shown[key], left = _within(schema, share, DEEPEST if depth is None else depth)
        room -= _cost(shown[key])
        more += left if key == "input_schema" else []
    if more:
        shown["more"] = [path for path in more if len(path) <= 100][:_MAX_PATHS]
        while shown["more"] and _cost(shown["more"]) > max(room, 0):
            shown["more"] = shown["more"][: len(shown["more"]) // 2]
    return shown


def _brief(tool: Tool) -> Schema:
    """Return the schema of a tool's arguments with long enums in words; `fields` show all their values."""
    return tool.input_schema if shares_definitions(tool) else in_part(tool.input_schema)


def _parts(schema: Schema, fields: Sequence[str]) -> Schema:
    """Return a schema with only the fields at these paths, each under its path."""
    properties = {path: _at(schema, path) for path in fields}
    return {"type": "object", "properties": properties, "$defs": schema.get("$defs", {})}


def _at(schema: Schema, path: str) -> Any:
    node: Any = schema
    for name in path.split("."):
        found = next((one for one in _fields(node, schema, name, 0)), None)
        if found is None:
            raise UnknownFieldError(path)
        node = found
    return node


def _fields(node: Any, root: Schema, name: str, depth: int) -> Iterator[Any]:
    """Return the schemas of a field, in any part of a schema; for a list those of its items."""
    node = _resolved(node, root)
    if not isinstance(node, Mapping) or depth > DEEPEST:
        return
    properties = node.get("properties")
    if isinstance(properties, Mapping) and name in properties:
        yield properties[name]
    inner = [
        *(node.get(key) for key in ("items", "additionalProperties")),
        *(one for key in ("allOf", "anyOf", "oneOf") for one in node.get(key) or ()),
    ]
    if name in {"*", "[]"}:
        yield from (one for one in inner[:2] if isinstance(one, Mapping))
    for one in inner:
        yield from _fields(one, root, name, depth + 1)


def _resolved(node: Any, root: Schema) -> Any:
    for _ in range(DEEPEST):
        if not isinstance(node, Mapping) or not isinstance(ref := node.get("$ref"), str):
            return node
        node = root.get("$defs", {}).get(ref.rpartition("/")[2], {})
    return {}


def _within(schema: Schema, room: int, deepest: int = DEEPEST) -> tuple[Schema, list[str]]:
    """Return the schema as deep as it fits, and the paths of open parts; descriptions are shortened if they do not fit."""
    shared = isinstance(schema.get("$defs"), Closure)
    if deepest >= DEEPEST and not shared and _cost(schema) <= room:
        return schema, []
    schema = with_short_descriptions(schema)
    low, high = 0, deepest
    best = _Cut(schema, 0)
    while low < high:
        middle = (
            low + 1 if shared else (low + high + 1) // 2
        )  # definitions shared by thousands of tools are never read completely
        try:
            cut = _Cut(schema, middle, room)
        except _OverBudgetError:
            high = middle - 1
            continue
        if _cost(cut.schema) <= room:
            low, best = middle, cut
        else:
            high = middle - 1
    return narrowed(best.schema, room), best.open


class _Cut:
    """Schema down to a number of levels of fields. A definition occurs once, as deep as the nearest reference to it allows."""

    def __init__(self, root: Schema, limit: int, room: int | None = None) -> None:
        """Cut the schema. Raises `_OverBudgetError` if it has more parts than `room`."""
        self._root = root
        self._left = room
        self._limit = limit
        self.open: list[str] = []
        self._order = count()
        self._waiting: list[tuple[int, int, str, str]] = []
        built = self._node(root, 0, "")
        definitions: dict[str, Any] = {}
        while self._waiting:
            depth, _, name, path = heapq.heappop(self._waiting)
            if name not in definitions:
                definitions[name] = self._node(root.get("$defs", {}).get(name, {}), depth, path)
        self.schema: Schema = {**built, "$defs": definitions} if definitions else built

    def _node(self, node: Any, depth: int, path: str) -> Any:
        if not isinstance(node, Mapping):
            return node
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise _OverBudgetError
        if depth > self._limit and self._deep(node):
            self.open.append(path)
            return self._left_open(node)
        built: dict[str, Any] = {}
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                heapq.heappush(self._waiting, (depth, next(self._order), value.rpartition("/")[2], path))
                built[key] = value
            elif key == "oneOf" and isinstance(value, Sequence) and "anyOf" not in node:
                built["anyOf"] = [self._node(one, depth, path) for one in value]
            elif key in _CONTRARY:
                continue
            elif key in _MAPS and isinstance(value, Mapping):
                built[key] = {
                    name: self._node(one, depth + 1, f"{path}.{name}" if path else name) for name, one in value.items()
                }
            elif key in _LISTS and isinstance(value, Sequence):
                built[key] = [self._node(one, depth, path) for one in value]
            elif key == "items":
                built[key] = self._node(value, depth, path)
            elif key == "additionalProperties":
                built[key] = self._node(value, depth + 1, f"{path}.*" if path else "*")
            else:
                built[key] = value
        return built

    def _deep(self, node: Any) -> bool:
        target = _resolved(node, self._root)
        return isinstance(target, Mapping) and any(isinstance(target.get(key), (Mapping, list, tuple)) for key in _DEEP)

    def _left_open(self, node: Mapping[str, Any]) -> dict[str, Any]:
        target = _resolved(node, self._root)
        words = node.get("description", target.get("description"))
        said = f"{bounded(words, _MAX_WORDS)} " if isinstance(words, str) and words else ""
        kind = {"type": target["type"]} if "type" in target else {}
        return {**kind, "description": f"{said}{PARTS}"}
