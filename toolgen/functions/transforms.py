"""Answers made of arguments by JSONPath alone: a template of JSON, in which text that begins with `$` is a path, and no code runs.

Paths are RFC 9535's without its regular expressions, which a hostile text could make run for ever.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from toolgen.functions.decorator import ToolError
from toolgen.model.excerpt import bounded
from toolgen.model.names import nearest
from toolgen.model.schema import Json, JsonObject

__all__ = ["transform"]

Compiled = Callable[[JsonObject], Json]
_MAX_FOUND = 10_000
_MAX_DEPTH = 20
_MAX_PATHS = 200
_REGULAR = ("match", "search")


def transform(template: Any) -> Compiled:
    """What makes an answer of arguments. Raises `ValueError` for a template that says nothing."""
    import jsonpath  # noqa: PLC0415 - takes long to import, and few projects have transforms

    environment = jsonpath.JSONPathEnvironment(strict=True)
    for name in _REGULAR:
        environment.function_extensions.pop(name, None)
    paths: list[str] = []

    def path(text: str) -> Callable[[JsonObject], tuple[list[Json], bool]]:
        paths.append(text)
        if len(paths) > _MAX_PATHS:
            raise ValueError(f"has more than {_MAX_PATHS} paths")
        try:
            compiled = environment.compile(text)
        except jsonpath.JSONPathError as error:
            raise ValueError(
                f"'{bounded(text, 60)}' is no JSONPath: {bounded(str(error).splitlines()[0], 120)}"
            ) from None
        if not isinstance(compiled, jsonpath.JSONPath):
            raise ValueError(f"'{bounded(text, 60)}' joins several paths; write one")  # noqa: TRY004 - a path, and not a type, is wrong
        single = compiled.singular_query()

        def found(arguments: JsonObject) -> tuple[list[Json], bool]:
            values: list[Any] = [match.obj for match in islice(compiled.finditer(dict(arguments)), _MAX_FOUND + 1)]
            if len(values) > _MAX_FOUND:
                raise ToolError(f"more than {_MAX_FOUND} values are selected", suggestion="ask for less")
            return values, single

        return found

    return _compiled(template, path, 0)


def _compiled(template: Any, path: Callable[[str], Any], depth: int) -> Compiled:
    if depth > _MAX_DEPTH:
        raise ValueError(f"is nested more than {_MAX_DEPTH} levels deep")
    if isinstance(template, str) and template.startswith("$$"):
        return lambda _: template[1:]
    if isinstance(template, str) and template.startswith("$"):
        found = path(template)

        def select(arguments: JsonObject) -> Json:
            values, single = found(arguments)
            return (values[0] if values else None) if single else values

        return select
    if isinstance(template, Mapping):
        operators = [key for key in template if key.startswith("$")]
        if operators:
            return _operator(template, operators[0], path)
        members = {key: _compiled(value, path, depth + 1) for key, value in template.items()}
        return lambda arguments: {key: make(arguments) for key, make in members.items()}
    if isinstance(template, Sequence) and not isinstance(template, str):
        items = [_compiled(value, path, depth + 1) for value in template]
        return lambda arguments: [make(arguments) for make in items]
    return lambda _: template


def _operator(template: Mapping[str, Any], name: str, path: Callable[[str], Any]) -> Compiled:
    work = _OPERATORS.get(name)
    if work is None:
        raise ValueError(
            f"{bounded(name, 40)} is no operator{nearest(name, _OPERATORS)} (there are: {', '.join(_OPERATORS)})"
        )
    text = template[name]
    if len(template) > 1 or not isinstance(text, str) or not text.startswith("$"):
        raise ValueError(f"{name} stands alone in its mapping, and takes one path")
    found = path(text)

    def operate(arguments: JsonObject) -> Json:
        values, single = found(arguments)
        if single and len(values) == 1 and isinstance(values[0], (list, tuple)):
            values = list(values[0])  # of one list its members are meant
        try:
            return work(values)
        except (TypeError, ArithmeticError):
            raise ToolError(f"{name} of {text}: the values are not of one kind that it takes") from None

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
