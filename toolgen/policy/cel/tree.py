"""Syntax tree of a compiled CEL expression, read from its standard serialised form (cel.expr.CheckedExpr, CEL specification)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct, field

__all__ = [
    "CelConstant",
    "Comprehension",
    "Function",
    "Identifier",
    "Node",
    "Other",
    "Select",
    "children",
    "read_tree",
    "walk",
]


class CelConstant(Struct, frozen=True, kw_only=True):
    """A literal; None for null."""

    value: bool | int | float | str | bytes | None


class Identifier(Struct, frozen=True, kw_only=True):
    name: str


class Select(Struct, frozen=True, kw_only=True):
    """Field selection `operand.field`; `tests` is True within has(), which only tests if the field exists."""

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
    """Read the tree from an `Any` that contains a CheckedExpr. Raises `ValueError` for any other bytes."""
    try:
        return _node(_message(_message(_message(serialised), 2), 4))
    except (IndexError, struct.error, UnicodeDecodeError, KeyError) as error:
        raise ValueError("not a serialised CEL expression") from error


def children(node: Node) -> tuple[Node, ...]:
    """Return the direct children of a node."""
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
    """Yield a node and all nodes below it."""
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
    """Return the fields of a protobuf message by number (Protocol Buffers, "Encoding"): integers, and bytes for all other types."""
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
                raise ValueError("not a serialised CEL expression")
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
