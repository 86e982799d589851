"""Results of a proof, for one argument of one call and for a whole tool, with the smallest arguments that still fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from toolgen.model.tool import Tool

__all__ = ["FailedTool", "NotApplicable", "ProvenTool", "Prover", "ToolReport", "Unproven", "Verdict", "shrink"]


class ProvenTool(Struct, frozen=True, kw_only=True):
    """Verdict that every argument was read back as it was given. `reader` says why an argument was judged by our own reader alone."""

    examples: int
    openapi_core: tuple[str, ...] = ()  # arguments that openapi-core read back as well
    reader: Mapping[str, str]  # argument -> why openapi-core could not judge it


class FailedTool(Struct, frozen=True, kw_only=True):
    """Verdict with the smallest arguments found that fail, the reason, the request that was sent, and the place in the description.

    `pointer` is a JSON pointer, or a reference that ends in one; empty if the whole operation is meant.
    """

    arguments: Mapping[str, Any]
    reason: str
    sent: str
    pointer: str = ""


class Unproven(Struct, frozen=True, kw_only=True):
    """Verdict that no fault was found, but something could not be judged. `reasons` are sentences."""

    reasons: tuple[str, ...]


class NotApplicable(Struct, frozen=True, kw_only=True):
    """Verdict on a tool without a description to prove it against."""

    reason: str


Verdict: TypeAlias = ProvenTool | FailedTool | Unproven | NotApplicable
Prover: TypeAlias = Callable[[Tool], Verdict]
"""Function that proves a tool."""


class ToolReport(Struct, frozen=True, kw_only=True):
    """Tool name and origin, with the verdict of its proof."""

    tool: str
    origin: str
    verdict: Verdict

    def to_dict(self) -> dict[str, object]:
        """The JSON form: `status` is proven, failed, unproven or not_applicable."""
        head: dict[str, object] = {"tool": self.tool, "origin": self.origin}
        match self.verdict:
            case ProvenTool(examples=examples, openapi_core=core, reader=reader):
                return {**head, "status": "proven", "examples": examples, "openapi_core": core, "reader": dict(reader)}
            case FailedTool(arguments=arguments, reason=reason, sent=sent, pointer=pointer):
                where = {"pointer": pointer} if pointer else {}
                return {
                    **head,
                    "status": "failed",
                    "reason": reason,
                    **where,
                    "arguments": dict(arguments),
                    "sent": sent,
                }
            case Unproven(reasons=reasons):
                return {**head, "status": "unproven", "reasons": reasons}
            case NotApplicable(reason=reason):
                return {**head, "status": "not_applicable", "reasons": (reason,)}


_MAX_STEPS = 400


def shrink(arguments: Mapping[str, Any], fails: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
    """Return the smallest arguments found for which `fails` holds, never larger than those given. `fails` also checks their validity."""
    smallest, steps = dict(arguments), 0
    progress = True
    while progress and steps < _MAX_STEPS:
        progress = False
        for candidate in _smaller(smallest):
            steps += 1
            if steps > _MAX_STEPS:
                break
            if _size(candidate) < _size(smallest) and fails(candidate):
                smallest, progress = candidate, True
                break
    return smallest


def _size(value: Any) -> tuple[int, str]:
    """By length, then so that `0` is smaller than `7` and `a` smaller than `é`."""
    text = json.dumps(value, sort_keys=True)
    return len(text), text


def _smaller(value: Any) -> Iterator[Any]:
    """Values one step simpler than this one, the boldest steps first."""
    match value:
        case dict():
            for name in value:
                yield {key: item for key, item in value.items() if key != name}
            for name, item in value.items():
                yield from ({**value, name: smaller} for smaller in _smaller(item))
        case list():
            if len(value) > 2:
                yield value[: len(value) // 2]
                yield value[len(value) // 2 :]
            for index in range(len(value)):
                yield value[:index] + value[index + 1 :]
            for index, item in enumerate(value):
                yield from ([*value[:index], smaller, *value[index + 1 :]] for smaller in _smaller(item))
        case str() if value:
            yield ""
            yield "a"
            if len(value) > 1:
                yield value[: len(value) // 2]
                yield value[len(value) // 2 :]
                if len(value) < 40:
                    yield from (value[:index] + value[index + 1 :] for index in range(len(value)))
        case bool() | None:
            return
        case int() | float():
            yield from (0, 1, 2)
            yield int(value) // 2 if abs(value) < 2**63 else 0
        case _:
            return
