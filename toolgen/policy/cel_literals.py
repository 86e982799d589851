"""Literals of an expression that no call can make anything of: a time zone, a time, a duration or a pattern that is none."""

from __future__ import annotations

from collections.abc import Iterator

from toolgen.policy.cel_tree import Constant, Function, Node, walk

__all__ = ["probes"]

_OF_TIMES = frozenset(
    {
        "getDate",
        "getDayOfMonth",
        "getDayOfWeek",
        "getDayOfYear",
        "getFullYear",
        "getHours",
        "getMilliseconds",
        "getMinutes",
        "getMonth",
        "getSeconds",
    }
)
_CONVERSIONS = frozenset({"duration", "timestamp", "int", "uint", "double", "bool"})


def probes(tree: Node) -> Iterator[tuple[str, str]]:
    """For each such place an expression that has an answer only where its literal is of use, and what to say where it has none.

    A condition with a bad one would have no answer for any call: a rule that allows would never speak.
    """
    for node in walk(tree):
        match node:
            case Function(name=name, arguments=(Constant(value=str(text)),)) if name in _CONVERSIONS:
                yield f"{name}({_quoted(text)})", f"'{text}' is no {name}"
            case Function(name="matches", arguments=(*_, Constant(value=str(text)))):
                yield f"''.matches({_quoted(text)})", f"'{text}' is no pattern"
            case Function(name=name, arguments=(Constant(value=str(text)),)) if name in _OF_TIMES:
                yield f"timestamp(0).{name}({_quoted(text)})", f"'{text}' is no time zone"
            case _:
                pass


def _quoted(text: str) -> str:
    """A literal of CEL, of which every character that could mean something is written by its number."""
    return "'" + "".join(one if one.isascii() and one.isalnum() else f"\\U{ord(one):08x}" for one in text) + "'"
