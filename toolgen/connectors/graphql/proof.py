"""Proof of GraphQL tools: a stored operation is valid for the schema, its variables accept generated arguments, and selected fields
become a valid operation for graphql-core.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphql import (
    GraphQLError,
    GraphQLField,
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLSchema,
    GraphQLUnionType,
    ListTypeNode,
    NamedTypeNode,
    NonNullTypeNode,
    OperationDefinitionNode,
    TypeNode,
    VariableDefinitionNode,
    get_named_type,
    is_leaf_type,
    is_required_argument,
    parse,
    validate,
)
from graphql.execution.values import get_variable_values

from toolgen.connectors.graphql.selection import choose_fields
from toolgen.connectors.http.parameter_styles import UnbindableError
from toolgen.connectors.proof.examples import Examples, valid_for
from toolgen.connectors.proof.verdicts import FailedTool, NotApplicable, ProvenTool, Unproven, Verdict, shrink
from toolgen.model.graphql_schema import Graph, identifies
from toolgen.model.tool import GraphQLBinding, Tool

__all__ = ["prove_operation"]

_MAX_COUNT = 12
_MAX_DEPTH = 2
# sample values, by type, for variables that the gateway takes from a principal
_STANDS_IN: Mapping[str, Any] = {"Int": 1, "Float": 1.0, "Boolean": True}


def prove_operation(
    tool: Tool, schema: GraphQLSchema, *, graph: Graph | None = None, examples: int, seed: str
) -> Verdict:
    """Prove one tool with up to `examples` generated calls. `graph` is the index that other fields are chosen from."""
    binding = tool.binding
    if tool.takes_documents or tool.shows_schema:
        return NotApplicable(reason="the caller writes its documents, and the guard checks them at every call")
    if not isinstance(binding, GraphQLBinding):
        return Unproven(reasons=("the tool is not bound to GraphQL",))
    definitions = _definitions(binding, schema)
    if isinstance(definitions, str):
        return FailedTool(arguments={}, reason=definitions, sent=binding.operation)
    properties = dict(tool.input_schema.get("properties") or {})
    properties.pop(binding.fields, None)
    fault = _unproven_fields(binding, schema, graph) if binding.fields else ""
    if fault := fault or _unsent(binding, properties, definitions):
        return FailedTool(arguments={}, reason=fault, sent=binding.operation)
    taken = {**tool.input_schema, "properties": properties}
    return _tried(binding, schema, definitions, taken, examples=examples, seed=f"{seed}:{tool.name}")


def _definitions(binding: GraphQLBinding, schema: GraphQLSchema) -> tuple[VariableDefinitionNode, ...] | str:
    """Return the variables of the sent operation, or the reason why it cannot be sent."""
    try:
        document = parse(binding.operation)
    except GraphQLError as error:
        return f"the operation is not GraphQL: {error.message}"
    if faults := validate(schema, document):
        return f"the operation is not valid: {faults[0].message}"
    operations = [one for one in document.definitions if isinstance(one, OperationDefinitionNode)]
    named = [one for one in operations if one.name is not None and one.name.value == binding.operation_name]
    if len(named) != 1:
        return f"the operation does not exist: {binding.operation_name!r}"
    return tuple(named[0].variable_definitions or ())


def _unsent(
    binding: GraphQLBinding, properties: Mapping[str, Any], definitions: Sequence[VariableDefinitionNode]
) -> str:
    """Return the reason why given arguments are not sent, or ""."""
    if unbound := sorted(set(properties) - set(binding.variables)):
        return f"the argument {unbound[0]!r} is sent nowhere"
    if lost := sorted(set(binding.bound) - {one.variable.name.value for one in definitions}):
        return f"the bound variable ${lost[0]} is missing"
    if binding.hash and binding.hash != "sha256:" + hashlib.sha256(binding.operation.encode()).hexdigest():
        return "the hash of the operation does not match"
    return ""


def _tried(
    binding: GraphQLBinding,
    schema: GraphQLSchema,
    definitions: tuple[VariableDefinitionNode, ...],
    taken: Mapping[str, Any],
    *,
    examples: int,
    seed: str,
) -> Verdict:
    """Prove the operation with generated arguments, each converted to its variables."""
    kinds = {one.variable.name.value: one.type for one in definitions}

    def wrong(arguments: Mapping[str, Any]) -> str | None:
        variables = {name: arguments[key] for key, name in binding.variables.items() if key in arguments}
        variables |= {name: _STANDS_IN.get(_named(kinds[name]), "x") for name in binding.bound if name in kinds}
        if stray := sorted(set(variables) - kinds.keys()):
            return f"the operation has no variable ${stray[0]}"
        coerced = get_variable_values(schema, definitions, variables)
        return coerced[0].message if isinstance(coerced, list) else None

    valid = valid_for(taken)
    seen: set[str] = set()
    count = 0
    for arguments in Examples(taken, seed=seed).take(examples):
        count += 1
        seen |= arguments.keys()
        if wrong(arguments) is not None:
            smallest = shrink(arguments, lambda one: valid.is_valid(dict(one)) and wrong(one) is not None)
            return FailedTool(arguments=smallest, reason=wrong(smallest) or "", sent=binding.operation)
    untried = sorted(set(taken["properties"]) - seen)
    if not count or untried:
        reasons = tuple(f"{name}: no valid value could be generated" for name in untried)
        return Unproven(reasons=reasons or ("no valid arguments could be generated",))
    return ProvenTool(examples=count, reader={})


def _named(type_: TypeNode) -> str:
    while isinstance(type_, ListTypeNode | NonNullTypeNode):
        type_ = type_.type
    return type_.name.value if isinstance(type_, NamedTypeNode) else ""


def _unproven_fields(binding: GraphQLBinding, schema: GraphQLSchema, graph: Graph | None) -> str:
    """Return the fault in the selection of fields below the root field of this operation, or ""."""
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
    """Yield words of a selection set: leaves and nested objects among the fields without required arguments."""
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
