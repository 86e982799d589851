"""Prompts and resources of all sources of a build: each name and URI belongs to one of them."""

from __future__ import annotations

from collections.abc import Mapping

from toolgen.connectors.source import SourceReading
from toolgen.model.context import Prompt, Resource
from toolgen.model.manifest import Problem

__all__ = ["gathered_context"]


def gathered_context(readings: Mapping[str, SourceReading]) -> tuple[list[Prompt | Resource], list[Problem]]:
    """Return the prompts and resources, the first of each name or URI, and a problem for each of the others."""
    found: dict[tuple[type, str], Prompt | Resource] = {}
    problems: list[Problem] = []
    for source, reading in readings.items():
        for one in reading.context:
            key = one.name if isinstance(one, Prompt) else one.uri
            other = found.setdefault((type(one), key), one)
            if other is not one:
                kind = "prompt" if isinstance(one, Prompt) else "resource"
                message = (
                    f"the {kind} {key} already exists in {other.origin} of {other.source}; leave one of the two out"
                )
                problems.append(
                    Problem(level="error", source=source, origin=one.origin, code="duplicate_name", message=message)
                )
    return [*found.values()], problems
