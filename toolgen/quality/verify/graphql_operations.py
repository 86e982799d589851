"""Proof of one GraphQL tool: its stored operation is valid for the schema, and its variables accept generated arguments."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from graphql import (
    GraphQLError,
    GraphQLSchema,
    ListTypeNode,
    NamedTypeNode,
    NonNullTypeNode,
    OperationDefinitionNode,
    TypeNode,
    VariableDefinitionNode,
    parse,
    validate,
)
from graphql.execution.values import get_variable_values

from toolgen.connectors.proof.examples import Examples, valid_for
from toolgen.connectors.proof.verdicts import FailedTool, NotApplicable, ProvenTool, Unproven, Verdict, shrink
from toolgen.model.graphql_schema import Graph
from toolgen.model.tool import GraphQLBinding, GraphQLDocumentBinding, GraphQLSchemaBinding, Tool
from toolgen.quality.verify.graphql import unproven_fields

__all__ = ["prove_operation"]

_STANDS_IN: Mapping[str, Any] = {"Int": 1, "Float": 1.0, "Boolean": True}  # for what the gateway takes from a principal


def prove_operation(
    tool: Tool, schema: GraphQLSchema, *, graph: Graph | None = None, examples: int, seed: str
) -> Verdict:
    """Proves one tool with up to `examples` generated calls. `graph` is the index that other fields are chosen from."""
    binding = tool.binding
    if isinstance(binding, GraphQLDocumentBinding | GraphQLSchemaBinding):
        return NotApplicable(reason="its documents are written by its caller, and checked at every call")
    if not isinstance(binding, GraphQLBinding):
        return Unproven(reasons=("the tool is not bound to GraphQL",))
    definitions = _definitions(binding, schema)
    if isinstance(definitions, str):
        return FailedTool(arguments={}, reason=definitions, sent=binding.operation)
    properties = dict(tool.input_schema.get("properties") or {})
    properties.pop(binding.fields, None)
    fault = unproven_fields(binding, schema, graph) if binding.fields else ""
    if fault := fault or _unsent(binding, properties, definitions):
        return FailedTool(arguments={}, reason=fault, sent=binding.operation)
    taken = {**tool.input_schema, "properties": properties}
    return _tried(binding, schema, definitions, taken, examples=examples, seed=f"{seed}:{tool.name}")


def _definitions(binding: GraphQLBinding, schema: GraphQLSchema) -> tuple[VariableDefinitionNode, ...] | str:
    """The variables of the operation that is sent, or why it cannot be."""
    try:
        document = parse(binding.operation)
    except GraphQLError as error:
        return f"the operation is not GraphQL: {error.message}"
    if faults := validate(schema, document):
        return f"the operation is not valid: {faults[0].message}"
    operations = [one for one in document.definitions if isinstance(one, OperationDefinitionNode)]
    named = [one for one in operations if one.name is not None and one.name.value == binding.operation_name]
    if len(named) != 1:
        return f"there is no operation {binding.operation_name!r}"
    return tuple(named[0].variable_definitions or ())


def _unsent(
    binding: GraphQLBinding, properties: Mapping[str, Any], definitions: Sequence[VariableDefinitionNode]
) -> str:
    """Return the reason why given arguments are not sent, or ""."""
    if unbound := sorted(set(properties) - set(binding.variables)):
        return f"the argument {unbound[0]!r} is sent nowhere"
    if lost := sorted(set(binding.bound) - {one.variable.name.value for one in definitions}):
        return f"the bound variable ${lost[0]} is not there"
    if binding.hash and binding.hash != "sha256:" + hashlib.sha256(binding.operation.encode()).hexdigest():
        return "the operation is not the one its hash is of"
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
    """Generated arguments, each as the variables that it is sent as."""
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
