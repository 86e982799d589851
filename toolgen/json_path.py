"""JSONPath (RFC 9535) and nothing beyond it, in bounded time and memory whatever it says."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import jsonpath
import jsonschema_rs
from jsonpath.filter import BaseExpression, RelativeFilterQuery, RootFilterQuery
from jsonpath.function_extensions import ExpressionType, FilterFunction
from jsonpath.match import JSONPathMatch
from jsonpath.parse import Parser
from jsonpath.stream import TokenStream

__all__ = ["Target", "TargetError"]

_MAX_LENGTH = 4_096
_MAX_SEGMENTS = 200  # no description is nested deeper
_MAX_MATCHES = 200_000
_MAX_STEPS = 2_000_000  # nodes looked at for one target; the whole of GitHub's description, visited once, is 250,000


class TargetError(Exception):
    """Why a target cannot be read or followed; a phrase."""


class _Steps:
    """How many nodes one search may still look at."""

    def __init__(self) -> None:
        self.left = _MAX_STEPS


class _Node(JSONPathMatch):
    """A node on the way, which counts. The library makes every further one of the same class."""

    __slots__ = ()

    def new_child(self, obj: object, key: int | str) -> JSONPathMatch:
        steps = self.filter_context()["steps"]
        steps.left -= 1
        if steps.left < 0:
            raise TargetError(f"needs more than {_MAX_STEPS} steps")
        return super().new_child(obj, key)


class _Path(jsonpath.JSONPath):
    """A path, or a query in one of its filters, whose nodes count."""

    def finditer(self, data: Any, *, filter_context: Any = None) -> Iterable[JSONPathMatch]:
        """As the library's, from a root that counts."""
        nodes: Iterable[JSONPathMatch] = [
            _Node(filter_context=filter_context, obj=data, parent=None, path="$", parts=(), root=data)
        ]
        for segment in self.segments:
            nodes = segment.resolve(nodes)
        return nodes


class _Parser(Parser):
    def parse_absolute_query(self, stream: TokenStream) -> BaseExpression:
        query = super().parse_absolute_query(stream)
        return RootFilterQuery(_counting(query)) if isinstance(query, RootFilterQuery) else query

    def parse_relative_query(self, stream: TokenStream) -> BaseExpression:
        query = super().parse_relative_query(stream)
        return RelativeFilterQuery(_counting(query)) if isinstance(query, RelativeFilterQuery) else query


def _counting(query: RootFilterQuery | RelativeFilterQuery) -> _Path:
    return _Path(env=query.path.env, segments=query.path.segments)


class _Expression(FilterFunction):
    """RFC 9535's `match` and `search`, on an engine whose time is linear in the text (the library's own backtracks)."""

    arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]  # noqa: RUF012 - as the library declares it
    return_type = ExpressionType.LOGICAL

    def __init__(self, form: str) -> None:
        self._form = form

    def __call__(self, value: object, pattern: object) -> bool:
        if not isinstance(value, str) or not isinstance(pattern, str) or _compiled(pattern, "%s") is None:
            return False
        compiled = _compiled(pattern, self._form)
        return compiled is not None and compiled.is_valid(value)


@lru_cache(maxsize=64)
def _compiled(pattern: str, form: str) -> jsonschema_rs.Draft202012Validator | None:
    """None for what is no expression, which matches nothing (RFC 9535, section 2.4.6)."""
    options = jsonschema_rs.RegexOptions(size_limit=1 << 20)
    try:
        return jsonschema_rs.Draft202012Validator({"pattern": form % pattern}, pattern_options=options)
    except (ValueError, jsonschema_rs.ValidationError):
        return None


class _Environment(jsonpath.JSONPathEnvironment):
    parser_class = _Parser

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        self.function_extensions["match"] = _Expression("^(?:%s)$")
        self.function_extensions["search"] = _Expression("%s")


# Strict: another tool must select the same parts.
_PATHS = _Environment(strict=True)


class Target:
    """One target, compiled."""

    def __init__(self, text: str) -> None:
        """Raises `TargetError` for what is no JSONPath, or a longer one than anybody writes."""
        self.text = text
        if len(text) > _MAX_LENGTH:
            raise TargetError(f"is longer than {_MAX_LENGTH} characters")
        # The library parses a path's segments in a loop, and takes them apart when it is freed by recursion in C.
        if text.count(".") + text.count("[") > 4 * _MAX_SEGMENTS:
            raise TargetError(f"has more than {_MAX_SEGMENTS} segments")
        try:
            compiled = _PATHS.compile(text)
        except jsonpath.JSONPathError as error:
            reason = str(error.args[0]) if error.args else "it cannot be parsed"  # its str() fails at the end of a text
            raise TargetError(f"is no JSONPath (RFC 9535): {reason}") from error
        except RecursionError as error:
            raise TargetError("is nested too deeply") from error
        if not isinstance(compiled, jsonpath.JSONPath):
            raise TargetError("is no JSONPath (RFC 9535): it must be one path")
        if len(compiled.segments) > _MAX_SEGMENTS:
            raise TargetError(f"has more than {_MAX_SEGMENTS} segments")
        self._path = _Path(env=_PATHS, segments=compiled.segments)

    def select(self, root: Any) -> list[tuple[tuple[int | str, ...], Any]]:
        """What it selects, as (the way there, the node). Raises `TargetError` when that is too much, or takes too long."""
        found: list[tuple[tuple[int | str, ...], Any]] = []
        try:
            for match in self._path.finditer(root, filter_context={"steps": _Steps()}):
                found.append((tuple(match.parts), match.obj))
                if len(found) > _MAX_MATCHES:
                    raise TargetError(f"selects more than {_MAX_MATCHES} parts")
        except (jsonpath.JSONPathError, RecursionError) as error:
            raise TargetError("cannot be followed that deep") from error
        return found
