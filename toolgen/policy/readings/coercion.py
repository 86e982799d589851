"""What a GraphQL service makes of a value before it looks at it (spec, section 3, input coercion), and may make of its own scalars."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from toolgen.model.schema import Json
from toolgen.policy.readings.shape import Shape
from toolgen.policy.readings.values import distinct, kind_of, number_of, text_of

__all__ = ["Spelling", "coerced", "is_coerced", "is_open"]


class Spelling(Enum):
    """The ways to write what stands for a number and for text."""

    MEANT = auto()  # as the type has it: an ID is text, a scalar of large numbers is a number
    TEXT = auto()
    NUMBER = auto()


def coerced(shape: Shape, value: Json) -> list[Json]:
    """The value as a service takes it, and then in its other spellings."""
    return distinct(_spelled(shape, value, spelling) for spelling in Spelling)


def is_coerced(shape: Shape) -> bool:
    """Whether anything in values of this shape has a second spelling."""
    return any(one.twofold for one in shape.below())


def is_open(shape: Shape) -> bool:
    """Whether anything in them is of a type of which nobody said which spelling is meant."""
    return any(one.twofold and not one.identifies and not one.counts for one in shape.below())


def _spelled(shape: Shape, value: Json, spelling: Spelling) -> Json:
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


def _scalar(shape: Shape, value: str | int | float, spelling: Spelling) -> Json:
    text = spelling is Spelling.TEXT or (spelling is Spelling.MEANT and shape.identifies)
    if text:
        whole = int(value) if isinstance(value, float) and value.is_integer() else value
        return value if isinstance(value, str) else text_of(whole)
    if spelling is Spelling.MEANT and not shape.counts:
        return value
    number = number_of(value) if isinstance(value, str) else value
    return value if number is None or kind_of(number) not in shape.kinds else number
