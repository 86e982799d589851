"""JSONPath (RFC 9535) with a step budget, so that any path over any value ends in bounded time and memory."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import jsonpath
import jsonschema_rs
from jsonpath.filter import BaseExpression, RegexLiteral, RelativeFilterQuery, RootFilterQuery, StringLiteral
from jsonpath.function_extensions import ExpressionType, FilterFunction
from jsonpath.match import JSONPathMatch, NodeList
from jsonpath.parse import Parser
from jsonpath.selectors import SingularQuerySelector
from jsonpath.stream import TokenStream
from jsonpath.token import Token

__all__ = ["Dialect", "JsonPath", "JsonPathError", "StepBudget"]

_MAX_LENGTH = 4_096
_MAX_SEGMENTS = 200  # levels; no description is nested deeper
_MAX_MATCHES = 200_000
_MAX_STEPS = 2_000_000  # about two seconds; one visit of GitHub's complete description takes 250,000
_CHARACTERS_PER_STEP = 4_096  # characters of a compared text that cost one step
_PATTERN_STEPS = 2_000  # steps for the compilation of an expression
_PROGRAM_SIZES = (1 << 13, 1 << 16, 1 << 20)  # bytes of a compiled expression
_PROGRAM_BYTES_PER_STEP = 1 << 14  # the time per character grows with the compiled expression, up to 45 us at 1 MiB


class JsonPathError(Exception):
    """Path that cannot be read or followed; the text is a phrase."""


class StepBudget:
    """Steps that one or several searches may take together. A step takes about a microsecond: a node, a comparison, a piece of a text."""

    __slots__ = ("_limit", "left")

    def __init__(self, steps: int | None = None) -> None:
        self._limit = self.left = _MAX_STEPS if steps is None else steps

    def spend(self, steps: int) -> None:
        """Take steps from the budget. Raises `JsonPathError` if too few are left."""
        self.left -= steps
        if self.left < 0:
            raise JsonPathError(f"needs more than {self._limit} steps")


class _PathSearch(threading.local):
    """Current search of this thread. The library passes no context to comparisons."""

    budget = StepBudget(0)
    weight = 1
    patterns: set[str] = set()  # noqa: RUF012 - replaced by each search


_search = _PathSearch()


@contextmanager
def _searching(budget: StepBudget, weight: int) -> Iterator[None]:
    """Set the search of this thread. `weight` is the cost of a filter's expression, which the library copies for each node."""
    before = _search.budget, _search.weight, _search.patterns
    _search.budget, _search.weight, _search.patterns = budget, weight, set()
    try:
        yield
    finally:
        _search.budget, _search.weight, _search.patterns = before


class _Node(JSONPathMatch):
    """Node on the path, which is counted. The library creates child nodes of the same class."""

    __slots__ = ()

    def __init__(self, **members: Any) -> None:
        _search.budget.spend(1)
        super().__init__(**members)

    def new_child(self, obj: object, key: int | str) -> JSONPathMatch:
        """Create a child node as the library does, but without the text of its path, because long names would be copied into each node."""
        parts = (*self.parts, key)
        return _Node(filter_context={}, obj=obj, parent=None, path="", parts=parts, root=self.root)

    def add_child(self, *children: JSONPathMatch) -> None:
        """Do nothing: children of a node are never read."""


class _Path(jsonpath.JSONPath):
    """Path, or a query in one of its filters, whose nodes are counted."""

    def finditer(self, data: Any, *, filter_context: Any = None) -> Iterable[JSONPathMatch]:
        """Find nodes as the library does, and count the root node."""
        root = [data] if self.pseudo_root else data
        nodes: Iterable[JSONPathMatch] = [_Node(filter_context={}, obj=root, parent=None, path="", parts=(), root=data)]
        for segment in self.segments:
            nodes = segment.resolve(nodes)
        return nodes


def _counting(path: jsonpath.JSONPath) -> _Path:
    return _Path(env=path.env, segments=path.segments, pseudo_root=path.pseudo_root)


class _Parser(Parser):
    """Parser of the library, with counted queries and linear expressions."""

    def parse_absolute_query(self, stream: TokenStream) -> BaseExpression:
        query = super().parse_absolute_query(stream)
        return RootFilterQuery(_counting(query.path)) if isinstance(query, RootFilterQuery) else query

    def parse_relative_query(self, stream: TokenStream) -> BaseExpression:
        query = super().parse_relative_query(stream)
        return RelativeFilterQuery(_counting(query.path)) if isinstance(query, RelativeFilterQuery) else query

    def parse_singular_query_selector(self, stream: TokenStream) -> SingularQuerySelector:
        selector = super().parse_singular_query_selector(stream)
        selector.query = _counting(selector.query)
        return selector

    def parse_regex(self, stream: TokenStream) -> BaseExpression:
        literal = super().parse_regex(stream)
        if isinstance(literal, RegexLiteral) and _compiled(_inline(literal.value), _WHOLE) is None:
            raise JsonPathError(f"has an expression that takes no linear time: {literal.value.pattern[:80]}")
        return literal


_WHOLE, _ANYWHERE = "^(?:%s)$", "%s"
_FLAGS = ((re.IGNORECASE, "i"), (re.MULTILINE, "m"), (re.DOTALL, "s"))


def _inline(pattern: re.Pattern[str]) -> str:
    """Return an expression with its flags in its text."""
    flags = "".join(letter for flag, letter in _FLAGS if pattern.flags & flag)
    return f"(?{flags}:{pattern.pattern})" if flags else pattern.pattern


def _matches(value: str, pattern: str, form: str) -> bool:
    """Match on an engine whose time is linear in the text (the library's own backtracks)."""
    budget = _search.budget
    if pattern not in _search.patterns:
        budget.spend(_PATTERN_STEPS)
        _search.patterns.add(pattern)
    if _compiled(pattern, _ANYWHERE) is None:  # it would become valid inside a group: a)(b
        return False
    compiled = _compiled(pattern, form)
    if compiled is None:
        return False
    expression, size = compiled
    budget.spend(1 + len(value) * size // _PROGRAM_BYTES_PER_STEP)
    return expression.is_valid(value)


@lru_cache(maxsize=64)
def _compiled(pattern: str, form: str) -> tuple[jsonschema_rs.Draft202012Validator, int] | None:
    """Return the expression and the size of its program. None for an invalid expression, which matches nothing (RFC 9535, section
    2.4.6).
    """
    if len(pattern) > _MAX_LENGTH:
        return None
    for size in _PROGRAM_SIZES:
        options = jsonschema_rs.RegexOptions(size_limit=size)
        try:
            return jsonschema_rs.Draft202012Validator({"pattern": form % pattern}, pattern_options=options), size
        except (ValueError, jsonschema_rs.ValidationError):
            continue
    return None


class _Expression(FilterFunction):
    """Functions `match` and `search` (RFC 9535, sections 2.4.6 and 2.4.7)."""

    arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]  # noqa: RUF012 - as the library declares it
    return_type = ExpressionType.LOGICAL

    def __init__(self, form: str) -> None:
        self._form = form

    def __call__(self, value: object, pattern: object) -> bool:
        return isinstance(value, str) and isinstance(pattern, str) and _matches(value, pattern, self._form)


class _Environment(jsonpath.JSONPathEnvironment):
    parser_class = _Parser

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        self.function_extensions["match"] = _Expression(_WHOLE)
        self.function_extensions["search"] = _Expression(_ANYWHERE)

    @property
    def filter_caching(self) -> bool:  # the library reads it when it copies an expression
        _search.budget.spend(_search.weight)
        return True

    @filter_caching.setter
    def filter_caching(self, _: bool) -> None: ...

    def is_truthy(self, obj: object) -> bool:
        """Return the truth of a value as the library does, and count the step. Each filter calls this once for each value."""
        _search.budget.spend(1)
        return super().is_truthy(obj)

    def compare(self, left: object, operator: str, right: object) -> bool:
        """Compare two values as the library does, and charge the budget for their size."""
        if operator in {"&&", "||"}:
            return super().compare(left, operator, right)
        _search.budget.spend(1)
        if operator == "=~":
            return isinstance(left, str) and isinstance(right, re.Pattern) and _matches(left, _inline(right), _WHOLE)
        if operator == "in":
            _spend_size(right)
        elif operator == "contains" or all(isinstance(one, str | Mapping | list | tuple) for one in (left, right)):
            _spend_size(left)
        return super().compare(left, operator, right)


class _ExtendedEnvironment(_Environment):
    """Environment for paths that hide values: an expression in them that could never match is refused."""

    def check_well_typedness(self, token: Token, func: FilterFunction, args: list[BaseExpression]) -> None:
        super().check_well_typedness(token, func, args)
        if isinstance(func, _Expression) and isinstance(args[1], StringLiteral):
            pattern = args[1].value
            if _compiled(pattern, _ANYWHERE) is None:
                raise JsonPathError(
                    f"has an expression that is invalid or cannot be matched in linear time: {pattern[:80]}"
                )


def _spend_size(value: object) -> None:
    """Take a step for each value in a value, and for each piece of a text in it."""
    budget, todo = _search.budget, [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            budget.spend(1 + len(item) // _CHARACTERS_PER_STEP)
        elif isinstance(item, NodeList):
            budget.spend(1 + len(item))
        elif isinstance(item, Mapping):
            budget.spend(1 + len(item))
            todo += item.values()
        elif isinstance(item, Sequence):
            budget.spend(1 + len(item))
            todo += item


Dialect: TypeAlias = Literal["rfc9535", "extended"]
"""Dialect: `rfc9535` selects the same parts as any other tool; `extended`, for paths that hide values, also accepts the library's
extensions of the syntax.
"""
_ENVIRONMENTS: Mapping[Dialect, _Environment] = {
    "rfc9535": _Environment(strict=True),
    "extended": _ExtendedEnvironment(strict=False),
}


class JsonPath:
    """Compiled JSONPath."""

    def __init__(self, text: str, dialect: Dialect = "rfc9535") -> None:
        """Parse a path. Raises `JsonPathError` if it is not JSONPath or too long."""
        self.text = text
        if len(text) > _MAX_LENGTH:
            raise JsonPathError(f"is longer than {_MAX_LENGTH} characters")
        # The library parses the segments of a path in a loop, but frees them by recursion in C.
        if text.count(".") + text.count("[") > 4 * _MAX_SEGMENTS:
            raise JsonPathError(f"has more than {_MAX_SEGMENTS} segments")
        with _searching(StepBudget(), 1):
            compiled = _parsed(text, _ENVIRONMENTS[dialect])
        if len(compiled.segments) > _MAX_SEGMENTS:
            raise JsonPathError(f"has more than {_MAX_SEGMENTS} segments")
        self.singular = compiled.singular_query()
        """True if it selects at most one value."""
        self._path = _counting(compiled)
        self._weight = 1 + len(text) // 16

    def select(
        self, root: Any, budget: StepBudget | None = None, most: int = _MAX_MATCHES
    ) -> list[tuple[tuple[int | str, ...], Any]]:
        """Return the selected values, each with its path. Raises `JsonPathError` if that is too much or takes too long."""
        found: list[tuple[tuple[int | str, ...], Any]] = []
        try:
            with _searching(budget or StepBudget(), self._weight):
                for match in self._path.finditer(root):
                    found.append((tuple(match.parts), match.obj))
                    if len(found) > most:
                        raise JsonPathError(f"selects more than {most} parts")
        except (jsonpath.JSONPathError, RecursionError) as error:
            raise JsonPathError("cannot be followed that deep") from error
        return found


def _parsed(text: str, environment: _Environment) -> jsonpath.JSONPath:
    try:
        compiled = environment.compile(text)
    except jsonpath.JSONPathError as error:
        reason = str(error.args[0]) if error.args else "it cannot be parsed"  # its str() fails at the end of a text
        raise JsonPathError(f"is not a JSONPath (RFC 9535): {reason}") from error
    except re.error as error:
        raise JsonPathError(f"has an expression that cannot be read: {error}") from error
    except RecursionError as error:
        raise JsonPathError("is nested too deeply") from error
    if not isinstance(compiled, jsonpath.JSONPath):
        raise JsonPathError("is not a JSONPath (RFC 9535): it must be one path")
    return compiled
