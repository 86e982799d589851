"""Members of a server's request to a caller that people read: checked, and without hidden characters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from toolgen.model.client_channel import Unasked
from toolgen.model.excerpt import bounded
from toolgen.model.prompt_injection import visible
from toolgen.model.schema import Json, JsonObject

__all__ = ["MAX_NAME_LENGTH", "BadRequestError", "bounds_in", "is_name", "is_number", "is_shown", "request_text"]

MAX_NAME_LENGTH: Final = 100
_MAX_MESSAGE_LENGTH: Final = 4000


class BadRequestError(Unasked):
    """The request is not as MCP has it, or too large."""


def request_text(params: JsonObject, name: str, limit: int) -> str:
    """A text of a request without what nobody sees, at most `limit` characters long."""
    text = params.get(name)
    if not isinstance(text, str):
        raise BadRequestError(f"{name} must be a text")
    return bounded(visible(text).strip(), limit)


def bounds_in(field: JsonObject, names: tuple[str, ...], fits: Callable[[Json], bool]) -> dict[str, Json]:
    """Return the members `names` that fit."""
    return {name: field[name] for name in names if name in field and fits(field[name])}


def is_name(name: Json) -> bool:
    """Return True for a short text without hidden characters."""
    return isinstance(name, str) and 0 < len(name) <= MAX_NAME_LENGTH and is_shown(name)


def is_shown(value: Json) -> bool:
    """Return True for a text without hidden characters."""
    return isinstance(value, str) and len(value) <= _MAX_MESSAGE_LENGTH and visible(value) == value


def is_number(value: Json) -> bool:
    """Return True for a number that is no boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)
