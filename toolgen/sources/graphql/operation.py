"""The text of operations: static, with variables and never a literal, checked with graphql-core before it is stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphql import GraphQLArgument, GraphQLError, GraphQLField, GraphQLNonNull, GraphQLSchema, parse, validate
from graphql.utilities.get_default_value_ast import get_default_value_ast

from toolgen.sources.graphql.selection import Fragment, Selected, Selection

__all__ = ["faults_of", "render_operation"]


def render_operation(kind: str, name: str, field: str, definition: GraphQLField, below: Iterable[Selection]) -> str:
    """`query get_country($code: ID!) {` and so on, over several lines. Every argument is the variable of its own name."""
    variables = ", ".join(f"${argument}: {_variable_type(one)}" for argument, one in definition.args.items())
    passed = ", ".join(f"{argument}: ${argument}" for argument in definition.args)
    root = Selected(name=field, type=definition.type, below=tuple(below))
    lines = [f"{kind} {name}{f'({variables})' if variables else ''} {{"]
    lines.extend(_lines(root, 1, f"({passed})" if passed else ""))
    lines.append("}")
    return "\n".join(lines)


def faults_of(schema: GraphQLSchema, operation: str) -> list[str]:
    """What graphql-core has against an operation: nothing, for one that may be stored."""
    try:
        return [error.message for error in validate(schema, parse(operation, no_location=True))]
    except (GraphQLError, TypeError, RecursionError) as error:
        return [str(error)]


def _variable_type(argument: GraphQLArgument) -> str:
    """A default in the schema makes its variable optional: absent, the service fills it in (spec, section 5.8.5)."""
    if isinstance(argument.type, GraphQLNonNull) and get_default_value_ast(argument) is not None:
        return str(argument.type.of_type)
    return str(argument.type)


def _lines(one: Selection, depth: int, arguments: str = "") -> Iterator[str]:
    indent = "  " * depth
    match one:
        case Selected():
            head = f"{one.alias}: {one.name}" if one.alias else one.name
        case Fragment():
            head = f"... on {one.on}"
    if not one.below:
        yield f"{indent}{head}{arguments}"
        return
    yield f"{indent}{head}{arguments} {{"
    for item in one.below:
        yield from _lines(item, depth + 1)
    yield f"{indent}}}"
