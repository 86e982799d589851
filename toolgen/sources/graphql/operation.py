"""The text of operations: static, with variables and never a literal, checked with graphql-core before it is stored.

What a selection returns, as JSON Schema: the `data` of a GraphQL answer.

What a root field is called as a tool: `country` is `get_country`, `countries` `list_countries`, `addReview` `add_review`.

Where a source's subscriptions are listened to, and for how long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from graphql import (
    GraphQLArgument,
    GraphQLEnumType,
    GraphQLError,
    GraphQLField,
    GraphQLList,
    GraphQLNonNull,
    GraphQLOutputType,
    GraphQLScalarType,
    GraphQLSchema,
    parse,
    validate,
)
from graphql.utilities.get_default_value_ast import get_default_value_ast

from toolgen.model.schema import Schema
from toolgen.model.tool import GraphQLSubscription
from toolgen.sources.base import SourceConfig
from toolgen.sources.graphql.scalars import output_scalar
from toolgen.sources.graphql.selection import Fragment, Selected, Selection
from toolgen.sources.naming import words

__all__ = ["candidates", "events_of", "faults_of", "output_schema", "render_operation", "subscription_of", "title_of"]


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
