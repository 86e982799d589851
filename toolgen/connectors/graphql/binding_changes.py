"""Changes of the operation that a GraphQL tool sends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from toolgen.model.binding_change import UNTOLD, BindingChange, addresses_text, breaking, compatible
from toolgen.model.tool import GraphQLBinding, Tool

__all__ = ["operation_changes"]

_TOKEN: Final = re.compile(
    r'"""(?:\\"""|(?s:.))*?"""|"(?:\\.|[^"\\\n])*"|#[^\n]*|\.\.\.|[$@]?[A-Za-z_]\w*|[-+.\w]+|[^\s,]'
)


def operation_changes(earlier: Tool, later: Tool) -> Iterator[BindingChange]:
    """Yield changes of endpoint, root field, variables, subscription and text."""
    old, new = earlier.binding, later.binding
    if not isinstance(old, GraphQLBinding) or not isinstance(new, GraphQLBinding):
        return
    if old.endpoint != new.endpoint:
        yield breaking(
            "server", f"calls go to {addresses_text((new.endpoint,))} (before: {addresses_text((old.endpoint,))})"
        )
    if (old.type, old.field) != (new.type, new.field):
        yield breaking("binding", f"now runs the {new.type} {new.field} (before: {old.type} {old.field})")
        return
    for argument, variable in new.variables.items():
        before = old.variables.get(argument, variable)
        if before != variable:
            text = f"argument `{argument}` is now the variable ${variable} (before: ${before}), and {UNTOLD}"
            yield breaking("binding", text)
    if missing := [argument for argument in old.variables if argument not in new.variables]:
        yield breaking("binding", f"argument `{missing[0]}` is no longer sent")
    for variable in sorted(old.bound.keys() | new.bound.keys()):
        before, after = (bound.get(variable, "nothing") for bound in (old.bound, new.bound))
        if before != after:
            yield breaking("binding", f"the gateway now sets ${variable} to {after} (before: {before})")
    if old.subscription != new.subscription:
        yield breaking("binding", "its subscription has another URL, transport or limit")
    if (old.operation, old.operation_name) != (new.operation, new.operation_name):
        if lost := _asked(old.operation) - _asked(new.operation):
            text = f"its GraphQL operation no longer contains {min(lost)}, with unknown effects"
            yield breaking("binding", text)
        else:
            yield compatible("binding", "its GraphQL operation is written differently")
    elif new.variables.keys() - old.variables.keys():
        yield compatible("binding", "more arguments are sent as variables")


def _asked(operation: str) -> set[str]:
    """Return the arguments, directives and defaults of variables in an operation: its content besides the selected fields."""
    words = [word for word in _TOKEN.findall(operation) if not word.startswith("#")]
    path: list[str] = []
    name, position = "", 0
    found: set[str] = set()
    while position < len(words):
        match words[position]:
            case "(":
                end = _closing(words, position)
                inner = words[position + 1 : end]
                found |= {".".join([*path, name, item]) for item in (_items(inner) if path else _defaults(inner))}
                position = end
            case "{":
                path.append(name or "query")
            case "}":
                del path[-1:]
            case ":" | "...":
                pass
            case word if word.startswith("@"):
                found.add(".".join([*path, name, word]))
            case word:
                name = word
        position += 1
    return found


def _closing(words: list[str], position: int) -> int:
    depth = 0
    for index in range(position, len(words)):
        depth += {"(": 1, ")": -1}.get(words[index], 0)
        if depth == 0:
            return index
    return len(words)


def _items(words: list[str]) -> Iterator[str]:
    """Yield each `name: value` of a list, including values in brackets."""
    depth, start = 0, 0
    for index, word in enumerate(words):
        if depth == 0 and index > start and words[index + 1 : index + 2] == [":"]:
            yield " ".join(words[start:index])
            start = index
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(word, 0)
    if words[start:]:
        yield " ".join(words[start:])


def _defaults(words: list[str]) -> Iterator[str]:
    """Yield the defaults of variables. Their types are compared in the input schema."""
    starts = [
        index for index, word in enumerate(words) if word.startswith("$") and words[index + 1 : index + 2] == [":"]
    ]
    for start, end in zip(starts, [*starts[1:], len(words)], strict=True):
        if "=" in words[start:end]:
            yield " ".join([words[start], *words[start:end][words[start:end].index("=") :]])
