"""Draft of a workflow as it was read, before its tools are linked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolgen.core.errors import DescriptionError
from toolgen.core.units import parse_duration
from toolgen.model.conditions import parse_condition
from toolgen.model.expressions import ExpressionError, PathQuery, parse, parse_reference, references
from toolgen.model.schema import Schema
from toolgen.model.workflow import Criterion, Step

__all__ = [
    "MAX_ATTEMPTS",
    "MAX_AT_ONCE",
    "MAX_EACH",
    "MAX_STEPS",
    "MAX_WAIT_S",
    "DraftUse",
    "GivenParameter",
    "WorkflowDraft",
    "checked",
    "checked_criterion",
    "fault",
    "timeout_of",
]

MAX_STEPS = 100
MAX_AT_ONCE = 50
MAX_EACH = 500
MAX_ATTEMPTS = 10
MAX_WAIT_S = 60.0
MIN_TIMEOUT_S, MAX_TIMEOUT_S = 0.1, 86_400.0


class GivenParameter(Struct, frozen=True, kw_only=True):
    """Parameter value of an Arazzo step, by name and place in a request. A `common` value applies to all steps, and need not fit each."""

    name: str
    place: str  # path | query | header | cookie, or "" for an input of a workflow
    value: Any
    where: str
    common: bool = False


class DraftUse(Struct, frozen=True, kw_only=True):
    """Tool of a step, by one of: its name (`tool`); an operation of a source (any source, if none is given), by its `operationId` or as
    `#/paths/…`; a workflow of the same file. `places` are the lines of arguments.
    """

    where: str
    tool: str = ""
    source: str = ""
    operation: str = ""
    origin: str = ""
    workflow: str = ""
    arguments: Mapping[str, Any] = {}
    places: Mapping[str, str] = {}
    given: tuple[GivenParameter, ...] = ()
    body: Any = None
    body_where: str = ""


class WorkflowDraft(Struct, frozen=True, kw_only=True):
    """Workflow as it was read. `uses` and `undos` are the calls of its steps, by step id.

    `where` is the line of each step, of the workflow under "", and of its outputs.
    """

    id: str
    title: str
    description: str
    inputs: Schema
    stages: tuple[tuple[Step, ...], ...]
    outputs: Mapping[str, Any]
    uses: Mapping[str, DraftUse]
    undos: Mapping[str, DraftUse]
    where: Mapping[str, str]
    timeout_s: float = 0.0


def timeout_of(text: str, where: str) -> float:
    """Return the time limit of a workflow in seconds, 0 if it has none. Raises `DescriptionError`."""
    if not text:
        return 0.0
    seconds = parse_duration(text)
    if seconds is None or not MIN_TIMEOUT_S <= seconds <= MAX_TIMEOUT_S:
        raise fault("timeout: takes a time from 100ms to 24h, like 30s", where)
    return seconds


def fault(message: str, where: str, suggestion: str = "") -> DescriptionError:
    """Return the error of a workflow that gets no tool."""
    return DescriptionError(message, where=where, suggestion=suggestion)


def checked(value: Any, where: str) -> Any:
    """Return a value if all its expressions are valid. Raises `DescriptionError`."""
    try:
        found = tuple(references(parse(value)))
    except ExpressionError as error:
        raise fault(str(error), where) from error
    for one in found:
        if isinstance(one, PathQuery):
            _check_path(one.text, where)
    return value


def checked_criterion(criterion: Criterion, where: str) -> Criterion:
    """Return a criterion if it is valid. Raises `DescriptionError`."""
    try:
        if criterion.type == "simple":
            parse_condition(criterion.condition)
        if criterion.context:
            parse_reference(criterion.context)
    except ExpressionError as error:
        raise fault(str(error), where) from error
    if criterion.type != "simple" and not criterion.context:
        raise fault(f"a {criterion.type} condition needs the expression that it is compared with", where)
    if criterion.type == "regex":
        _check_pattern(criterion.condition, where)
    if criterion.type == "jsonpath":
        _check_path(criterion.condition, where)
    return criterion


def _check_pattern(pattern: str, where: str) -> None:
    import jsonschema_rs  # noqa: PLC0415 - where a workflow has one

    try:
        options = jsonschema_rs.RegexOptions(size_limit=1 << 20)
        jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options)
    except (ValueError, jsonschema_rs.ValidationError) as error:
        raise fault(f"'{pattern[:80]}' is not a regular expression without backtracking", where) from error


def _check_path(path: str, where: str) -> None:
    from toolgen.core.json_path import JsonPath, JsonPathError  # noqa: PLC0415 - takes long to import, and few workflows have one

    try:
        JsonPath(path)
    except JsonPathError as error:
        raise fault(f"'{path[:80]}' {error}", where) from error
