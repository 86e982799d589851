"""The three tools that stand in the place of a long catalog, as an agent is shown them: nothing here finds or calls anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from toolgen.model.schema import Schema
from toolgen.model.tool import Effect, NoBinding, Tool, seal

__all__ = ["CALL", "DEFAULT_HITS", "DESCRIBE", "INPUTS", "LONGEST_QUERY", "MOST_HITS", "SEARCH", "stand_ins"]

# A source's tools have `__` in their names, so these are never taken.
SEARCH, DESCRIBE, CALL = "search_tools", "describe_tool", "call_tool"
LONGEST_QUERY = 1_000
MOST_HITS = 50
DEFAULT_HITS = 10
_MOST_SOURCES = 40

_EFFECT: Schema = {"enum": [str(effect) for effect in Effect]}
_TEXT: Schema = {"type": "string"}
_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 128, "description": "The tool's exact name."}


def _object(properties: Mapping[str, Schema], *required: str) -> Schema:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


_SEARCH_INPUT = _object(
    {
        "query": {
            "type": "string",
            "minLength": 1,
            "maxLength": LONGEST_QUERY,
            "description": "What the tool should do, in a few words: action and object, such as 'close an issue'.",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST_HITS,
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
                {"name": _TEXT, "title": _TEXT, "summary": _TEXT, "effect": _EFFECT},
                "name",
                "title",
                "summary",
                "effect",
            ),
        }
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
    "name",
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
INPUTS: Mapping[str, Schema] = MappingProxyType({SEARCH: _SEARCH_INPUT, DESCRIBE: _DESCRIBE_INPUT, CALL: _CALL_INPUT})
"""What each of them takes."""


def stand_ins(catalog: Sequence[Tool]) -> tuple[Tool, ...]:
    """The tools that stand for a catalog, in name order. The effect of `call_tool` is the worst of what it may call."""
    sources = sorted({tool.source for tool in catalog})
    listed = ", ".join(sources[:_MOST_SOURCES]) + (", …" if len(sources) > _MOST_SOURCES else "")
    worst = max((tool.effect for tool in catalog), key=list(Effect).index)
    return (
        _tool(
            CALL,
            "Call a tool",
            f"Calls one of the tools that {SEARCH} finds, by its exact name, with the arguments its input schema asks for. "
            f"When in doubt about the arguments, use {DESCRIBE} first. Answers with the call's envelope: status, data or error.",
            (_CALL_INPUT, _CALL_OUTPUT),
            worst,
        ),
        _tool(
            DESCRIBE,
            "Describe a tool",
            f"Shows a tool that {SEARCH} found: its whole description and the schema of its arguments. Use it before {CALL}.",
            (_DESCRIBE_INPUT, _DESCRIBE_OUTPUT),
            Effect.READ,
        ),
        _tool(
            SEARCH,
            "Search the tools",
            f"Finds tools by what they do, among {len(catalog)} tools of {listed}. Use it first, whenever something has to be looked up "
            f"or done there. Then {DESCRIBE} shows how one is called, and {CALL} calls it.",
            (_SEARCH_INPUT, _SEARCH_OUTPUT),
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
