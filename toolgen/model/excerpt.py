"""Excerpts of text, and the masking of values before a text is cut: half of a value is nothing that a later look would find."""

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
        """The text with tokens in place of the values that the call was given for them."""

    def message(self, text: str) -> str:
        """The text as its caller may be told it, without pieces of the values either."""

    def end(self, text: str, limit: int) -> int:
        """The place up to `limit` where a text may be cut: never within something that is hidden from the caller."""


_CURRENT: ContextVar[Masking | None] = ContextVar("toolgen_masking", default=None)


@contextmanager
def masking(current: Masking | None) -> Iterator[None]:
    """Texts are masked so within the block; None leaves what is in force."""
    if current is None:
        yield
        return
    before = _CURRENT.set(current)
    try:
        yield
    finally:
        _CURRENT.reset(before)


def current_masking() -> Masking | None:
    """The masking in force, None outside of calls that need one."""
    return _CURRENT.get()


def bounded(text: str, limit: int = MAX_MESSAGE_LENGTH) -> str:
    """The text, cut with an ellipsis when it is longer than `limit` characters. Values behind tokens are masked first."""
    mask = _CURRENT.get()
    if mask is None:
        return text if len(text) <= limit else text[: limit - 1] + "…"
    text = mask.text(text)
    return text if len(text) <= limit else text[: mask.end(text, limit - 1)] + "…"
