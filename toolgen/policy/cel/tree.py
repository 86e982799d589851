"""The tree of a compiled CEL expression, read from its standard serialised form (cel.expr.CheckedExpr, CEL specification).

Values on their way into an expression and out of it: plain, bounded, and nothing that its runtime would read wrongly.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from msgspec import Struct, field

from toolgen.model.schema import Json
from toolgen.policy.cel.numbers import comparable

__all__ = [
    "CelConstant",
    "Comprehension",
    "Function",
    "Identifier",
    "Node",
    "Other",
    "PlainCopier",
    "Select",
    "Unevaluated",
    "children",
    "json_of",
    "kind_word",
    "read_tree",
    "reason_of",
    "walk",
]


class CelConstant(Struct, frozen=True, kw_only=True):
    """A literal; None for null."""

    value: bool | int | float | str | bytes | None


class Identifier(Struct, frozen=True, kw_only=True):
    name: str


class Select(Struct, frozen=True, kw_only=True):
    """`operand.field`; `tests` when it stands in has(), and asks only whether the field is there."""

    operand: Node
    field: str
    tests: bool = False


class Function(Struct, frozen=True, kw_only=True):
    """A function or operator (`_==_`, `_[_]`, `@in`), called on `target` if it is a member."""

    name: str
    target: Node | None
    arguments: tuple[Node, ...]


class Comprehension(Struct, frozen=True, kw_only=True):
    """Expansion of all(), exists(), exists_one(), filter() or map(). `variables` are defined only inside it."""

    variables: frozenset[str]
    over: Node
    inside: tuple[Node, ...]


class Other(Struct, frozen=True, kw_only=True):
    """A list or map literal."""

    parts: tuple[Node, ...] = field(default=())


Node: TypeAlias = CelConstant | Identifier | Select | Function | Comprehension | Other
_Fields: TypeAlias = dict[int, list[int | bytes]]


def read_tree(serialised: bytes) -> Node:
    """The tree in an `Any` that holds a CheckedExpr. Raises `ValueError` for any other bytes."""
    try:
        return _node(_message(_message(_message(serialised), 2), 4))
    except (IndexError, struct.error, UnicodeDecodeError, KeyError) as error:
        raise ValueError("no serialised CEL expression") from error


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below one."""
    match node:
        case Select(operand=operand):
            return (operand,)
        case Function(target=target, arguments=arguments):
            return arguments if target is None else (target, *arguments)
        case Comprehension(over=over, inside=inside):
            return (over, *inside)
        case Other(parts=parts):
            return parts
        case _:
            return ()


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it."""
    yield node
    for child in children(node):
        yield from walk(child)


def _node(expression: _Fields) -> Node:
    kind = next((number for number in range(3, 10) if number in expression), None)
    if kind is None:
        return CelConstant(value=None)
    body = _message(expression, kind)
    match kind:
        case 3:
            return CelConstant(value=_constant(body))
        case 4:
            return Identifier(name=_text(body, 1))
        case 5:
            return Select(operand=_child(body, 1), field=_text(body, 2), tests=bool(body.get(3)))
        case 6:
            target = _child(body, 1) if 1 in body else None
            return Function(name=_text(body, 2), target=target, arguments=_each(body, 3))
        case 7:
            return Other(parts=_each(body, 1))
        case 8:
            entries = [_parse(entry) for entry in _raw(body, 2)]
            return Other(
                parts=tuple(_child(entry, number) for entry in entries for number in (3, 4) if number in entry)
            )
        case _:
            return Comprehension(
                variables=frozenset(_text(body, number) for number in (1, 3, 8) if number in body),
                over=_child(body, 2),
                inside=tuple(_child(body, number) for number in (4, 5, 6, 7) if number in body),
            )


def _constant(body: _Fields) -> bool | int | float | str | bytes | None:
    number, values = next(iter(body.items()), (1, [0]))
    value = values[-1]
    if isinstance(value, bytes):
        if number == 5:
            return float(struct.unpack("<d", value)[0])
        return value.decode() if number == 6 else value
    match number:
        case 2:
            return bool(value)
        case 3:
            return value - (1 << 64) if value >> 63 else value
        case 4:
            return value
        case _:
            return None


def _parse(data: bytes) -> _Fields:
    """The fields of a protobuf message by number (Protocol Buffers, "Encoding"): integers, and bytes for all else."""
    fields: _Fields = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value: int | bytes
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
            case 1:
                value, at = data[at : at + 8], at + 8
            case 2:
                length, at = _varint(data, at)
                value, at = data[at : at + length], at + length
            case 5:
                value, at = data[at : at + 4], at + 4
            case _:
                raise ValueError("no serialised CEL expression")
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _raw(fields: _Fields, number: int) -> list[bytes]:
    return [value for value in fields.get(number, []) if isinstance(value, bytes)]


def _message(fields: _Fields | bytes, number: int = 0) -> _Fields:
    if isinstance(fields, bytes):
        return _parse(fields)
    return _parse(_raw(fields, number)[-1])


def _text(fields: _Fields, number: int) -> str:
    return _raw(fields, number)[-1].decode() if number in fields else ""


def _child(fields: _Fields, number: int) -> Node:
    return _node(_message(fields, number))


def _each(fields: _Fields, number: int) -> tuple[Node, ...]:
    return tuple(_node(_parse(raw)) for raw in _raw(fields, number))


_MAX_VALUES = 10_000
_BROKEN = re.compile("[\0\ud800-\udfff]")


class Unevaluated(Exception):  # noqa: N818 - an expression without an answer is for the rule to judge, and no fault of the program
    """An expression has no answer for this call. The text says why, without a value of the call in it."""


class PlainCopier:
    """Copies JSON into the plain values the runtime reads, up to a bound."""

    __slots__ = ("_text", "_values")

    def __init__(self, most_text: int) -> None:
        self._text = most_text
        self._values = _MAX_VALUES

    def value(self, value: object) -> object:
        self._values -= 1
        if self._values < 0:
            raise Unevaluated(f"there are more than {_MAX_VALUES} values to look at")
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
            raise Unevaluated("there is more text than an expression may look at")
        if not value.isprintable() and _BROKEN.search(value):
            raise Unevaluated("a text holds a NUL or half a character")
        return value


def json_of(value: object) -> Json:
    """An answer as JSON: no bytes, times or types. Raises `Unevaluated`."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [json_of(item) for item in value]
    if isinstance(value, dict):
        return {str(name): json_of(item) for name, item in value.items()}
    raise Unevaluated(f"the answer is {kind_word(value)}, which JSON has not")


def kind_word(value: object) -> str:
    return {type(None): "null", str: "text", list: "a list", dict: "a map", bool: "true or false"}.get(
        type(value), type(value).__name__
    )


_REASONS = {
    "not found in map": "something it names is not there",
    "No value with name": "something it names is not there",
    "Iteration budget": "it takes too many steps",
    "divide by zero": "it divides by zero",
    "modulus by zero": "it divides by zero",
    "overflow": "a number is too large",
    "out of range": "a number is too large",
    "No matching overloads": "a value has a type that this cannot be asked of",
}


def reason_of(text: str) -> str:
    """The runtime's words about an evaluation without any value of the call: it quotes keys and numbers."""
    return next((reason for said, reason in _REASONS.items() if said in text), "it has no answer for this call")
