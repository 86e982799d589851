"""Excerpts of text, and the masking of values before a text is cut, because a later check would not find half of a value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

__all__ = ["MAX_MESSAGE_LENGTH", "Masking", "bounded", "current_masking", "masking"]

MAX_MESSAGE_LENGTH = 1000


class Masking(Protocol):
    """Masking of texts that the caller of one call is shown.

    A protocol, because the policy implements it, which the model must not import.
    """

    def text(self, text: str) -> str:
        """Return the text with tokens in place of the values that the call received for them."""

    def message(self, text: str) -> str:
        """Return the text for its caller, without pieces of the values either."""

    def end(self, text: str, limit: int) -> int:
        """Return the position up to `limit` where a text may be cut: never within a value that is hidden from the caller."""


_CURRENT: ContextVar[Masking | None] = ContextVar("toolgen_masking", default=None)


@contextmanager
def masking(current: Masking | None) -> Iterator[None]:
    """Set the masking within the block; None leaves the current one."""
    if current is None:
        yield
        return
    before = _CURRENT.set(current)
    try:
        yield
    finally:
        _CURRENT.reset(before)


def current_masking() -> Masking | None:
    """Return the current masking, None outside of calls that need one."""
    return _CURRENT.get()


def bounded(text: str, limit: int = MAX_MESSAGE_LENGTH) -> str:
    """Return the text, cut with an ellipsis if it is longer than `limit` characters. Values behind tokens are masked first."""
    mask = _CURRENT.get()
    if mask is None:
        return text if len(text) <= limit else text[: limit - 1] + "…"
    text = mask.text(text)
    return text if len(text) <= limit else text[: mask.end(text, limit - 1)] + "…"
