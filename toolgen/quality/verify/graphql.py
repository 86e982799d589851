"""Proof of the argument that chooses fields: a selection made from the schema becomes an operation that graphql-core accepts."""

from __future__ import annotations

from collections.abc import Iterator

from graphql import (
    GraphQLField,
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLSchema,
    GraphQLUnionType,
    OperationDefinitionNode,
    get_named_type,
    is_leaf_type,
    is_required_argument,
    parse,
    validate,
)
from graphql.execution.values import get_variable_values

from toolgen.connectors.graphql.selection import choose_fields
from toolgen.connectors.http.parameter_styles import UnbindableError
from toolgen.model.graphql_schema import Graph, identifies
from toolgen.model.tool import GraphQLBinding

__all__ = []

_MAX_COUNT = 12
_MAX_DEPTH = 2


def unproven_fields(binding: GraphQLBinding, schema: GraphQLSchema, graph: Graph | None) -> str:
    """Return the fault in choosing fields below the root field of this operation, or ""."""
    if graph is None:
        return "fields can be chosen, but there is no index to choose from"
    root = {
        "query": schema.query_type,
        "mutation": schema.mutation_type,
        "subscription": schema.subscription_type,
    }[binding.type]
    definition = root.fields.get(binding.field) if root is not None else None
    if definition is None:
        return f"the schema has no {binding.type} {binding.field}"
    selection = f"{{ {' '.join(_selection(definition.type, graph, 1))} }}"
    try:
        operation, variables = choose_fields(graph, binding, parse(binding.operation), selection, None)
    except UnbindableError as error:
        return f"the fields {selection[:200]} are refused: {error.message}"
    document = parse(operation)
    if faults := validate(schema, document):
        return f"the fields {selection[:200]} make an operation that is not valid: {faults[0].message}"
    [made] = [one for one in document.definitions if isinstance(one, OperationDefinitionNode)]
    added = [one for one in made.variable_definitions or () if one.variable.name.value in variables]
    coerced = get_variable_values(schema, added, dict(variables))
    if len(added) != len(variables) or isinstance(coerced, list):
        return f"the fields {selection[:200]} add variables that do not fit"
    return ""


def _selection(type_: GraphQLOutputType, graph: Graph, depth: int) -> Iterator[str]:
    """Words of a selection set: leaves, and objects of objects, of all that can be asked for without arguments."""
    named = get_named_type(type_)
    yield "__typename"
    if isinstance(named, GraphQLUnionType):
        for member in sorted(named.types, key=lambda one: one.name)[:1]:
            inner = " ".join(_selection(member, graph, depth))
            yield f"... on {member.name} {{ {inner} }}"
    if not isinstance(named, GraphQLObjectType | GraphQLInterfaceType):
        return
    for name, field in list(named.fields.items())[:_MAX_COUNT]:
        inner_type = get_named_type(field.type)
        if any(map(is_required_argument, field.args.values())) or inner_type.name in graph.roots:
            continue
        if named.name in graph.fronts and not identifies(str(field.type)):
            continue
        if is_leaf_type(inner_type):
            yield name
        elif depth < _MAX_DEPTH and _first(field):
            yield f"{name} {{ {' '.join(_selection(field.type, graph, _MAX_DEPTH))} }}"


def _first(field: GraphQLField) -> bool:
    return isinstance(get_named_type(field.type), GraphQLObjectType)
