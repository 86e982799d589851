"""Original of a GraphQL schema: descriptions of its types, fields, arguments and values."""

from __future__ import annotations

from collections.abc import Iterator

from graphql import GraphQLEnumType, GraphQLInputObjectType, GraphQLInterfaceType, GraphQLObjectType, GraphQLSchema

from toolgen.connectors.graphql.description import load_description
from toolgen.connectors.original import ModelText, Original, described
from toolgen.connectors.source import SourceConfig, is_remote

__all__ = ["read_original"]


def read_original(config: SourceConfig) -> Original:
    """Read a schema from its file or pinned copy. A live endpoint without a pinned copy is not queried again. Raises `DescriptionError`."""
    if is_remote(config) and config.pin is None:
        return Original()
    return Original(texts=tuple(_texts(load_description(config.file).schema)))


def _texts(schema: GraphQLSchema) -> Iterator[ModelText]:
    for name, kind in schema.type_map.items():
        if name.startswith("__"):
            continue
        yield from described(name, kind.description)
        if isinstance(kind, (GraphQLObjectType, GraphQLInterfaceType)):
            for field_name, field in kind.fields.items():
                yield from described(f"{name}.{field_name}", field.description)
                for argument_name, argument in field.args.items():
                    yield from described(f"{name}.{field_name}({argument_name}:)", argument.description)
        elif isinstance(kind, GraphQLInputObjectType):
            for field_name, input_field in kind.fields.items():
                yield from described(f"{name}.{field_name}", input_field.description)
        elif isinstance(kind, GraphQLEnumType):
            for value_name, value in kind.values.items():
                yield from described(f"{name}.{value_name}", value.description)
