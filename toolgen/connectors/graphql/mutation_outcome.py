"""Outcome of a mutation, read from its answer: whether its root field ran, and why the service rejected it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    InlineFragmentNode,
    OperationDefinitionNode,
    parse,
)
from graphql.language import SelectionSetNode
from msgspec import Struct

from toolgen.connectors.rejection import at, rejected, why
from toolgen.model.result import Error
from toolgen.model.schema import Json, JsonObject

__all__ = ["ResponseContext", "effect_of", "path_of", "present", "rejection_of", "root_keys"]

# Messages of servers for a root field whose resolver returned a value that did not fit (spec, section 6.4.3): graphql-js and its ports,
# graphql-java, graphql-ruby.
_INCOMPLETE = re.compile(
    r"cannot return null for non-nullable|declared as a non null type, but|expected iterable, but did not find|cannot represent"
    r"|must resolve to an object type at runtime|runtime object type|expected value of type",
    re.IGNORECASE,
)


class ResponseContext(Struct, frozen=True, kw_only=True):
    """Context for reading a response: the query that was sent, whether it is a mutation, and the binding's `cursor` and `rejections`."""

    query: str
    mutation: bool = False
    cursor: tuple[str, ...] = ()
    rejections: tuple[tuple[str, ...], ...] = ()


def present(data: Json, keys: tuple[str, ...]) -> bool:
    """Return True if some root field has a value."""
    return isinstance(data, Mapping) and any(data.get(key) is not None for key in keys)


def effect_of(data: Json, errors: Sequence[Json], query: str) -> str | None:
    """Return `read` if a root field of a mutation ran and returned data, `unread` if one ran without data, or None if none ran.

    A root field ran if there is an error below it, if it returned a value, or if its resolver's value could not be completed.
    Root fields of a mutation run one after the other (spec, section 6.2.2). So if one of them failed, others may have run unseen.
    """
    keys = root_keys(query)
    if present(data, keys):
        return "read"
    paths = [path_of(error) for error in errors]
    if any(len(path) > 1 for path in paths) or any(
        path and _is_incomplete(error) for path, error in zip(paths, errors, strict=True)
    ):
        return "unread"
    named = {path[0] for path in paths if path}
    if all(paths) and len(keys) > 1 and not named.issuperset(keys):
        return "unread"
    return None


def _is_incomplete(error: Json) -> bool:
    message = at(error, "message")
    return isinstance(message, str) and _INCOMPLETE.search(message[:1000]) is not None


def root_keys(query: str) -> tuple[str, ...]:
    """Return the response names of the root fields of an operation, without `__typename`."""
    try:
        definitions = parse(query, no_location=True).definitions
    except (GraphQLError, RecursionError):
        return ()
    fragments = {one.name.value: one.selection_set for one in definitions if isinstance(one, FragmentDefinitionNode)}

    def keys(selections: SelectionSetNode, above: frozenset[str]) -> Iterator[str]:
        for node in selections.selections:
            match node:
                case FieldNode():
                    if node.name.value != "__typename":
                        yield (node.alias or node.name).value
                case InlineFragmentNode():
                    yield from keys(node.selection_set, above)
                case FragmentSpreadNode(name=name) if name.value in fragments and name.value not in above:
                    yield from keys(fragments[name.value], above | {name.value})

    operations = [one for one in definitions if isinstance(one, OperationDefinitionNode)]
    return tuple(dict.fromkeys(key for one in operations for key in keys(one.selection_set, frozenset())))


def path_of(error: Json) -> Sequence[Json]:
    path = error.get("path") if isinstance(error, Mapping) else None
    return path if isinstance(path, Sequence) and not isinstance(path, str) else ()


def rejection_of(data: JsonObject, asked: ResponseContext) -> Error | None:
    """Return the service's reason in the payload for not making the change (`userErrors`, `success: false`), or None if there is none."""
    found: list[Json] = []
    failed: list[Json] = []
    refused: set[str] = set()
    names = {path[-1] for path in asked.rejections}
    others = False
    for path in asked.rejections:
        for payload in _payloads(data, path[:-1]):
            said = payload.get(path[-1])
            others |= said is True
            if said is False:
                failed.append(why(payload, path[-1]))
            elif isinstance(said, Sequence) and not isinstance(said, str) and said:
                found += said
            elif isinstance(said, Mapping) or (isinstance(said, str) and said.strip()):
                found.append(said)
            else:
                continue
            refused.add(path[0])
            others |= any(isinstance(one, Mapping | list) and one for key, one in payload.items() if key not in names)
    others |= any(one is not None for key, one in data.items() if key not in refused)
    if not (found := found or failed):
        return None
    return rejected(found, partly=others)


def _payloads(value: Json, path: tuple[str, ...]) -> Iterator[JsonObject]:
    """Yield the objects at the end of a path; each list on the way is replaced by its items."""
    match value:
        case Mapping() if path:
            yield from _payloads(value.get(path[0]), path[1:])
        case Mapping():
            yield value
        case list() | tuple():
            for one in value:
                yield from _payloads(one, path)
