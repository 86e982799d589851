"""The text of operations: static, with variables and never a literal, checked with graphql-core before it is stored.

What a selection returns, as JSON Schema: the `data` of a GraphQL answer.

What a root field is called as a tool: `country` is `get_country`, `countries` `list_countries`, `addReview` `add_review`.

Where a source's subscriptions are listened to, and for how long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from graphql import (
    FieldNode,
    GraphQLArgument,
    GraphQLEnumType,
    GraphQLError,
    GraphQLField,
    GraphQLInterfaceType,
    GraphQLList,
    GraphQLNamedType,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLScalarType,
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
from toolgen.connectors.graphql.scalars import output_scalar
from toolgen.connectors.naming import words
from toolgen.connectors.source import SourceConfig
from toolgen.core.spelling import nearest
from toolgen.model.schema import Schema
from toolgen.model.tool import GraphQLSubscription

__all__ = [
    "candidates",
    "events_of",
    "faults_of",
    "output_schema",
    "render_operation",
    "subscription_of",
    "title_of",
    "written_selection",
]


def render_operation(kind: str, name: str, field: str, definition: GraphQLField, below: Iterable[Selection]) -> str:
    """`query get_country($code: ID!) {` and so on, over several lines. Every argument is the variable of its own name."""
    variables = ", ".join(f"${argument}: {_variable_type(one)}" for argument, one in definition.args.items())
    passed = ", ".join(f"{argument}: ${argument}" for argument in definition.args)
    root = Selected(name=field, type=definition.type, below=tuple(below))
    lines = [f"{kind} {name}{f'({variables})' if variables else ''} {{"]
    lines.extend(_lines(root, 1, f"({passed})" if passed else ""))
    lines.append("}")
    return "\n".join(lines)


_PAGE_INFO = ("hasNextPage", "hasPreviousPage", "startCursor", "endCursor")


def written_selection(schema: GraphQLSchema, definition: GraphQLField, text: str) -> tuple[Selection, ...]:
    """A selection set that a person wrote for what a root field returns (`{ id owner { login } }`, also without the outer braces).

    Raises `ValueError` for what is none or uses what only a whole document has. Whether the fields exist is for `faults_of` to say.
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
    """A default in the schema makes its variable optional: absent, the service fills it in (spec, section 5.8.5)."""
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


_TEXT: Schema = {"type": "string"}


def output_schema(field: str, definition: GraphQLField, below: Iterable[Selection], *, open_: bool) -> Schema:
    """The schema of `{"field": …}`. A nullable field may be null in it and is never missing (spec, section 7.1.1).

    Where other fields may be asked for (`open_`), those that are selected here are of these types when they are there.
    """
    inner = _type(definition.type, tuple(below), open_)
    return {"type": "object", "properties": {field: inner}, "required": [field]}


def _object(below: Iterable[Selection], open_: bool) -> Schema:
    properties: dict[str, Schema] = {}
    required: list[str] = []
    loose: dict[str, Schema] = {}
    for one in below:
        match one:
            case Selected():
                properties[one.key] = _of(one, open_)
                required.append(one.key)
            case Fragment():
                for inner in one.below:
                    properties[inner.key] = _of(inner, open_)
                    if inner.alias and open_:
                        loose[inner.name] = {}  # asked for by itself, it is of another type than its neighbour's
    return {"type": "object", "properties": properties | loose, **({} if open_ else {"required": required})}


def _of(one: Selected, open_: bool) -> Schema:
    return _TEXT if one.type is None else _type(one.type, one.below, open_)


def _type(type_: GraphQLOutputType, below: tuple[Selection, ...], open_: bool) -> Schema:
    if isinstance(type_, GraphQLNonNull):
        return _present(type_.of_type, below, open_)
    schema: dict[str, Any] = dict(_present(type_, below, open_))
    if "type" in schema:
        schema["type"] = [schema["type"], "null"]
    return schema


def _present(type_: GraphQLOutputType, below: tuple[Selection, ...], open_: bool) -> Schema:
    match type_:
        case GraphQLList():
            return {"type": "array", "items": _type(type_.of_type, below, open_)}
        case GraphQLEnumType():
            return _TEXT  # a value added tomorrow is no reason to refuse an answer
        case GraphQLScalarType():
            return output_scalar(type_.name)
        case _:
            return _object(below, open_)


# A query whose name begins with one of these says already what it does.
_VERBS = frozenset(
    {
        "aggregate",
        "calculate",
        "check",
        "compare",
        "count",
        "describe",
        "estimate",
        "evaluate",
        "export",
        "fetch",
        "filter",
        "find",
    }
    | {
        "get",
        "has",
        "is",
        "list",
        "load",
        "lookup",
        "match",
        "preview",
        "query",
        "read",
        "resolve",
        "retrieve",
        "search",
        "show",
    }
    | {"validate", "verify"}
)


def candidates(field: str, *, kind: str, many: bool) -> tuple[tuple[str, ...], ...]:
    """Names for a root field as words, best first. `kind` is query or mutation, `many` whether it returns a list or a connection."""
    found = words(field) or (kind,)
    if kind == "subscription":
        return (("watch", *found), ("watch", *found, kind))
    if kind == "query" and found[0] not in _VERBS:
        found = ("list" if many else "get", *found)
    return (found, (*found, kind))


def title_of(best: tuple[str, ...]) -> str:
    """`get_country` as a person reads it: `Get country`."""
    return " ".join(best).capitalize()


def subscription_of(config: SourceConfig, endpoint: str) -> GraphQLSubscription | None:
    """The subscriptions of a source, or None where toolgen.yaml does not open them. The endpoint's own address unless another is given."""
    options = config.graph.subscriptions
    if options is None:
        return None
    url = options.url or endpoint
    if options.transport == "websocket" and url.startswith("http"):
        url = "ws" + url.removeprefix("http")
    return GraphQLSubscription(
        transport=options.transport, url=url, events=options.events, seconds=float(options.seconds)
    )


def events_of(answer: Schema) -> Schema:
    """The schema of what a subscription's tool answers with: the `data` of each event, and why no more are awaited."""
    ended = {"enum": ["complete", "events", "seconds", "bytes"]}
    properties = {"events": {"type": "array", "items": answer}, "ended": ended}
    return {"type": "object", "properties": properties, "required": ["events", "ended"]}
