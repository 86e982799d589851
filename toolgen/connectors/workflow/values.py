"""Evaluation of a workflow's expressions and conditions, given the results of its steps so far."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jsonschema_rs
from msgspec import Struct

from toolgen.model.conditions import holds, parse_condition
from toolgen.model.excerpt import bounded
from toolgen.model.expressions import (
    ExpressionError,
    ListExpression,
    Literal,
    ObjectExpression,
    PathQuery,
    Template,
    TextTemplate,
    ValueReference,
    followed,
    parse,
    parse_reference,
)
from toolgen.model.workflow import Criterion

__all__ = ["NOTHING", "ExpressionScope", "MissingError", "evaluate", "met", "regex"]

_MAX_TEXT = 262_144
_OPTIONAL = frozenset({"inputs"})


class _NoValue:
    """Placeholder for an optional value that was not given."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "nothing"


NOTHING = _NoValue()


class MissingError(ValueError):
    """Missing value of an expression; the message names it."""


class ExpressionScope(Struct, frozen=True, kw_only=True):
    """Values that an expression may refer to. `own` has `data` and `http_status` of the step itself, and `item` and `index`."""

    inputs: Mapping[str, Any]
    steps: Mapping[str, Mapping[str, Any]]
    own: Mapping[str, Any] = {}

    def within(self, **own: Any) -> ExpressionScope:
        """Return a copy of the scope with more values of the current step."""
        return ExpressionScope(inputs=self.inputs, steps=self.steps, own={**self.own, **own})

    @property
    def whole(self) -> dict[str, Any]:
        """Document that JSONPath expressions are evaluated on."""
        return {"inputs": dict(self.inputs), "steps": dict(self.steps), **self.own}

    def look(self, reference: ValueReference) -> tuple[bool, Any]:
        """Look up a referenced value. Return True if it exists, and the value."""
        match reference.root:
            case "inputs":
                return followed(self.inputs, reference.path)
            case "steps":
                return followed(self.steps, reference.path)
            case root:
                return followed(self.own[root], reference.path) if root in self.own else (False, None)

    def value(self, reference: ValueReference) -> Any:
        """Return the value, or None; used for conditions and outputs."""
        return self.look(reference)[1]

    def needed(self, reference: ValueReference) -> Any:
        """Return the value, or `NOTHING` for an input that was not given and for a result of a skipped step.

        Raises `MissingError` for any other missing value.
        """
        there, value = self.look(reference)
        if there:
            return value
        if reference.root in _OPTIONAL:
            return NOTHING
        step = self.steps.get(str(reference.path[0])) if reference.root == "steps" and reference.path else None
        if step is not None and step.get("status") == "skipped":
            return NOTHING
        raise MissingError(f"there is no value at {reference.text}")


def evaluate(written: Any, scope: ExpressionScope, *, strict: bool = True) -> Any:
    """Return the value of a template, `NOTHING` for none; unless `strict`, a missing value is null.

    Raises `MissingError`.
    """
    return _evaluated(parse(written), scope, strict)


def _evaluated(template: Template, scope: ExpressionScope, strict: bool) -> Any:
    match template:
        case Literal(value=value):
            return value
        case ValueReference():
            return scope.needed(template) if strict else scope.value(template)
        case PathQuery(text=text):
            return selected(text, scope.whole)
        case TextTemplate(parts=parts):
            text = "".join(part if isinstance(part, str) else _shown(scope.value(part)) for part in parts)
            if len(text) > _MAX_TEXT:
                raise MissingError(f"a text with inserted values would have more than {_MAX_TEXT} characters")
            return text
        case ObjectExpression(items=members):
            made = {name: _evaluated(item, scope, strict) for name, item in members.items()}
            return {name: value for name, value in made.items() if value is not NOTHING}
        case ListExpression(items=elements):
            listed = [_evaluated(item, scope, strict) for item in elements]
            return [value for value in listed if value is not NOTHING]


def _shown(value: Any) -> str:
    """Return a value as a part of a text: texts unchanged, null as "", anything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def met(criteria: tuple[Criterion, ...], scope: ExpressionScope) -> bool:
    """Return True if all criteria are met."""
    return all(_met(one, scope) for one in criteria)


def _met(one: Criterion, scope: ExpressionScope) -> bool:
    if one.type == "simple":
        return holds(parse_condition(one.condition), scope.value, fold=one.fold)
    value = scope.value(parse_reference(one.context)) if one.context else scope.whole
    if one.type == "jsonpath":
        return bool(selected(one.condition, value))
    return regex(one.condition).is_valid(
        "" if value is None else value if isinstance(value, str) else json.dumps(value)
    )


_MAX_STEPS = 200_000  # steps, which take a fraction of a second, during which the gateway does nothing else


@lru_cache(maxsize=256)
def regex(pattern: str) -> jsonschema_rs.Draft202012Validator:
    """Return a regular expression of an engine with linear time. Raises `ExpressionError`."""
    options = jsonschema_rs.RegexOptions(size_limit=1 << 20)
    try:
        return jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options)
    except (ValueError, jsonschema_rs.ValidationError) as error:
        raise ExpressionError(f"'{bounded(pattern, 80)}' is not a regular expression without backtracking") from error


def selected(path: str, value: Any) -> list[Any]:
    """Return the values that a JSONPath selects. Raises `MissingError` if the evaluation takes too long."""
    from toolgen.core.json_path import JsonPathError, StepBudget  # noqa: PLC0415 - takes long to import, and many a workflow has no path

    try:
        return [found for _, found in _path(path).select(value, StepBudget(_MAX_STEPS))]
    except JsonPathError as error:
        raise MissingError(f"the path {bounded(path, 80)} {error}") from error


@lru_cache(maxsize=256)
def _path(text: str) -> Any:
    from toolgen.core.json_path import JsonPath  # noqa: PLC0415 - as above

    return JsonPath(text)
