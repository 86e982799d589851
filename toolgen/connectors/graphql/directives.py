"""Directives of trusted operation files: settings of the tool on an operation, and of an argument on a variable.

query FindOrders($status: Status @describe(as: "…"), $limit: Int = 20 @hidden, $tenant: ID! @bind(to: "principal.attributes.tenant"))
@tool(name: "find_orders", title: "…", description: "…", effect: READ, idempotent: true) { … }
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from graphql import (
    BooleanValueNode,
    ConstDirectiveNode,
    DirectiveNode,
    EnumValueNode,
    OperationDefinitionNode,
    StringValueNode,
    ValueNode,
    VariableDefinitionNode,
)
from msgspec import Struct

from toolgen.core.spelling import nearest
from toolgen.model.tool import Effect

__all__ = ["OWN", "DirectiveError", "OperationNotes", "VariableNotes", "operation_notes", "variable_notes"]

OWN = frozenset({"bind", "describe", "hidden", "tool"})
_NAME = re.compile(r"[a-z][a-z0-9_]{0,45}\Z")
_SOURCE = re.compile(r"principal(\.on_behalf_of)?\.(id|attributes\.[A-Za-z_][A-Za-z0-9_]*)\Z")
_ARGUMENTS: Mapping[str, Mapping[str, type[ValueNode]]] = {
    "tool": {
        "name": StringValueNode,
        "title": StringValueNode,
        "description": StringValueNode,
        "effect": EnumValueNode,
        "idempotent": BooleanValueNode,
    },
    "describe": {"as": StringValueNode},
    "hidden": {},
    "bind": {"to": StringValueNode},
}


class DirectiveError(Exception):
    """Invalid directive; `node` is where it is written."""

    def __init__(self, message: str, node: DirectiveNode) -> None:
        super().__init__(message)
        self.node = node


class OperationNotes(Struct, frozen=True, kw_only=True):
    """Settings of `@tool`: "" and `None` if absent."""

    name: str = ""
    title: str = ""
    description: str = ""
    effect: Effect | None = None
    idempotent: bool | None = None


class VariableNotes(Struct, frozen=True, kw_only=True):
    """Settings of `@describe`, `@hidden` and `@bind`."""

    description: str = ""
    hidden: bool = False
    bound: str = ""


def operation_notes(operation: OperationDefinitionNode) -> OperationNotes:
    """Read the `@tool` directive of an operation. Raises `DirectiveError`."""
    found = _own(operation.directives or (), frozenset({"tool"}))
    if "tool" not in found:
        return OperationNotes()
    node, said = found["tool"]
    name, effect = str(said.get("name", "")), said.get("effect")
    if "name" in said and not _NAME.match(name):
        raise DirectiveError("@tool(name:) takes lower-case letters, digits and _", node)
    if isinstance(effect, str) and effect.lower() not in set(Effect):
        raise DirectiveError(f"@tool(effect:) takes READ, WRITE or DESTRUCTIVE, not {effect[:40]}", node)
    idempotent = said.get("idempotent")
    return OperationNotes(
        name=name,
        title=str(said.get("title", "")),
        description=str(said.get("description", "")),
        effect=Effect(effect.lower()) if isinstance(effect, str) else None,
        idempotent=idempotent if isinstance(idempotent, bool) else None,
    )


def variable_notes(variable: VariableDefinitionNode) -> VariableNotes:
    """Read the directives of a variable. Raises `DirectiveError`."""
    found = _own(variable.directives or (), OWN - {"tool"})
    if "bind" in found:
        node, said = found["bind"]
        source = str(said.get("to", ""))
        if not _SOURCE.match(source):
            raise DirectiveError(
                "@bind(to:) takes principal.id or principal.attributes.NAME, or the same of principal.on_behalf_of",
                node,
            )
        if "hidden" in found or "describe" in found:
            raise DirectiveError("a bound variable is not shown, so it is neither hidden nor described", node)
        return VariableNotes(bound=source)
    if "hidden" in found and "describe" in found:
        raise DirectiveError("a hidden variable is not described", found["hidden"][0])
    text = found["describe"][1].get("as", "") if "describe" in found else ""
    return VariableNotes(description=str(text), hidden="hidden" in found)


def _own(
    directives: Iterable[DirectiveNode | ConstDirectiveNode], allowed: frozenset[str]
) -> dict[str, tuple[DirectiveNode, Mapping[str, str | bool]]]:
    """Return toolgen's own directives with their arguments, by name."""
    found: dict[str, tuple[DirectiveNode, Mapping[str, str | bool]]] = {}
    for node in directives:
        name = node.name.value
        if name not in OWN:
            continue
        if name not in allowed:
            raise DirectiveError(f"@{name} is not allowed here", node)
        if name in found:
            raise DirectiveError(f"@{name} occurs here twice", node)
        found[name] = (node, _arguments(node, _ARGUMENTS[name]))
    return found


def _arguments(node: DirectiveNode, known: Mapping[str, type[ValueNode]]) -> Mapping[str, str | bool]:
    said: dict[str, str | bool] = {}
    for argument in node.arguments or ():
        key, value = argument.name.value, argument.value
        if key not in known:
            raise DirectiveError(f"@{node.name.value} has no argument {key[:40]}{nearest(key, known)}", node)
        if key in said:
            raise DirectiveError(f"@{node.name.value} says {key} twice", node)
        if not isinstance(value, known[key]) or not isinstance(
            value, StringValueNode | EnumValueNode | BooleanValueNode
        ):
            raise DirectiveError(f"@{node.name.value}({key}:) is of another type", node)
        said[key] = value.value
    if node.name.value in {"describe", "bind"} and not said:
        raise DirectiveError(f"@{node.name.value} needs an argument", node)
    return said
