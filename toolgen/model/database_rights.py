"""Privileges of a database account, read from the database itself: grants by table and column, and rights beyond tables."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Power", "Rights", "Sequence", "TablePrivilege"]


class TablePrivilege(Struct, frozen=True, kw_only=True, order=True):
    """Privilege on a table (`table` as in `Database`: `schema.table` outside the default schema), or on one `column` of it."""

    table: str
    privilege: str  # SELECT, INSERT, … in capital letters
    column: str = ""


class Power(Struct, frozen=True, kw_only=True, order=True):
    """Right of an account beyond any policy. `harmless` rights are only reported.

    `remedy` is a statement that revokes it from PUBLIC, if it comes from there, and "" if it is this account's own.
    """

    code: str
    message: str
    harmless: bool = False
    remedy: str = ""


class Sequence(Struct, frozen=True, kw_only=True, order=True):
    """Sequence that generates the values of a column of `table`."""

    name: str
    table: str


class Rights(Struct, frozen=True, kw_only=True):
    """Rights of an account. `account` is "" for a file. `unlimited`: grants do not apply to it, so none is listed.

    `unbounded`: resources of the server without a limit for the account: `sessions`, `temporary files`.
    """

    account: str
    grants: tuple[TablePrivilege, ...] = ()
    powers: tuple[Power, ...] = ()
    sequences: tuple[Sequence, ...] = ()
    unlimited: bool = False
    unbounded: tuple[str, ...] = ()
