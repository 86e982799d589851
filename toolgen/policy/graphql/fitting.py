"""Whether a document says nothing but what the schema has: where it does not, nobody can tell which of its values is a secret."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from graphql import (
    ArgumentNode,
    DirectiveNode,
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    GraphQLError,
    InlineFragmentNode,
    ListValueNode,
    ObjectValueNode,
    OperationDefinitionNode,
    SelectionSetNode,
    ValueNode,
    VariableNode,
    parse,
    print_ast,
)

from toolgen.model.graph import Graph, GraphArgument, named
from toolgen.model.schema import Json

__all__ = ["fits"]

_TOKENS = 4000  # as many as the guard reads
_BUILT_IN = frozenset({"Int", "Float", "String", "Boolean", "ID"})
_CONDITIONS = frozenset({"skip", "include"})


def fits(graph: Graph, text: str, variables: Json, start: str = "") -> bool:
    """Whether every field, argument, member of an input object and variable is one of the schema's, and no scalar stands for an object.

    `start` is the type that an operation without a name begins at; "" for the schema's own.
    """
    try:
        document = parse(text, no_location=True, max_lexical_tokens=_TOKENS)
        return _Fitting(graph, _declared(document)).document(document, variables, start)
    except (GraphQLError, RecursionError):
        return False


def _declared(document: DocumentNode) -> Mapping[str, str]:
    """The types of the variables, as the document writes them."""
    operations = (one for one in document.definitions if isinstance(one, OperationDefinitionNode))
    return {
        definition.variable.name.value: print_ast(definition.type)
        for one in operations
        for definition in one.variable_definitions or ()
    }


@dataclass(frozen=True, slots=True)
class _Fitting:
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
        """Whether a value in the document has only what its type has."""
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
        """The same of a variable's value."""
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
        """The members of an input object; None for any other type. One that the schema lacks has none."""
        known = self.graph.types.get(named(type_))
        if known is None:
            return None if named(type_) in _BUILT_IN else {}
        return known.inputs if known.kind == "input" else None
