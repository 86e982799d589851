"""Tree of the types that read configuration files: keys, their types and defaults."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from toolgen.core.yaml_file import SHAPE

__all__ = ["accepts", "alternatives", "default_of", "fields_of", "inner", "mapping_value", "structure_of"]


@cache
def structure_of(kind: type[msgspec.Struct]) -> inspect.StructType:
    """Return a Struct's type."""
    found = inspect.type_info(kind)
    if not isinstance(found, inspect.StructType):
        raise TypeError(f"{kind.__name__} is no Struct")
    return found


def fields_of(info: inspect.Type) -> dict[str, inspect.Field]:
    """Return the keys that a mapping of this type has, by name; {} without keys of its own."""
    return {
        field.encode_name: field
        for one in alternatives(info)
        if isinstance(one, inspect.StructType)
        for field in one.fields
    }


def alternatives(info: inspect.Type) -> Iterator[inspect.Type]:
    """Yield the types allowed there. A value that is decoded separately counts as the type it is decoded to."""
    if isinstance(info, inspect.UnionType):
        for one in info.types:
            yield from alternatives(one)
    elif isinstance(info, inspect.Metadata):
        kind = (info.extra or {}).get(SHAPE)
        yield from alternatives(info.type) if kind is None else [structure_of(kind)]
    else:
        yield info


def mapping_value(info: inspect.Type) -> inspect.Type | None:
    """Return the type of the values of a mapping with any keys; None for another type."""
    return next((one.value_type for one in alternatives(info) if isinstance(one, inspect.DictType)), None)


def inner(info: inspect.Type, step: str | int) -> inspect.Type | None:
    """Return the type of the value at a key or index; None if there is none."""
    if isinstance(step, int):
        return next((one.item_type for one in alternatives(info) if isinstance(one, inspect.ListType)), None)
    field = fields_of(info).get(step)
    return field.type if field is not None else mapping_value(info)


_SCALARS: dict[type[inspect.Type], tuple[type, ...]] = {
    inspect.StrType: (str,),
    inspect.IntType: (int,),
    inspect.FloatType: (int, float),
    inspect.BoolType: (bool,),
}


def accepts(info: inspect.Type, value: object) -> bool:
    """Return True if a scalar, or a list of text, is of one of the types allowed there."""
    for one in alternatives(info):
        if isinstance(one, inspect.AnyType):
            return True
        if isinstance(one, (inspect.LiteralType, inspect.EnumType)) and isinstance(value, str):
            return True
        if isinstance(one, inspect.ListType) and isinstance(value, list):
            return all(accepts(one.item_type, item) for item in value)
        if type(value) in _SCALARS.get(type(one), ()):
            return True
    return False


def default_of(field: inspect.Field) -> Any:
    """Return the default of a key as plain data; None if it has none."""
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.to_builtins(field.default_factory())
    nothing = field.default is msgspec.NODEFAULT or field.default is msgspec.UNSET
    return None if nothing else msgspec.to_builtins(field.default)
