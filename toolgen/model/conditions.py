"""Conditions of workflows: Arazzo's simple conditions (1.0, section 4.6.10), parsed into a tree and evaluated.

`$statusCode == 200 && $response.body#/state != 'closed'`; `!`, brackets and `<`, `<=`, `>`, `>=` too. A missing value is null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, TypeAlias

from msgspec import Struct

from toolgen.model.excerpt import bounded
from toolgen.model.expressions import ExpressionError, ValueReference, parse_reference

__all__ = ["Condition", "condition_references", "holds", "parse_condition"]

_MAX_LENGTH = 2000
_MAX_DEPTH = 20
_TOKEN = re.compile(
    r"\s*(?:(?P<sign>&&|\|\||==|!=|<=|>=|<|>|!|\(|\))|(?P<text>'(?:[^']|'')*')|(?P<number>-?[0-9]+(?:\.[0-9]+)?)"
    r"|(?P<word>true|false|null)\b|(?P<reference>\$(?:[A-Za-z0-9_.#/~%-]|\[[^\]]*\])+))"
)
_WORDS = {"true": True, "false": False, "null": None}


class Constant(Struct, frozen=True):
    """Number, text, true, false or null."""

    value: Any


class Not(Struct, frozen=True):
    """Negation of a condition."""

    inner: Condition


class Joined(Struct, frozen=True):
    """Conjunction or disjunction of conditions."""

    every: bool
    parts: tuple[Condition, ...]


class Comparison(Struct, frozen=True):
    """Comparison of two values."""

    sign: str
    left: Condition
    right: Condition


Condition: TypeAlias = Constant | ValueReference | Not | Joined | Comparison
Lookup: TypeAlias = Callable[[ValueReference], Any]


@lru_cache(maxsize=1024)
def parse_condition(text: str) -> Condition:
    """Return the tree of a condition. Raises `ExpressionError` for an invalid one."""
    if len(text) > _MAX_LENGTH:
        raise ExpressionError(f"a condition has at most {_MAX_LENGTH} characters")
    reader = _ConditionParser(tuple(_tokens(text)))
    found = reader.any_of(0)
    if reader.left:
        raise ExpressionError(f"'{bounded(text, 80)}' is not a condition: {reader.left!r} is unexpected")
    return found


def condition_references(condition: Condition) -> Iterator[ValueReference]:
    """Yield every expression of a condition."""
    match condition:
        case ValueReference():
            yield condition
        case Not(inner=inner):
            yield from condition_references(inner)
        case Joined(parts=parts):
            for part in parts:
                yield from condition_references(part)
        case Comparison(left=left, right=right):
            yield from condition_references(left)
            yield from condition_references(right)
        case Constant():
            return


def holds(condition: Condition, lookup: Lookup, *, fold: bool = False) -> bool:
    """Return True if the condition is true. With `fold`, texts are compared without case, as in Arazzo."""
    return _truth(_value(condition, lookup, fold))


def _truth(value: Any) -> bool:
    return value is not None and value is not False


def _value(condition: Condition, lookup: Lookup, fold: bool) -> Any:
    match condition:
        case Constant(value=value):
            return value
        case ValueReference():
            return lookup(condition)
        case Not(inner=inner):
            return not _truth(_value(inner, lookup, fold))
        case Joined(every=every, parts=parts):
            decide = all if every else any
            return decide(_truth(_value(part, lookup, fold)) for part in parts)
        case Comparison(sign=sign, left=left, right=right):
            return _compared(sign, _value(left, lookup, fold), _value(right, lookup, fold), fold)


def _compared(sign: str, left: Any, right: Any, fold: bool) -> bool:
    if fold and isinstance(left, str) and isinstance(right, str):
        left, right = left.casefold(), right.casefold()
    if sign in {"==", "!="}:
        same = isinstance(left, bool) is isinstance(right, bool) and bool(left == right)
        return same is (sign == "==")
    numbers = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in (left, right))
    if not numbers and not (isinstance(left, str) and isinstance(right, str)):
        return False
    if sign == "<":
        return bool(left < right)
    if sign == "<=":
        return bool(left <= right)
    return bool(left > right) if sign == ">" else bool(left >= right)


def _tokens(text: str) -> Iterator[tuple[str, Any]]:
    end = 0
    while text[end:].strip():
        found = _TOKEN.match(text, end)
        if found is None:
            raise ExpressionError(
                f"'{bounded(text, 80)}' is not a condition: {bounded(text[end:].strip(), 20)!r} cannot be read"
            )
        kind, written = str(found.lastgroup), found[str(found.lastgroup)]
        end = found.end()
        match kind:
            case "text":
                yield "value", Constant(written[1:-1].replace("''", "'"))
            case "number":
                yield "value", Constant(float(written) if "." in written else int(written))
            case "word":
                yield "value", Constant(_WORDS[written])
            case "reference":
                yield "value", parse_reference(written)
            case _:
                yield "sign", written


class _ConditionParser:
    """Recursive descent parser: `||` has the lowest precedence, then `&&`, `!`, comparisons."""

    def __init__(self, tokens: tuple[tuple[str, Any], ...]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def left(self) -> str:
        return "" if self._at >= len(self._tokens) else str(self._tokens[self._at][1])

    def any_of(self, depth: int) -> Condition:
        return self._joined("||", lambda: self._joined("&&", lambda: self._unary(depth), every=True), every=False)

    def _joined(self, sign: str, part: Callable[[], Condition], *, every: bool) -> Condition:
        parts = [part()]
        while self._taken(sign):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Joined(every, tuple(parts))

    def _unary(self, depth: int) -> Condition:
        if depth > _MAX_DEPTH:
            raise ExpressionError(f"a condition is nested at most {_MAX_DEPTH} levels deep")
        if self._taken("!"):
            return Not(self._unary(depth + 1))
        left = self._operand(depth)
        for sign in ("==", "!=", "<=", ">=", "<", ">"):
            if self._taken(sign):
                return Comparison(sign, left, self._operand(depth))
        return left

    def _operand(self, depth: int) -> Condition:
        if self._taken("("):
            inner = self.any_of(depth + 1)
            if not self._taken(")"):
                raise ExpressionError("a condition has a bracket that is not closed")
            return inner
        if self._at < len(self._tokens) and self._tokens[self._at][0] == "value":
            found: Condition = self._tokens[self._at][1]
            self._at += 1
            return found
        raise ExpressionError(f"a condition lacks a value {f'before {self.left!r}' if self.left else 'at its end'}")

    def _taken(self, sign: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at] == ("sign", sign):
            self._at += 1
            return True
        return False
