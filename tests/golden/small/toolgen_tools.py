"""The tools of this catalog as typed functions. Written by `toolgen build --format python`; changes here are lost."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, Literal, NotRequired, Protocol, TypeAlias, TypedDict, TypeVar

ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""What an argument is that is left out, which is not the same as None."""


class Caller(Protocol[ResultT_co]):
    """What carries a call to the gateway: its Python object, a REST client, an MCP session."""

    async def call(self, name: str, arguments: dict[str, Any], /) -> ResultT_co: ...


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not ABSENT}


class Pet(TypedDict):
    parent: NotRequired[Pet]


async def catalog__get_product(
    caller: Caller[ResultT],
    *,
    id: str | int,
) -> ResultT:
    """One product."""
    return await caller.call(
        "catalog__get_product",
        _given(
            {
                "id": id,
            }
        ),
    )


async def petstore__update_pet(
    caller: Caller[ResultT],
    *,
    petId: int,
    body: Pet | Absent = ABSENT,
) -> ResultT:
    """Changes a pet.
    "Quotes", ünïcode and 🐕 stay as they are.
    """
    return await caller.call(
        "petstore__update_pet",
        _given(
            {
                "petId": petId,
                "body": body,
            }
        ),
    )


async def shop__list_tables(
    caller: Caller[ResultT],
) -> ResultT:
    """The tables there are."""
    return await caller.call(
        "shop__list_tables",
        {},
    )
