"""Answers made from arguments only by JSONPath: a JSON template in which text that begins with `$` is a path; no code runs.

An evaluation has limits in total: on the steps of all its paths, and on the size of the selected values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolgen.connectors.functions.decorator import ToolError
from toolgen.core.spelling import nearest
from toolgen.model.excerpt import bounded
from toolgen.model.schema import Json, JsonObject

if TYPE_CHECKING:
    from toolgen.core.json_path import JsonPath, StepBudget

__all__ = ["transform"]

_MAX_FOUND = 10_000
_MAX_DEPTH = 20
_MAX_PATHS = 200
_MAX_STEPS = 200_000
_MAX_SIZE = 1 << 20
_LESS = "select less"


class _Evaluation:
    """Remaining limits of one evaluation of a template."""

    __slots__ = ("arguments", "budget", "room")

    def __init__(self, arguments: JsonObject, budget: StepBudget) -> None:
        self.arguments = dict(arguments)
        self.budget = budget
        self.room = _MAX_SIZE

    def find(self, path: JsonPath) -> list[Json]:
        """Return the values that a path selects. Raises `ToolError`."""
        from toolgen.core.json_path import JsonPathError  # noqa: PLC0415 - takes long to import, and few projects have transforms

        try:
            return [value for _, value in path.select(self.arguments, self.budget, _MAX_FOUND)]
        except JsonPathError as error:
            raise ToolError(f"{bounded(path.text, 60)} {error}", suggestion=_LESS) from None

    def take(self, value: Json) -> None:
        """Take the size of a value: its characters, and one for each value in it. Raises `ToolError`."""
        todo = [value]
        while todo:
            item = todo.pop()
            if isinstance(item, Mapping):
                self.room -= sum(map(len, item)) + len(item)
                todo += item.values()
            elif isinstance(item, str):
                self.room -= len(item)
            elif isinstance(item, Sequence):
                self.room -= len(item)
                todo += item
            self.room -= 1
            if self.room < 0:
                raise ToolError(f"more than {_MAX_SIZE} characters are selected", suggestion=_LESS)


Compiled = Callable[[_Evaluation], Json]


def transform(template: Any) -> Callable[[JsonObject], Json]:
    """Return the function that makes an answer from arguments. Raises `ValueError` for an invalid template."""
    from toolgen.core.json_path import JsonPath, JsonPathError, StepBudget  # noqa: PLC0415 - as above

    paths: list[str] = []

    def path(text: str) -> JsonPath:
        paths.append(text)
        if len(paths) > _MAX_PATHS:
            raise ValueError(f"has more than {_MAX_PATHS} paths")
        try:
            return JsonPath(text)
        except JsonPathError as error:
            raise ValueError(bounded(f"'{bounded(text, 60)}' {error}", 200)) from None

    made = _compiled(template, path, 0)
    return lambda arguments: made(_Evaluation(arguments, StepBudget(_MAX_STEPS)))


def _compiled(template: Any, path: Callable[[str], JsonPath], depth: int) -> Compiled:
    if depth > _MAX_DEPTH:
        raise ValueError(f"is nested more than {_MAX_DEPTH} levels deep")
    if isinstance(template, str) and template.startswith("$$"):
        return lambda _: template[1:]
    if isinstance(template, str) and template.startswith("$"):
        chosen = path(template)

        def select(evaluation: _Evaluation) -> Json:
            values = evaluation.find(chosen)
            found: Json = (values[0] if values else None) if chosen.singular else values
            evaluation.take(found)
            return found

        return select
    if isinstance(template, Mapping):
        operators = [key for key in template if key.startswith("$")]
        if operators:
            return _operator(template, operators[0], path)
        members = {key: _compiled(value, path, depth + 1) for key, value in template.items()}
        return lambda evaluation: {key: make(evaluation) for key, make in members.items()}
    if isinstance(template, Sequence) and not isinstance(template, str):
        items = [_compiled(value, path, depth + 1) for value in template]
        return lambda evaluation: [make(evaluation) for make in items]
    return lambda _: template


def _operator(template: Mapping[str, Any], name: str, path: Callable[[str], JsonPath]) -> Compiled:
    work = _OPERATORS.get(name)
    if work is None:
        raise ValueError(
            f"{bounded(name, 40)} is not an operator{nearest(name, _OPERATORS)} (there are: {', '.join(_OPERATORS)})"
        )
    text = template[name]
    if len(template) > 1 or not isinstance(text, str) or not text.startswith("$"):
        raise ValueError(f"{name} must be the only key of its mapping, with one path")
    chosen = path(text)

    def operate(evaluation: _Evaluation) -> Json:
        values = evaluation.find(chosen)
        if chosen.singular and len(values) == 1 and isinstance(values[0], (list, tuple)):
            values = list(values[0])  # for a single list its members are meant
        if name not in _PICKING:
            evaluation.take(values)
        try:
            made = work(values)
        except (TypeError, ArithmeticError):
            raise ToolError(f"{name} of {text}: the values do not have one accepted type") from None
        if name in _PICKING:
            evaluation.take(made)
        return made

    return operate


def _sum(values: list[Json]) -> Json:
    if any(isinstance(one, bool) or not isinstance(one, (int, float)) for one in values):
        raise TypeError
    total: float = sum(values)  # type: ignore[arg-type]
    if not math.isfinite(total):
        raise OverflowError
    return total


def _average(values: list[Json]) -> Json:
    total = _sum(values)
    return total / len(values) if values and isinstance(total, (int, float)) else None


def _unique(values: list[Json]) -> Json:
    kept: dict[tuple[str, str], Json] = {}
    for one in values:
        kept.setdefault((type(one).__name__, repr(one)), one)
    return list(kept.values())


def _join(values: list[Json]) -> Json:
    if not all(isinstance(one, str) for one in values):
        raise TypeError
    return ", ".join(str(one) for one in values)


_OPERATORS: Mapping[str, Callable[[list[Any]], Json]] = {
    "$first": lambda values: values[0] if values else None,
    "$last": lambda values: values[-1] if values else None,
    "$count": len,
    "$sum": _sum,
    "$average": _average,
    "$min": lambda values: min(values, default=None),
    "$max": lambda values: max(values, default=None),
    "$sort": sorted,
    "$unique": _unique,
    "$join": _join,
}
_PICKING = frozenset({"$first", "$last", "$count"})
"""Operators that read at most one value, whatever the size of the others."""
