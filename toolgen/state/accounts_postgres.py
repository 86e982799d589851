"""Rows of accounts in PostgreSQL: shared by all gateways of a project, which have the same key-encryption keys."""

# ruff: noqa: S608 - names of tables and the time are constants of this module

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from toolgen.state.accounts import AccountRow
from toolgen.state.key_encryption import SealedRecord
from toolgen.state.postgres_session import NOW, PostgresSession, TransactionStep

__all__ = ["PostgresAccountRows"]

_SCHEMA = """
SELECT pg_advisory_xact_lock(7301884520142);
CREATE TABLE IF NOT EXISTS toolgen_accounts (
  id text PRIMARY KEY, person text NOT NULL, version bigint NOT NULL, key text NOT NULL, wrapped bytea NOT NULL, box bytea NOT NULL
);
CREATE INDEX IF NOT EXISTS toolgen_accounts_person ON toolgen_accounts (person);
CREATE TABLE IF NOT EXISTS toolgen_account_locks (id text PRIMARY KEY, holder text NOT NULL, until double precision NOT NULL);
CREATE TABLE IF NOT EXISTS toolgen_account_links (
  id text PRIMARY KEY, party text NOT NULL, expires double precision NOT NULL, key text NOT NULL, wrapped bytea NOT NULL, box bytea NOT NULL
);
CREATE INDEX IF NOT EXISTS toolgen_account_links_party ON toolgen_account_links (party, expires)
"""
_ROW = "SELECT id, person, version, key, wrapped, box FROM toolgen_accounts"


class PostgresAccountRows:
    """Rows in PostgreSQL. Times are those of the server.

    `location` returns the address of the database, which may contain a password.
    """

    def __init__(self, location: Callable[[], str]) -> None:
        self._session = PostgresSession(location, _SCHEMA, "accounts")

    def __repr__(self) -> str:
        return "PostgresAccountRows(***)"

    async def get(self, row_id: str) -> AccountRow | None:
        found = await self._session.rows(f"{_ROW} WHERE id = %s", row_id)
        return _row(found[0]) if found else None

    async def put(self, row: AccountRow) -> bool:
        sealed = (row.record.key_id, row.record.wrapped, row.record.box)
        if row.version == 1:
            insert = "INSERT INTO toolgen_accounts VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
            return await self._session.changed(insert, row.id, row.person, row.version, *sealed)
        update = (
            "UPDATE toolgen_accounts SET version = %s, key = %s, wrapped = %s, box = %s WHERE id = %s AND version = %s"
        )
        return await self._session.changed(update, row.version, *sealed, row.id, row.version - 1)

    async def remove(self, row_id: str) -> bool:
        return await self._session.changed("DELETE FROM toolgen_accounts WHERE id = %s", row_id)

    async def of(self, person: str) -> Sequence[AccountRow]:
        return [_row(one) for one in await self._session.rows(f"{_ROW} WHERE person = %s", person)]

    async def all(self) -> Sequence[AccountRow]:
        return [_row(one) for one in await self._session.rows(_ROW)]

    async def lock(self, row_id: str, holder: str, seconds: float) -> bool:
        statement = (
            f"INSERT INTO toolgen_account_locks AS held VALUES (%s, %s, {NOW} + %s) ON CONFLICT (id) DO UPDATE "
            f"SET holder = excluded.holder, until = excluded.until WHERE held.until <= {NOW} OR held.holder = excluded.holder"
        )
        return await self._session.changed(statement, row_id, holder, seconds)

    async def unlock(self, row_id: str, holder: str) -> None:
        await self._session.changed("DELETE FROM toolgen_account_locks WHERE id = %s AND holder = %s", row_id, holder)

    async def keep(self, link_id: str, group: str, seconds: float, record: SealedRecord, most: int) -> None:
        newest = "SELECT id FROM toolgen_account_links WHERE party = %s ORDER BY expires DESC LIMIT %s"
        row = (link_id, group, seconds, record.key_id, record.wrapped, record.box)
        await self._session.transaction(
            TransactionStep(f"DELETE FROM toolgen_account_links WHERE expires <= {NOW}"),
            TransactionStep(
                f"DELETE FROM toolgen_account_links WHERE party = %s AND id NOT IN ({newest})", (group, group, most - 1)
            ),
            TransactionStep(f"INSERT INTO toolgen_account_links VALUES (%s, %s, {NOW} + %s, %s, %s, %s)", row),
        )

    async def link(self, link_id: str, *, take: bool) -> SealedRecord | None:
        where = f"WHERE id = %s AND expires > {NOW}"
        columns = "key, wrapped, box"
        if take:
            statement = f"DELETE FROM toolgen_account_links {where} RETURNING {columns}"
        else:
            statement = f"SELECT {columns} FROM toolgen_account_links {where}"
        found = await self._session.rows(statement, link_id)
        return SealedRecord(key_id=found[0][0], wrapped=bytes(found[0][1]), box=bytes(found[0][2])) if found else None

    async def close(self) -> None:
        await self._session.close()


def _row(found: tuple[Any, ...]) -> AccountRow:
    record = SealedRecord(key_id=found[3], wrapped=bytes(found[4]), box=bytes(found[5]))
    return AccountRow(id=found[0], person=found[1], version=found[2], record=record)
