"""Meta tools, which are listed in place of a long catalog: their names, their schemas and their descriptions for agents.

A listed schema has as few optional arguments as possible, because some clients make all of them required. Further arguments are in
`INPUTS`; former names are accepted too (`canonical`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from toolgen.gateway.calls.file_links import READ_FILE
from toolgen.generator.emit.schema_budget import DEEPEST
from toolgen.model.schema import Schema
from toolgen.model.tool import Effect, NoBinding, Tool, seal
from toolgen.model.waiting import GET_CALL_RESULT

__all__ = [
    "AT_ONCE",
    "CALLING",
    "DEFAULT_HITS",
    "DESCRIBE",
    "INPUTS",
    "MAX_HITS",
    "RUN",
    "RUN_READ",
    "SEARCH",
    "canonical",
    "meta_tools",
]

# Tools of a source have `__` in their names, so these never collide.
SEARCH, DESCRIBE, RUN, RUN_READ = "search_tools", "describe_tool", "run_tool", "run_read_tool"
CALLING = frozenset({RUN, RUN_READ})
_FORMER: Mapping[str, str] = MappingProxyType({"call_tool": RUN, "call_read_tool": RUN_READ})
MAX_HITS = 50
DEFAULT_HITS = 10
_MAX_SOURCES = 40

_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 128, "description": "The tool's exact name."}


def _object(properties: Mapping[str, Schema], *required: str) -> Schema:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def _without(schema: Schema, *names: str) -> Schema:
    """Return a schema in its listed form: without some of the accepted arguments."""
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
            "description": "Show only these parts of the arguments, by path, such as 'spec.template'; `more` names those left out.",
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
_CALL_INPUT = _object(
    {
        "name": _NAME,
        "arguments": {
            "type": "object",
            "description": "The tool's arguments, by its input schema (describe_tool shows it).",
        },
    },
    *("name", "arguments"),
)
INPUTS: Mapping[str, Schema] = MappingProxyType(
    {SEARCH: _SEARCH_INPUT, DESCRIBE: _DESCRIBE_INPUT, RUN: _CALL_INPUT, RUN_READ: _CALL_INPUT}
)
"""Accepted arguments of each meta tool, by name. Those that call other tools accept more forms (`inner_call.py`)."""
AT_ONCE = INPUTS.keys() - CALLING | {READ_FILE, GET_CALL_RESULT}
"""The gateway's own tools that are always answered at once."""


def canonical(name: str) -> str:
    """Return the name of a meta tool for a former name; any other name unchanged."""
    return _FORMER.get(name, name)


def meta_tools(catalog: Sequence[Tool]) -> tuple[Tool, ...]:
    """Return the tools that replace a catalog, in name order. The effect of `run_tool` is the strongest of the tools that it may call.

    `run_read_tool` calls read-only tools: a client that asks its user by the hints of tools need not ask for these. It is listed if it
    differs from `run_tool`.
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
            _without(_DESCRIBE_INPUT, "depth"),
            Effect.READ,
        ),
        *reads,
        _tool(
            RUN,
            "Run a tool",
            f"Runs one of the tools that {SEARCH} finds, by its exact name, with the arguments its input schema asks for. "
            f"When in doubt about the arguments, use {DESCRIBE} first. Answers as that tool does.{also}",
            _CALL_INPUT,
            worst,
        ),
        _tool(
            SEARCH,
            "Search the tools",
            f"Finds tools by what they do, among {len(catalog)} tools of {listed}. Use it first, whenever something has to be looked up "
            f"or done there. The best come with the schema of their arguments; {DESCRIBE} shows any other's. Then {RUN} runs it.",
            _without(_SEARCH_INPUT, "limit"),
            Effect.READ,
        ),
    )


def _tool(name: str, title: str, description: str, schema: Schema, effect: Effect) -> Tool:
    return seal(
        Tool(
            name=name,
            title=title,
            description=description,
            input_schema=schema,
            output_schema=None,
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
    _CALL_INPUT,
    Effect.READ,
)
