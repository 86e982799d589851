"""Conversion of values for CEL expressions and of their results: plain, bounded, and without values that the runtime would read
incorrectly."""

from __future__ import annotations

import re
from collections.abc import Mapping

from toolgen.model.schema import Json
from toolgen.policy.cel.numbers import comparable

__all__ = ["PlainCopier", "Unevaluated", "json_of", "kind_word", "reason_of"]

_MAX_VALUES = 10_000


_BROKEN = re.compile("[\0\ud800-\udfff]")


class Unevaluated(Exception):  # noqa: N818 - an expression without an answer is for the rule to judge, and no fault of the program
    """Expression without an answer for this call. The text gives the reason, without any value of the call."""


class PlainCopier:
    """Copies JSON into the plain values the runtime reads, up to a bound."""

    __slots__ = ("_text", "_values")

    def __init__(self, most_text: int) -> None:
        self._text = most_text
        self._values = _MAX_VALUES

    def value(self, value: object) -> object:
        self._values -= 1
        if self._values < 0:
            raise Unevaluated(f"there are more than {_MAX_VALUES} values")
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, int):
            return value
        if isinstance(value, float):
            return comparable(value)
        if isinstance(value, Mapping):
            return {self.text(name): self.value(item) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        return value

    def text(self, value: str) -> str:
        self._text -= len(value)
        if self._text < 0:
            raise Unevaluated("there is more text than an expression may read")
        if not value.isprintable() and _BROKEN.search(value):
            raise Unevaluated("a text contains a NUL or half a surrogate pair")
        return value


def json_of(value: object) -> Json:
    """Convert an answer to JSON; bytes, times and types have no form there. Raises `Unevaluated`."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [json_of(item) for item in value]
    if isinstance(value, dict):
        return {str(name): json_of(item) for name, item in value.items()}
    raise Unevaluated(f"the answer is {kind_word(value)}, which has no form in JSON")


def kind_word(value: object) -> str:
    return {type(None): "null", str: "text", list: "a list", dict: "a map", bool: "true or false"}.get(
        type(value), type(value).__name__
    )


_REASONS = {
    "not found in map": "a value that it reads is missing",
    "No value with name": "a value that it reads is missing",
    "Iteration budget": "it takes too many steps",
    "divide by zero": "it divides by zero",
    "modulus by zero": "it divides by zero",
    "overflow": "a number is too large",
    "out of range": "a number is too large",
    "No matching overloads": "a value has a type that the operator does not support",
}


def reason_of(text: str) -> str:
    """Return the reason for a runtime error, without any value of the call: the runtime's own message quotes keys and numbers."""
    return next((reason for said, reason in _REASONS.items() if said in text), "it has no answer for this call")
