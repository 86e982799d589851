"""Meta tools, which are listed in place of a long catalog: their names, their schemas and what agents read of them.

A schema that is listed has as few optional arguments as there can be, as some clients make every one of them required. What else is taken
is in `INPUTS`; former names are taken too (`canonical`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from toolgen.emit.schema_budget import DEEPEST
from toolgen.model.schema import Schema
from toolgen.model.tool import Effect, NoBinding, Tool, seal

__all__ = [
    "CALLING",
    "DEFAULT_HITS",
    "DESCRIBE",
    "INPUTS",
    "MAX_HITS",
    "RESERVED",
    "RUN",
    "RUN_READ",
    "SEARCH",
    "canonical",
    "stand_ins",
]

# A source's tools have `__` in their names, so these are never taken.
SEARCH, DESCRIBE, RUN, RUN_READ = "search_tools", "describe_tool", "run_tool", "run_read_tool"
CALLING = frozenset({RUN, RUN_READ})
_FORMER: Mapping[str, str] = MappingProxyType({"call_tool": RUN, "call_read_tool": RUN_READ})
MAX_HITS = 50
DEFAULT_HITS = 10
_MAX_SOURCES = 40

_EFFECT: Schema = {"enum": [str(effect) for effect in Effect]}
_TEXT: Schema = {"type": "string"}
_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 128, "description": "The tool's exact name."}


def _object(properties: Mapping[str, Schema], *required: str) -> Schema:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def _without(schema: Schema, *names: str) -> Schema:
    """A schema as it is listed: without some arguments that are taken."""
    kept = {name: one for name, one in schema["properties"].items() if name not in names}
    return {**schema, "properties": kept}


_SEARCH_INPUT = _object(
    {
        "query": {
            "type": "string",
            "minLength": 1,
            "description": "What the tool should do, in a few words: action and object, such as 'close an issue'.",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_HITS,
            "default": DEFAULT_HITS,
            "description": "How many tools to show.",
        },
    },
    "query",
)
_SEARCH_OUTPUT = _object(
    {
        "tools": {
            "type": "array",
            "items": _object(
                {
                    "name": _TEXT,
                    "title": _TEXT,
                    "summary": _TEXT,
                    "effect": _EFFECT,
                    "input_schema": {"type": "object"},
                },
                "name",
                "title",
                "summary",
                "effect",
            ),
        },
        "note": _TEXT,
    },
    "tools",
)
_DESCRIBE_INPUT = _object(
    {
        "name": _NAME,
        "output_schema": {
            "type": "boolean",
            "default": False,
            "description": "Whether to add the schema of the tool's answers.",
        },
        "fields": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 300},
            "maxItems": 20,
            "description": "Show these parts of the arguments alone, by path, such as 'spec.template'; `more` names those left out.",
        },
        "depth": {
            "type": "integer",
            "minimum": 1,
            "maximum": DEEPEST,
            "description": "How many levels of fields to show.",
        },
    },
    "name",
)
_DESCRIBE_OUTPUT = _object(
    {
        "name": _TEXT,
        "title": _TEXT,
        "description": _TEXT,
        "effect": _EFFECT,
        "idempotent": {"type": "boolean"},
        "input_schema": {"type": "object"},
        "output_schema": {"type": "object"},
        "more": {"type": "array", "items": _TEXT},
    },
    *("name", "title", "description", "effect", "idempotent", "input_schema"),
)
_CALL_INPUT = _object(
    {
        "name": _NAME,
        "arguments": {
            "type": "object",
            "description": "The tool's arguments, as its input schema says (describe_tool shows it).",
        },
    },
    *("name", "arguments"),
)
_CALL_OUTPUT = _object(
    {
        "status": {"enum": ["ok", "error", "refused", "pending", "cancelled"]},
        "tool": _TEXT,
        "call_id": _TEXT,
        "data": {},
        "error": {"type": "object"},
        "meta": {"type": "object"},
    },
    *("status", "tool", "call_id", "meta"),
)
INPUTS: Mapping[str, Schema] = MappingProxyType(
    {SEARCH: _SEARCH_INPUT, DESCRIBE: _DESCRIBE_INPUT, RUN: _CALL_INPUT, RUN_READ: _CALL_INPUT}
)
"""What each of them takes, by name. Those that call others take more forms (`inner_call.py`)."""
RESERVED = frozenset({*INPUTS, *_FORMER})
"""Names that no other tool may have."""


def canonical(name: str) -> str:
    """The name of a meta tool for a former one; any other name as it is."""
    return _FORMER.get(name, name)


def stand_ins(catalog: Sequence[Tool]) -> tuple[Tool, ...]:
    """The tools that stand for a catalog, in name order. The effect of `run_tool` is the worst of what it may call.

    `run_read_tool` calls those that only read: a client that asks its user by the hints of tools need not ask for these. It is listed
    where it differs from `run_tool`.
    """
    sources = sorted({tool.source for tool in catalog})
    listed = ", ".join(sources[:_MAX_SOURCES]) + (", …" if len(sources) > _MAX_SOURCES else "")
    worst = max((tool.effect for tool in catalog), key=list(Effect).index)
    reads = [] if worst is Effect.READ or all(tool.effect is not Effect.READ for tool in catalog) else [_READING]
    also = f" {RUN_READ} does the same for tools that only read." if reads else ""
    return (
        _tool(
            DESCRIBE,
            "Describe a tool",
            f"Shows a tool that {SEARCH} found: its whole description and the schema of its arguments. "
            f"Use it before {RUN}, and for parts of arguments that are listed as an object without fields.",
            (_without(_DESCRIBE_INPUT, "depth"), _DESCRIBE_OUTPUT),
            Effect.READ,
        ),
        *reads,
        _tool(
            RUN,
            "Run a tool",
            f"Runs one of the tools that {SEARCH} finds, by its exact name, with the arguments its input schema asks for. "
            f"When in doubt about the arguments, use {DESCRIBE} first. Answers with the call's envelope: status, data or error.{also}",
            (_CALL_INPUT, _CALL_OUTPUT),
            worst,
        ),
        _tool(
            SEARCH,
            "Search the tools",
            f"Finds tools by what they do, among {len(catalog)} tools of {listed}. Use it first, whenever something has to be looked up "
            f"or done there. The best come with the schema of their arguments; {DESCRIBE} shows any other's. Then {RUN} runs it.",
            (_without(_SEARCH_INPUT, "limit"), _SEARCH_OUTPUT),
            Effect.READ,
        ),
    )


def _tool(name: str, title: str, description: str, schemas: tuple[Schema, Schema], effect: Effect) -> Tool:
    return seal(
        Tool(
            name=name,
            title=title,
            description=description,
            input_schema=schemas[0],
            output_schema=schemas[1],
            effect=effect,
            idempotent=effect is Effect.READ,
            source="",
            origin="",
            binding=NoBinding(),
        )
    )


_READING = _tool(
    RUN_READ,
    "Run a tool that reads",
    f"Runs one of the tools that {SEARCH} finds and whose effect is read, by its exact name, as {RUN} does. It changes nothing; a tool "
    f"with another effect is refused, and {RUN} runs it.",
    (_CALL_INPUT, _CALL_OUTPUT),
    Effect.READ,
)
