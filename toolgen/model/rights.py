"""What a database account can do, read from the database itself: grants by table and column, and powers that go beyond tables."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Grant", "Power", "Rights", "Sequence"]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Grant:
    """One privilege on a table (`table` as in `Database`: `schema.table` outside the default schema), or on one `column` of it."""

    table: str
    privilege: str  # SELECT, INSERT, … in capital letters
    column: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Power:
    """Something an account can do that no policy opens. `harmless` for what only needs to be known.

    `remedy` is a statement that takes it from everybody, where everybody has it, and "" where it is this account's own.
    """

    code: str
    message: str
    harmless: bool = False
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Sequence:
    """A sequence that gives a column of `table` its values."""

    name: str
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """`account` is "" for a file. `unlimited`: no grant is asked about for it, so that none is listed."""

    account: str
    grants: tuple[Grant, ...] = ()
    powers: tuple[Power, ...] = ()
    sequences: tuple[Sequence, ...] = ()
    unlimited: bool = False
