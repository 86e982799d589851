"""Privileges of a database account, read from the database itself: grants by table and column, and powers that go beyond tables."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Power", "Rights", "Sequence", "TablePrivilege"]


class TablePrivilege(Struct, frozen=True, kw_only=True, order=True):
    """A privilege on a table (`table` as in `Database`: `schema.table` outside the default schema), or on one `column` of it."""

    table: str
    privilege: str  # SELECT, INSERT, … in capital letters
    column: str = ""


class Power(Struct, frozen=True, kw_only=True, order=True):
    """Something an account can do that no policy opens. `harmless` for what only needs to be known.

    `remedy` is a statement that takes it from everybody, where everybody has it, and "" where it is this account's own.
    """

    code: str
    message: str
    harmless: bool = False
    remedy: str = ""


class Sequence(Struct, frozen=True, kw_only=True, order=True):
    """A sequence that gives a column of `table` its values."""

    name: str
    table: str


class Rights(Struct, frozen=True, kw_only=True):
    """`account` is "" for a file. `unlimited`: no grant is asked about for it, so that none is listed.

    `unbounded`: what of the server the account may take any amount of: `sessions`, `temporary files`.
    """

    account: str
    grants: tuple[TablePrivilege, ...] = ()
    powers: tuple[Power, ...] = ()
    sequences: tuple[Sequence, ...] = ()
    unlimited: bool = False
    unbounded: tuple[str, ...] = ()
