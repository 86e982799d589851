"""What a policy hides by name, where GraphQL lets a name be written otherwise: aliases in answers, values in the text of documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from graphql import (
    ArgumentNode,
    FieldNode,
    GraphQLError,
    Node,
    ObjectFieldNode,
    StringValueNode,
    ValueNode,
    VariableDefinitionNode,
    VariableNode,
    Visitor,
    parse,
    print_ast,
    value_from_ast_untyped,
    visit,
)

from toolgen.model.schema import Json

__all__ = ["aliases_of", "behind_aliases", "conceal_document", "last_names"]

_TOKENS = 4000  # as many as the guard reads
_NAME = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|'([^'\\]*)'|\"([^\"\\]*)\"")
_QUOTED = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"")
_Digest = Callable[[Json], Json]


def aliases_of(operation: str) -> Mapping[str, frozenset[str]]:
    """The aliases of a stored operation, and the fields each of them stands for."""
    found: dict[str, set[str]] = {}

    class Look(Visitor):
        def enter_field(self, node: FieldNode, *_: object) -> None:
            if node.alias is not None and node.alias.value != node.name.value:
                found.setdefault(node.alias.value, set()).add(node.name.value)

    visit(parse(operation, no_location=True), Look())
    return {alias: frozenset(names) for alias, names in found.items()}


def behind_aliases(path: str, aliases: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """What a JSONPath has to find besides, in answers that have these aliases.

    A path whose names may all stand in the answer finds nothing more. Otherwise what it ends with is meant wherever it stands and under
    whatever alias; and of a path with a filter, which may look at an alias, nobody knows what it means: that is the whole answer.
    """
    aliased = frozenset().union(*aliases.values())
    if aliased.isdisjoint(_names(path)):
        return ()
    ends = last_names(path)
    if ends is None:
        return ("$",)
    return tuple(f"$..{name}" for name in sorted({*ends, *(alias for alias, names in aliases.items() if names & ends)}))


def last_names(path: str) -> frozenset[str] | None:
    """The names a JSONPath ends with, whatever indexes and wildcards follow them; None where it has a filter or no name at all."""
    if "?" in path:
        return None
    cut = re.sub(r"(\[[-0-9:*, ]*\]|\.\*)+\Z", "", path)
    if cut.endswith("]"):
        names = frozenset(one[0] or one[1] for one in _QUOTED.findall(cut[cut.rindex("[") :]))
    else:
        names = frozenset(_names(cut)[-1:])
    return names or None


def _names(path: str) -> list[str]:
    return ["".join(one) for one in _NAME.findall(path)]


def conceal_document(text: str, names: frozenset[str] | None, digest: _Digest) -> tuple[str, frozenset[str]]:
    """A document with digests for the values of arguments and input fields of these names (of all of them, for None), and the
    variables that stand among those values. Comments go, and text that is no document goes as a digest."""
    try:
        document = parse(text, no_location=True, max_lexical_tokens=_TOKENS)
        variables: set[str] = set()
        document = visit(document, _Conceal(names, digest, variables))
        document = visit(document, _ConcealDefaults(names, frozenset(variables), digest))
        return print_ast(document), frozenset(variables)
    except (GraphQLError, RecursionError):
        return str(digest(text)), frozenset()


class _Conceal(Visitor):
    def __init__(self, names: frozenset[str] | None, digest: _Digest, variables: set[str]) -> None:
        super().__init__()
        self._names, self._digest, self._variables = names, digest, variables

    def enter_argument(self, node: ArgumentNode, *_: object) -> Any:
        return self._concealed(node)

    def enter_object_field(self, node: ObjectFieldNode, *_: object) -> Any:
        return self._concealed(node)

    def _concealed(self, node: ArgumentNode | ObjectFieldNode) -> Any:
        if self._names is not None and node.name.value not in self._names:
            return None
        found = _variables(node.value)
        self._variables.update(found)
        if isinstance(node.value, VariableNode):
            return None
        return type(node)(name=node.name, value=_digested(node.value, self._digest))


class _ConcealDefaults(Visitor):
    def __init__(self, names: frozenset[str] | None, variables: frozenset[str], digest: _Digest) -> None:
        super().__init__()
        self._names, self._variables, self._digest = names, variables, digest

    def enter_variable_definition(self, node: VariableDefinitionNode, *_: object) -> Any:
        hidden = self._names is None or node.variable.name.value in self._variables
        if node.default_value is None or not hidden:
            return None
        kept = {key: getattr(node, key) for key in node.keys}
        return VariableDefinitionNode(**{**kept, "default_value": _digested(node.default_value, self._digest)})


def _digested(value: ValueNode, digest: _Digest) -> StringValueNode:
    return StringValueNode(value=str(digest(value_from_ast_untyped(value, {}))), block=False)


def _variables(node: Node) -> Iterable[str]:
    found: list[str] = []

    class Look(Visitor):
        def enter_variable(self, variable: VariableNode, *_: object) -> None:
            found.append(variable.name.value)

    visit(node, Look())
    return found
