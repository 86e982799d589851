"""One GraphQL tool proved: its stored operation is valid for the schema, and generated arguments are what its variables take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphql import GraphQLError, GraphQLSchema, OperationDefinitionNode, parse, validate
from graphql.execution.values import get_variable_values

from toolgen.model.tool import GraphQLBinding, Tool
from toolgen.verify.examples import Examples, valid_for
from toolgen.verify.shrink import shrink
from toolgen.verify.verdicts import Failed, Proven, Unproven, Verdict

__all__ = ["prove_operation"]


def prove_operation(tool: Tool, schema: GraphQLSchema, *, examples: int, seed: str) -> Verdict:
    """Proves one tool with up to `examples` generated calls."""
    binding = tool.binding
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
    properties = tool.input_schema.get("properties") or {}
    if unbound := sorted(set(properties) - set(binding.variables)):
        return Failed(arguments={}, reason=f"the argument {unbound[0]!r} is sent nowhere", sent=binding.operation)
    definitions = named[0].variable_definitions or ()

    def wrong(arguments: Mapping[str, Any]) -> str | None:
        variables = {name: arguments[key] for key, name in binding.variables.items() if key in arguments}
        known = {one.variable.name.value for one in definitions}
        if stray := sorted(set(variables) - known):
            return f"the operation has no variable ${stray[0]}"
        coerced = get_variable_values(schema, definitions, variables)
        return coerced[0].message if isinstance(coerced, list) else None

    valid = valid_for(tool.input_schema)
    made = Examples(tool.input_schema, seed=f"{seed}:{tool.name}")
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
