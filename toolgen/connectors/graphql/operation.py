"""Text of operations, static, with variables and checked by graphql-core, and the transport of subscriptions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphql import (
    FieldNode,
    GraphQLArgument,
    GraphQLError,
    GraphQLField,
    GraphQLInterfaceType,
    GraphQLNamedType,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLSchema,
    InlineFragmentNode,
    NamedTypeNode,
    OperationDefinitionNode,
    SelectionSetNode,
    get_named_type,
    is_composite_type,
    parse,
    print_ast,
    validate,
)
from graphql.utilities.get_default_value_ast import get_default_value_ast

from toolgen.connectors.graphql.default_selection import Fragment, Selected, Selection, is_connection
from toolgen.connectors.source import SourceConfig
from toolgen.core.spelling import nearest
from toolgen.model.tool import GraphQLSubscription

__all__ = ["faults_of", "render_operation", "subscription_of", "written_selection"]


def render_operation(kind: str, name: str, field: str, definition: GraphQLField, below: Iterable[Selection]) -> str:
    """Return `query get_country($code: ID!) {` and so on, over several lines. Each argument is a variable with the same name."""
    variables = ", ".join(f"${argument}: {_variable_type(one)}" for argument, one in definition.args.items())
    passed = ", ".join(f"{argument}: ${argument}" for argument in definition.args)
    root = Selected(name=field, type=definition.type, below=tuple(below))
    lines = [f"{kind} {name}{f'({variables})' if variables else ''} {{"]
    lines.extend(_lines(root, 1, f"({passed})" if passed else ""))
    lines.append("}")
    return "\n".join(lines)


_PAGE_INFO = ("hasNextPage", "hasPreviousPage", "startCursor", "endCursor")


def written_selection(schema: GraphQLSchema, definition: GraphQLField, text: str) -> tuple[Selection, ...]:
    """Parse a selection set that a person wrote for the result of a root field (`{ id owner { login } }`, also without the outer braces).

    Raises `ValueError` if it is invalid or uses features of complete documents. `faults_of` checks that the fields exist.
    """
    named = get_named_type(definition.type)
    if not is_composite_type(named):
        raise ValueError(f"it returns {definition.type}, which has no fields to choose")
    written = text.strip()
    try:
        document = parse(written if written.startswith("{") else f"{{ {written} }}", no_location=True)
    except (GraphQLError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if len(document.definitions) != 1 or not isinstance(operation := document.definitions[0], OperationDefinitionNode):
        raise ValueError("it is more than one selection set")
    chosen = tuple(_written(schema, named, operation.selection_set, within=False))
    read = {one.key for one in chosen if isinstance(one, Selected)}
    if isinstance(named, GraphQLObjectType) and is_connection(named) and "pageInfo" in named.fields.keys() - read:
        chosen += tuple(_page_info(named.fields["pageInfo"]))
    return chosen


def _written(
    schema: GraphQLSchema, type_: GraphQLNamedType, selected: SelectionSetNode, *, within: bool
) -> Iterator[Selection]:
    for node in selected.selections:
        if node.directives:
            raise ValueError("a selection takes no directives")
        match node:
            case FieldNode():
                yield _written_field(schema, type_, node)
            case InlineFragmentNode(type_condition=NamedTypeNode() as on) if not within:
                inner = schema.type_map.get(on.name.value)
                if inner is None:
                    raise ValueError(f"there is no type {on.name.value!r}{nearest(on.name.value, schema.type_map)}")
                below = tuple(_written(schema, inner, node.selection_set, within=True))
                yield Fragment(on=on.name.value, below=tuple(one for one in below if isinstance(one, Selected)))
            case _:
                raise ValueError(
                    "a selection takes fields, and fragments with a type (`... on User { id }`) around them"
                )


def _written_field(schema: GraphQLSchema, type_: GraphQLNamedType, node: FieldNode) -> Selected:
    name = node.name.value
    fields = type_.fields if isinstance(type_, GraphQLObjectType | GraphQLInterfaceType) else {}
    if name != "__typename" and name not in fields:
        raise ValueError(f"{type_.name} has no field {name!r}{nearest(name, fields)}")
    below: tuple[Selection, ...] = ()
    returned = fields[name].type if name in fields else None
    if node.selection_set is not None and returned is not None:
        below = tuple(_written(schema, get_named_type(returned), node.selection_set, within=False))
    passed = ", ".join(map(print_ast, node.arguments or ()))
    return Selected(
        name=name,
        type=returned,
        alias=node.alias.value if node.alias is not None else "",
        arguments=f"({passed})" if passed else "",
        below=below,
    )


def _page_info(definition: GraphQLField) -> Iterator[Selected]:
    info = get_named_type(definition.type)
    fields = info.fields if isinstance(info, GraphQLObjectType) else {}
    below = tuple(Selected(name=name, type=fields[name].type) for name in _PAGE_INFO if name in fields)
    if below:
        yield Selected(name="pageInfo", type=definition.type, below=below)


def faults_of(schema: GraphQLSchema, operation: str) -> list[str]:
    """Return graphql-core's validation errors for an operation; empty for one that may be stored."""
    try:
        return [error.message for error in validate(schema, parse(operation, no_location=True))]
    except (GraphQLError, TypeError, RecursionError) as error:
        return [str(error)]


def _variable_type(argument: GraphQLArgument) -> str:
    """Return the type of a variable. A default in the schema makes its variable optional: if absent, the service uses it (spec, section
    5.8.5).
    """
    if isinstance(argument.type, GraphQLNonNull) and get_default_value_ast(argument) is not None:
        return str(argument.type.of_type)
    return str(argument.type)


def _lines(one: Selection, depth: int, arguments: str = "") -> Iterator[str]:
    indent = "  " * depth
    match one:
        case Selected():
            head = (f"{one.alias}: {one.name}" if one.alias else one.name) + one.arguments
        case Fragment():
            head = f"... on {one.on}"
    if not one.below:
        yield f"{indent}{head}{arguments}"
        return
    yield f"{indent}{head}{arguments} {{"
    for item in one.below:
        yield from _lines(item, depth + 1)
    yield f"{indent}}}"


def subscription_of(config: SourceConfig, endpoint: str) -> GraphQLSubscription | None:
    """Return the subscriptions of a source, or None if toolgen.yaml does not enable them. The default URL is the endpoint."""
    options = config.graph.subscriptions
    if options is None:
        return None
    url = options.url or endpoint
    if options.transport == "websocket" and url.startswith("http"):
        url = "ws" + url.removeprefix("http")
    return GraphQLSubscription(
        transport=options.transport, url=url, events=options.events, seconds=float(options.seconds)
    )
