"""Fields and values hidden by name, despite other names in GraphQL: aliases in answers, and values in the text of documents.

A document is compared with the schema. If it contains an unknown name, its secret values cannot be found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from graphql import (
    ArgumentNode,
    DirectiveNode,
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    GraphQLError,
    InlineFragmentNode,
    ListValueNode,
    Node,
    ObjectFieldNode,
    ObjectValueNode,
    OperationDefinitionNode,
    SelectionSetNode,
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
from msgspec import Struct

from toolgen.model.graphql_schema import Graph, GraphArgument, named
from toolgen.model.schema import Json

__all__ = ["aliases_of", "conceal_document", "fits"]

_TOKENS = 4000  # as many as the guard allows
_Digest = Callable[[Json], Json]


def aliases_of(operation: str) -> Mapping[str, frozenset[str]]:
    """Return the aliases of a stored operation, and the fields each of them represents."""
    found: dict[str, set[str]] = {}

    class AliasFinder(Visitor):
        def enter_field(self, node: FieldNode, *_: object) -> None:
            if node.alias is not None and node.alias.value != node.name.value:
                found.setdefault(node.alias.value, set()).add(node.name.value)

    visit(parse(operation, no_location=True), AliasFinder())
    return {alias: frozenset(names) for alias, names in found.items()}


def conceal_document(text: str, names: frozenset[str] | None, digest: _Digest) -> tuple[str, frozenset[str]]:
    """Return a document with digests in place of the values of arguments and input fields with these names (for None, of all), and the
    variables among those values.

    Comments are removed. Text that is not a document is replaced by its digest.
    """
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

    class VariableFinder(Visitor):
        def enter_variable(self, variable: VariableNode, *_: object) -> None:
            found.append(variable.name.value)

    visit(node, VariableFinder())
    return found


_BUILT_IN = frozenset({"Int", "Float", "String", "Boolean", "ID"})
_CONDITIONS = frozenset({"skip", "include"})


def fits(graph: Graph, text: str, variables: Json, start: str = "") -> bool:
    """Return True if every field, argument, input member and variable is in the schema, and no scalar is in the place of an object.

    `start` is the type of the root of an operation without a name; "" for the schema's own.
    """
    try:
        document = parse(text, no_location=True, max_lexical_tokens=_TOKENS)
        return _Fitting(graph, _declared(document)).document(document, variables, start)
    except (GraphQLError, RecursionError):
        return False


def _declared(document: DocumentNode) -> Mapping[str, str]:
    """Return the types of the variables as the document declares them."""
    operations = (one for one in document.definitions if isinstance(one, OperationDefinitionNode))
    return {
        definition.variable.name.value: print_ast(definition.type)
        for one in operations
        for definition in one.variable_definitions or ()
    }


class _Fitting(Struct, frozen=True):
    graph: Graph
    declared: Mapping[str, str]

    def document(self, document: DocumentNode, variables: Json, start: str) -> bool:
        given = {} if variables is None else variables
        if not isinstance(given, Mapping) or not all(
            name in self.declared and self._value(value, self.declared[name]) for name, value in given.items()
        ):
            return False
        for one in document.definitions:
            match one:
                case OperationDefinitionNode():
                    type_ = start or str(getattr(self.graph, one.operation.value))
                    defaults = (
                        definition.default_value is None
                        or self._written(definition.default_value, print_ast(definition.type))
                        for definition in one.variable_definitions or ()
                    )
                    if not all(defaults):
                        return False
                case FragmentDefinitionNode():
                    type_ = one.type_condition.name.value
                case _:
                    return False
            if not self._directives(one.directives) or not self._selection(one.selection_set, type_):
                return False
        return True

    def _selection(self, selection: SelectionSetNode | None, type_: str) -> bool:
        for node in selection.selections if selection is not None else ():
            if not self._directives(node.directives):
                return False
            if isinstance(node, FieldNode) and not self._field(node, type_):
                return False
            if isinstance(node, InlineFragmentNode):
                on = node.type_condition.name.value if node.type_condition is not None else type_
                if not self._selection(node.selection_set, on):
                    return False
        return True

    def _field(self, node: FieldNode, type_: str) -> bool:
        name = node.name.value
        if name.startswith("__"):
            return not node.arguments
        known = self.graph.types.get(type_)
        field = known.fields.get(name) if known is not None else None
        if field is None:
            return False
        return self._arguments(node.arguments or (), field.arguments) and self._selection(
            node.selection_set, named(field.type)
        )

    def _arguments(self, given: Iterable[ArgumentNode], declared: Mapping[str, GraphArgument]) -> bool:
        return all(
            one.name.value in declared and self._written(one.value, declared[one.name.value].type) for one in given
        )

    @staticmethod
    def _directives(directives: Iterable[DirectiveNode] | None) -> bool:
        return all(one.name.value in _CONDITIONS or not one.arguments for one in directives or ())

    def _written(self, node: ValueNode, type_: str) -> bool:
        """Return True if a value in the document has only members of its type."""
        inputs = self._inputs(type_)
        match node:
            case VariableNode():
                return node.name.value in self.declared
            case ListValueNode():
                return all(self._written(item, type_) for item in node.values)
            case ObjectValueNode():
                if inputs is None:
                    return named(type_) not in _BUILT_IN
                return all(
                    one.name.value in inputs and self._written(one.value, inputs[one.name.value].type)
                    for one in node.fields
                )
            case _:
                return inputs is None or node.kind == "null_value"

    def _value(self, value: Json, type_: str) -> bool:
        """Return True if a variable's value has only members of its type."""
        inputs = self._inputs(type_)
        match value:
            case None:
                return True
            case list() | tuple():
                return all(self._value(item, type_) for item in value)
            case Mapping():
                if inputs is None:
                    return named(type_) not in _BUILT_IN
                return all(name in inputs and self._value(item, inputs[name].type) for name, item in value.items())
            case _:
                return inputs is None

    def _inputs(self, type_: str) -> Mapping[str, GraphArgument] | None:
        """Return the members of an input object; None for any other type. A type that the schema lacks has no members."""
        known = self.graph.types.get(named(type_))
        if known is None:
            return None if named(type_) in _BUILT_IN else {}
        return known.inputs if known.kind == "input" else None
