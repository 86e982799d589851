"""Number of items that a field is asked for: given sizes, default sizes of a schema, and long lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

from graphql import GraphQLArgument, GraphQLInputField, GraphQLInputObjectType, Undefined, get_named_type
from msgspec import Struct

from toolgen.connectors.graphql.compiled_schema import DEFAULT
from toolgen.model.graphql_schema import MAX_INT, PAGE_SIZES, Graph, GraphArgument, longest_list, named, page_sizes

__all__ = ["ASSUMED", "compiled_items", "indexed_items"]

_MAX_DEPTH: Final = 12  # nesting of input objects whose defaults are read
_MAX_MEMBERS: Final = 1_000  # input objects read for one field
_Declared = TypeVar("_Declared")
ASSUMED: Final = 10
"""Assumed number of items of a list without a given size."""


def indexed_items(graph: Graph, declared: Mapping[str, GraphArgument], values: Mapping[str, Any]) -> int | None:
    """Return the number of items that the arguments of a field in a schema's index request; None if they give no size."""

    def members(one: GraphArgument) -> Mapping[str, GraphArgument]:
        known = graph.types.get(named(one.type))
        return known.inputs if known is not None else {}

    return _Reader(members, lambda one: one.default).items(declared, values)


def compiled_items(declared: Mapping[str, GraphQLArgument], values: Mapping[str, Any]) -> int | None:
    """Return the number of items that the arguments of a field of a compiled schema request; None if they give no size."""

    def members(one: GraphQLArgument | GraphQLInputField) -> Mapping[str, GraphQLArgument | GraphQLInputField]:
        inner = get_named_type(one.type)
        return inner.fields if isinstance(inner, GraphQLInputObjectType) else {}

    return _Reader(members, lambda one: one.extensions.get(DEFAULT)).items(declared, values)


class _Reader(Struct, Generic[_Declared]):
    """Reader of the arguments of one field."""

    members: Callable[[_Declared], Mapping[str, _Declared]]
    default: Callable[[_Declared], object]
    read: int = 0

    def items(self, declared: Mapping[str, _Declared], values: Mapping[str, Any]) -> int | None:
        """Return the largest size. Without a size argument, a list with more items than the assumed number counts too."""
        complete = {
            name: self._with_defaults(name, argument, values.get(name, Undefined), _MAX_DEPTH)
            for name, argument in declared.items()
        }
        found = {
            name: [
                int(min(size, MAX_INT)) for _, size in page_sizes(value, name, sized=name in PAGE_SIZES) if size >= 0
            ]
            for name, value in complete.items()
        }
        sizes = [size for one in found.values() for size in one]
        longest = longest_list(values)
        if longest > ASSUMED and not any(found[name] for name in PAGE_SIZES & found.keys()):
            sizes.append(longest)
        return max(sizes) if sizes else None

    def _with_defaults(self, name: str, declared: _Declared, value: object, depth: int) -> object:
        """Return the value with defaults inserted. A null size counts as absent: the service chooses the size in both cases."""
        self.read += 1
        if value is Undefined or (value is None and name in PAGE_SIZES):
            value = self.default(declared)
        if depth == 0 or self.read > _MAX_MEMBERS:
            return value
        if isinstance(value, list):
            return [self._with_members(declared, item, depth) for item in value]
        return self._with_members(declared, value, depth)

    def _with_members(self, declared: _Declared, value: object, depth: int) -> object:
        members = self.members(declared)
        if not members or not isinstance(value, Mapping):
            return value
        return {
            name: self._with_defaults(name, member, value.get(name, Undefined), depth - 1)
            for name, member in members.items()
        }
