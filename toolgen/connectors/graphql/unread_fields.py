"""Fields that a stored operation does not read, by type: an agent may select them in addition to the default answer."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from graphql import DocumentNode, FieldNode, InlineFragmentNode, OperationDefinitionNode, SelectionSetNode
from msgspec import Struct

from toolgen.model.graphql_schema import Graph, named
from toolgen.model.tool import GraphQLBinding

__all__ = ["unread_fields"]

_WRAPPERS: Final = frozenset({"edges", "nodes", "node"})
_MAX_TYPES: Final = 5


def unread_fields(graph: Graph, binding: GraphQLBinding, operation: DocumentNode) -> Mapping[str, int]:
    """Return the number of omitted fields of the answer's types, by type: for items of pages and unions, and the objects of a mutation's
    payload. Types further inside are not counted.
    """
    root = graph.root(binding.type)
    definition = root.fields.get(binding.field) if root is not None else None
    first = operation.definitions[0]
    if definition is None or not isinstance(first, OperationDefinitionNode):
        return {}
    walk = _Walk(graph, graph.fronts)
    for node in first.selection_set.selections:
        if isinstance(node, FieldNode) and node.selection_set is not None:
            walk.below(named(definition.type), node.selection_set, payload=binding.type == "mutation")
    found = {name: len(left) for name, left in walk.unread.items() if left}
    return dict(islice(found.items(), _MAX_TYPES))


class _Walk(Struct):
    """Visitor that collects the fields of each type that no selection reads."""

    graph: Graph
    fronts: frozenset[str]
    unread: dict[str, frozenset[str]] = {}

    def below(self, name: str, selection: SelectionSetNode, *, payload: bool = False) -> None:
        type_ = self.graph.types.get(name)
        if type_ is None:
            return
        chosen = [node for node in selection.selections if isinstance(node, FieldNode)]
        for node in selection.selections:
            if isinstance(node, InlineFragmentNode) and node.type_condition is not None:
                self.below(node.type_condition.name.value, node.selection_set)
        wrapped = [
            (named(type_.fields[node.name.value].type), node.selection_set)
            for node in chosen
            if node.name.value in type_.fields and node.selection_set is not None and self._leads(node, name, payload)
        ]
        if wrapped:
            for other, inner in wrapped:
                self.below(other, inner)
            return
        read = {node.name.value for node in chosen}
        own = {key for key, field in type_.fields.items() if named(field.type) not in self.fronts}
        if own and name not in self.fronts:
            self.unread[name] = self.unread.get(name, frozenset(own)) - read

    def _leads(self, node: FieldNode, name: str, payload: bool) -> bool:
        """Return True for a field with the subject of the answer: a page's items, and an object with an identity in a payload."""
        if node.name.value in _WRAPPERS:
            return "pageInfo" in self.graph.types[name].fields or node.name.value == "node"
        inner = self.graph.types[named(self.graph.types[name].fields[node.name.value].type)]
        return payload and "id" in inner.fields
