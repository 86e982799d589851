"""Answers of search_tools: for each hit, the information that an agent needs to choose and call it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from toolgen.gateway.catalog.search.tokenizer import terms
from toolgen.generator.emit.schema_budget import listed
from toolgen.generator.emit.tokens import tokens
from toolgen.model.excerpt import bounded
from toolgen.model.schema import Json
from toolgen.model.tool import Tool

__all__ = ["FoundTool", "entries", "is_poor", "succeeded_by"]

_MAX_SCHEMAS: Final = 3
_AS_LIKELY: Final = 0.97  # share of the best score from which a hit counts as equally likely
_MAX_SCHEMA_TOKENS: Final = 1_500  # of all schemas; the best hit keeps its schema if it fits alone
_MAX_SUMMARY_LENGTH: Final = 200
_MAX_OTHER_LENGTH: Final = 110  # characters of the summary of a hit without a schema
_POOR: Final = 0.34
_SENTENCE: Final = re.compile(r".+?[.!?](?=\s|\Z)", re.DOTALL)
_SUCCESSOR: Final = re.compile(
    r"\b[Uu]se\s+(?:the\s+)?[\[`'\"]?([^.\n\]`'\"]{2,80}?)[\]`'\"]?(?:\([^)\s]*\))?\s+instead\b"
)


class FoundTool(Struct, frozen=True):
    """Tool that was found, its score relative to the others, and the share of the query that it covers, from 0 to 1."""

    tool: Tool
    score: float = 1.0
    fit: float = 1.0


def entries(found: Sequence[FoundTool], catalog: Mapping[str, Tool]) -> list[Json]:
    """Return the entries of search hits. The best hit, and equally likely ones with small schemas, also have their input schema."""
    left = _MAX_SCHEMA_TOKENS
    shown: list[Json] = []
    best = found[0].score if found else 0.0
    for place, one in enumerate(found):
        schema = None
        if place == 0 or (place < _MAX_SCHEMAS and one.score >= best * _AS_LIKELY):
            schema = listed(one.tool).input_schema
            spent = tokens(msgspec.json.encode(schema).decode("utf-8", "replace"))
            schema, left = (schema, left - spent) if spent <= left else (None, left)
        entry = _entry(one, _MAX_SUMMARY_LENGTH if schema is not None else _MAX_OTHER_LENGTH)
        if (successor := succeeded_by(one.tool, catalog)) is not None:
            entry["use_instead"] = successor
        if schema is not None:
            entry["input_schema"] = schema
        shown.append(entry)
    return shown


def is_poor(found: Sequence[FoundTool]) -> bool:
    """Return True if no hit matches much of the query."""
    return all(one.fit < _POOR for one in found)


def _entry(one: FoundTool, room: int) -> dict[str, Any]:
    tool = one.tool
    text = " ".join(tool.description.split())
    first = _SENTENCE.match(text)
    summary = bounded(first[0] if first else text, room)
    # A title that adds nothing to the name and the summary only costs characters.
    title = {} if {*terms(tool.title)} <= {*terms(tool.name), *terms(summary)} else {"title": tool.title}
    return {"name": tool.name, **title, "summary": summary, "effect": str(tool.effect), "fit": round(one.fit, 2)}


def succeeded_by(tool: Tool, catalog: Mapping[str, Tool]) -> str | None:
    """Return the successor that the description of a deprecated tool names; None if there is none, or if the caller may not call it."""
    if "eprecated" not in tool.description or (said := _SUCCESSOR.search(tool.description)) is None:
        return None
    wanted = terms(said[1])
    if not wanted:
        return None
    prefix = f"{tool.source}__"
    others = (one for one in catalog.values() if one.source == tool.source and one.name != tool.name)
    same = [one.name for one in others if wanted in (terms(one.title), terms(one.name.removeprefix(prefix)))]
    return same[0] if len(same) == 1 else None
