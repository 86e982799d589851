"""One GraphQL tool proved: its stored operation is valid for the schema, and generated arguments are what its variables take."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from graphql import (
    GraphQLError,
    GraphQLSchema,
    ListTypeNode,
    NamedTypeNode,
    NonNullTypeNode,
    OperationDefinitionNode,
    TypeNode,
    parse,
    validate,
)
from graphql.execution.values import get_variable_values

from toolgen.model.graph import Graph
from toolgen.model.tool import GraphQLBinding, GraphQLDocumentBinding, GraphQLSchemaBinding, Tool
from toolgen.verify.examples import Examples, valid_for
from toolgen.verify.selections import unproven_fields
from toolgen.verify.shrink import shrink
from toolgen.verify.verdicts import Failed, NotApplicable, Proven, Unproven, Verdict

__all__ = ["prove_operation"]

_STANDS_IN: Mapping[str, Any] = {"Int": 1, "Float": 1.0, "Boolean": True}  # for what the gateway takes from a principal


def prove_operation(
    tool: Tool, schema: GraphQLSchema, *, graph: Graph | None = None, examples: int, seed: str
) -> Verdict:
    """Proves one tool with up to `examples` generated calls. `graph` is the index that other fields are chosen from."""
    binding = tool.binding
    if isinstance(binding, GraphQLDocumentBinding | GraphQLSchemaBinding):
        return NotApplicable(reason="its documents are written by whoever calls it, and checked at every call")
    if not isinstance(binding, GraphQLBinding):
        return Unproven(reasons=("the tool is not bound to GraphQL",))
    try:
        document = parse(binding.operation)
    except GraphQLError as error:
        return Failed(arguments={}, reason=f"the operation is not GraphQL: {error.message}", sent=binding.operation)
    if faults := validate(schema, document):
        return Failed(arguments={}, reason=f"the operation is not valid: {faults[0].message}", sent=binding.operation)
    operations = [one for one in document.definitions if isinstance(one, OperationDefinitionNode)]
    named = [one for one in operations if one.name is not None and one.name.value == binding.operation_name]
    if len(named) != 1:
        return Failed(arguments={}, reason=f"there is no operation {binding.operation_name!r}", sent=binding.operation)
    properties = dict(tool.input_schema.get("properties") or {})
    if binding.fields:
        properties.pop(binding.fields, None)
        if fault := unproven_fields(binding, schema, graph):
            return Failed(arguments={}, reason=fault, sent=binding.operation)
    if unbound := sorted(set(properties) - set(binding.variables)):
        return Failed(arguments={}, reason=f"the argument {unbound[0]!r} is sent nowhere", sent=binding.operation)
    definitions = named[0].variable_definitions or ()
    kinds = {one.variable.name.value: one.type for one in definitions}
    if lost := sorted(set(binding.bound) - kinds.keys()):
        return Failed(arguments={}, reason=f"the bound variable ${lost[0]} is not there", sent=binding.operation)
    if binding.hash and binding.hash != "sha256:" + hashlib.sha256(binding.operation.encode()).hexdigest():
        return Failed(arguments={}, reason="the operation is not the one its hash is of", sent=binding.operation)

    def wrong(arguments: Mapping[str, Any]) -> str | None:
        variables = {name: arguments[key] for key, name in binding.variables.items() if key in arguments}
        variables |= {name: _STANDS_IN.get(_named(kinds[name]), "x") for name in binding.bound if name in kinds}
        known = {one.variable.name.value for one in definitions}
        if stray := sorted(set(variables) - known):
            return f"the operation has no variable ${stray[0]}"
        coerced = get_variable_values(schema, definitions, variables)
        return coerced[0].message if isinstance(coerced, list) else None

    taken = {**tool.input_schema, "properties": properties}
    valid = valid_for(taken)
    made = Examples(taken, seed=f"{seed}:{tool.name}")
    seen: set[str] = set()
    count = 0
    for arguments in made.take(examples):
        count += 1
        seen |= arguments.keys()
        if wrong(arguments) is not None:
            smallest = shrink(arguments, lambda one: valid.is_valid(dict(one)) and wrong(one) is not None)
            return Failed(arguments=smallest, reason=wrong(smallest) or "", sent=binding.operation)
    untried = sorted(set(properties) - seen)
    if not count or untried:
        reasons = tuple(f"{name}: no valid value could be generated" for name in untried)
        return Unproven(reasons=reasons or ("no valid arguments could be generated",))
    return Proven(examples=count, reader={})


def _named(type_: TypeNode) -> str:
    while isinstance(type_, ListTypeNode | NonNullTypeNode):
        type_ = type_.type
    return type_.name.value if isinstance(type_, NamedTypeNode) else ""
