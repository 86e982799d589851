"""Changes in how calls of a tool are made, between two versions of it."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

__all__ = [
    "UNTOLD",
    "BindingChange",
    "Level",
    "addresses_text",
    "breaking",
    "change",
    "compatible",
    "one_line",
]

Level: TypeAlias = Literal["breaking", "compatible"]
UNTOLD: Final = "its meaning there is unknown"
_MAX_STATEMENT_LENGTH: Final = 300


class BindingChange(msgspec.Struct, frozen=True, kw_only=True):
    """Change between two versions of a tool. `code` is for programs, `message` for people."""

    level: Level
    code: str
    message: str


def change(is_breaking: bool, code: str, message: str) -> BindingChange:
    """Return a change of either level."""
    return BindingChange(level="breaking" if is_breaking else "compatible", code=code, message=message)


def breaking(code: str, message: str) -> BindingChange:
    """Return a change that can make a call fail, or give it another meaning."""
    return BindingChange(level="breaking", code=code, message=message)


def compatible(code: str, message: str) -> BindingChange:
    """Return a compatible change."""
    return BindingChange(level="compatible", code=code, message=message)


def one_line(statement: str) -> str:
    """Return text on one line for a list of changes, without characters that control a terminal."""
    text = " ".join(statement.split())
    shown = text if len(text) <= _MAX_STATEMENT_LENGTH else text[: _MAX_STATEMENT_LENGTH - 1] + "…"
    return "".join(character if character.isprintable() else "?" for character in shown)


def addresses_text(servers: tuple[str, ...]) -> str:
    """Return the addresses that calls go to, in their order."""
    return ", then ".join(servers) if any(servers) else "no server"
