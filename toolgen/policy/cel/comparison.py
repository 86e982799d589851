"""Comparison with literals that an expression needs: a variable of the call must equal one of them for the expression to be true."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from toolgen.policy.cel.tree import CelConstant, Function, Identifier, Node, Other, Select

__all__ = ["LiteralComparison", "Path", "comparison_of", "kind_of", "value_at"]

Path: TypeAlias = tuple[str, ...]
"""Variable and the names below it, such as `("principal", "attributes", "tenant")`."""

_ROOTS = frozenset({"args", "principal", "tool", "user"})
_MAX_INTEGER = 2**63 - 1


class LiteralComparison(Struct, frozen=True):
    """Comparison in which `path` has to have one of these values, all of `kind`. If it has another value of that kind, the expression is
    false, even if other parts of it have no answer: in CEL, false and an error are false."""

    path: Path
    kind: Literal["text", "integer"]
    values: frozenset[str | int]


def comparison_of(tree: Node) -> LiteralComparison | None:
    """Return the first comparison among the operands of `&&` of an expression, or None."""
    match tree:
        case Function(name="_&&_", target=None, arguments=operands):
            found = (comparison_of(operand) for operand in operands)
            return next((one for one in found if one is not None), None)
        case Function(name="_==_", target=None, arguments=(one, other)):
            return _compared(one, (other,)) or _compared(other, (one,))
        case Function(name="@in", target=None, arguments=(one, Other(parts=parts))) if parts:
            return _compared(one, parts)
        case _:
            return None


def value_at(variables: Mapping[str, object], path: Path) -> object:
    """Return the value of a path; None if it is missing."""
    value: object = variables
    for name in path:
        if not isinstance(value, (dict, Mapping)):
            return None
        value = value.get(name)
    return value


def kind_of(value: object) -> Literal["text", "integer"] | None:
    """Return the kind of a value that can be looked up, or None. True and false are not integers here."""
    if type(value) is str:
        return "text"
    return "integer" if type(value) is int and -_MAX_INTEGER <= value <= _MAX_INTEGER else None


def _compared(node: Node, literals: tuple[Node, ...]) -> LiteralComparison | None:
    path = _path(node)
    if path is None or len(path) < 2:
        return None
    values = [one.value for one in literals if isinstance(one, CelConstant)]
    kinds = {kind_of(value) for value in values}
    if len(values) != len(literals) or len(kinds) != 1:
        return None
    (kind,) = kinds
    if kind is None:
        return None
    return LiteralComparison(path, kind, frozenset(value for value in values if isinstance(value, str | int)))


def _path(node: Node) -> Path | None:
    match node:
        case Identifier(name=name) if name in _ROOTS:
            return (name,)
        case Select(operand=operand, field=field, tests=False):
            below = _path(operand)
            return None if below is None else (*below, field)
        case Function(name="_[_]", target=None, arguments=(operand, CelConstant(value=str(field)))):
            below = _path(operand)
            return None if below is None else (*below, field)
        case _:
            return None
