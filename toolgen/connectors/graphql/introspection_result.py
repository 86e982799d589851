"""Answer to the introspection query (GraphQL October 2021, section 4), parsed strictly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, TypeAlias

import msgspec
from graphql import GraphQLError, parse_const_value

from toolgen.connectors.graphql.repair import DescriptionFault

__all__ = ["parse_introspection"]

# SDL's grammar guarantees valid names; JSON does not, and names become part of the text of operations.
_Name: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[_A-Za-z][_0-9A-Za-z]*\Z")]


class _Ref(msgspec.Struct, rename="camel"):
    kind: str = "OBJECT"
    name: _Name | None = None
    of_type: _Ref | None = None


class _Deprecable(msgspec.Struct, rename="camel"):
    name: _Name
    description: str | None = None
    is_deprecated: bool | None = False
    deprecation_reason: str | None = None


class _IntrospectedInput(_Deprecable, rename="camel", kw_only=True):
    type: _Ref
    default_value: str | None = None


class _Field(_Deprecable, rename="camel", kw_only=True):
    type: _Ref
    args: list[_IntrospectedInput] = []


class _Type(msgspec.Struct, rename="camel"):
    kind: str
    name: _Name
    description: str | None = None
    fields: list[_Field] | None = None
    input_fields: list[_IntrospectedInput] | None = None
    interfaces: list[_Ref] | None = None
    enum_values: list[_Deprecable] | None = None
    possible_types: list[_Ref] | None = None
    specified_by_url: str | None = msgspec.field(name="specifiedByURL", default=None)
    is_one_of: bool | None = None


class _Directive(msgspec.Struct, rename="camel"):
    name: _Name
    locations: list[str]
    description: str | None = None
    args: list[_IntrospectedInput] = []
    is_repeatable: bool | None = False


class _Schema(msgspec.Struct, rename="camel"):
    types: list[_Type]
    query_type: _Ref | None = None
    mutation_type: _Ref | None = None
    subscription_type: _Ref | None = None
    directives: list[_Directive] = []
    description: str | None = None


def parse_introspection(schema: object) -> tuple[Any, tuple[DescriptionFault, ...]]:
    """Return the value of `__schema` for graphql-core's `build_client_schema`, and the parts that were left out.

    Raises `msgspec.ValidationError`, which names the place, for another shape.
    """
    parsed = msgspec.convert(schema, type=_Schema)
    faults = tuple(_drop_defaults(parsed))
    return msgspec.to_builtins(parsed), faults


def _drop_defaults(schema: _Schema) -> Iterator[DescriptionFault]:
    """Remove default values that are not GraphQL: some services print those of their own language."""
    for type_ in schema.types:
        yield from _drop_from(type_.input_fields or (), type_.name)
        for field in type_.fields or ():
            yield from _drop_from(field.args, f"{type_.name}.{field.name}")
    for directive in schema.directives:
        yield from _drop_from(directive.args, f"@{directive.name}")


def _drop_from(inputs: Iterable[_IntrospectedInput], owner: str) -> Iterator[DescriptionFault]:
    for one in inputs:
        if one.default_value is None:
            continue
        try:
            parse_const_value(one.default_value, no_location=True)
        except GraphQLError:
            one.default_value = None
            message = f"the default value of {one.name} is not GraphQL and was left out"
            yield DescriptionFault(code="invalid_default", origin=owner, message=message)
