"""Coercion of values by a GraphQL service (spec, section 3, input coercion), including that of its own scalars."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from toolgen.model.schema import Json, json_type
from toolgen.policy.readings.shape import SchemaShape
from toolgen.policy.readings.values import distinct, number_of, text_of

__all__ = ["LiteralForms", "coerced", "is_coerced", "is_open"]


class LiteralForms(Enum):
    """Notations of a number and of text."""

    MEANT = auto()  # by the type: an ID is text, a scalar of large numbers is a number
    TEXT = auto()
    NUMBER = auto()


def coerced(shape: SchemaShape, value: Json) -> list[Json]:
    """Return the value as a service coerces it, and then in its other notations."""
    return distinct(_spelled(shape, value, spelling) for spelling in LiteralForms)


def is_coerced(shape: SchemaShape) -> bool:
    """Return True if a part of the values of this shape has a second spelling."""
    return any(one.twofold for one in shape.below())


def is_open(shape: SchemaShape) -> bool:
    """Return True if a part of the values has two spellings and the description does not say which one is meant."""
    return any(one.twofold and not one.identifies and not one.counts for one in shape.below())


def _spelled(shape: SchemaShape, value: Json, spelling: LiteralForms) -> Json:
    match value:
        case bool() | None:
            return value
        case Mapping():
            made = {name: _spelled(shape.member(name), item, spelling) for name, item in value.items()}
            return made if any(made[name] is not item for name, item in value.items()) else value
        case str() | int() | float():
            return _scalar(shape, value, spelling) if shape.twofold else value
        case _:
            items = [_spelled(shape.items, item, spelling) for item in value]
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value


def _scalar(shape: SchemaShape, value: str | int | float, spelling: LiteralForms) -> Json:
    text = spelling is LiteralForms.TEXT or (spelling is LiteralForms.MEANT and shape.identifies)
    if text:
        whole = int(value) if isinstance(value, float) and value.is_integer() else value
        return value if isinstance(value, str) else text_of(whole)
    if spelling is LiteralForms.MEANT and not shape.counts:
        return value
    number = number_of(value) if isinstance(value, str) else value
    return value if number is None or json_type(number) not in shape.kinds else number
