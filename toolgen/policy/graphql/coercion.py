"""Documents' values as the arguments of the tools that they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphql import GraphQLInputObjectType, GraphQLInputType, GraphQLList, GraphQLNonNull, Undefined

__all__ = ["listed"]


def listed(type_: GraphQLInputType, value: Any) -> Any:
    """A value of a document with lists where a single item stands for one (spec, section 3.11), and without what a variable that is not
    given leaves out (section 3.10)."""
    inner = type_.of_type if isinstance(type_, GraphQLNonNull) else type_
    match inner:
        case GraphQLList():
            if value is None:
                return None
            items = value if isinstance(value, list) else [value]
            return [None if item is Undefined else listed(inner.of_type, item) for item in items]
        case GraphQLInputObjectType() if isinstance(value, Mapping):
            known = inner.fields
            given = {key: one for key, one in value.items() if one is not Undefined}
            return {key: listed(known[key].type, one) if key in known else one for key, one in given.items()}
        case _:
            return value
