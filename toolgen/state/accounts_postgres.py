"""Rows of accounts in PostgreSQL: shared by all gateways of a project, which have the same key-encryption keys."""

# ruff: noqa: S608 - names of tables and the time are constants of this module

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.state.accounts import AccountRow
from toolgen.state.key_encryption import SealedRecord

if TYPE_CHECKING:
    from psycopg import AsyncConnection

__all__ = ["PostgresAccountRows"]

R = TypeVar("R")
_TIMEOUT_S = 10
_NOW = "extract(epoch FROM clock_timestamp())"
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
    """Rows in PostgreSQL, over one connection of this process, which is opened at the first use and again after a loss. Times are those of
    the server.

    `location` returns the address of the database, which may contain a password.
    """

    def __init__(self, location: Callable[[], str]) -> None:
        self._location = location
        self._connection: AsyncConnection[tuple[Any, ...]] | None = None
        self._turn = asyncio.Lock()

    def __repr__(self) -> str:
        return "PostgresAccountRows(***)"

    async def get(self, row_id: str) -> AccountRow | None:
        found = await self._rows(f"{_ROW} WHERE id = %s", row_id)
        return _row(found[0]) if found else None

    async def put(self, row: AccountRow) -> bool:
        sealed = (row.record.key_id, row.record.wrapped, row.record.box)
        if row.version == 1:
            insert = "INSERT INTO toolgen_accounts VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
            return await self._changed(insert, row.id, row.person, row.version, *sealed)
        update = (
            "UPDATE toolgen_accounts SET version = %s, key = %s, wrapped = %s, box = %s WHERE id = %s AND version = %s"
        )
        return await self._changed(update, row.version, *sealed, row.id, row.version - 1)

    async def remove(self, row_id: str) -> bool:
        return await self._changed("DELETE FROM toolgen_accounts WHERE id = %s", row_id)

    async def of(self, person: str) -> Sequence[AccountRow]:
        return [_row(one) for one in await self._rows(f"{_ROW} WHERE person = %s", person)]

    async def all(self) -> Sequence[AccountRow]:
        return [_row(one) for one in await self._rows(_ROW)]

    async def lock(self, row_id: str, holder: str, seconds: float) -> bool:
        statement = (
            f"INSERT INTO toolgen_account_locks AS held VALUES (%s, %s, {_NOW} + %s) ON CONFLICT (id) DO UPDATE "
            f"SET holder = excluded.holder, until = excluded.until WHERE held.until <= {_NOW} OR held.holder = excluded.holder"
        )
        return await self._changed(statement, row_id, holder, seconds)

    async def unlock(self, row_id: str, holder: str) -> None:
        await self._changed("DELETE FROM toolgen_account_locks WHERE id = %s AND holder = %s", row_id, holder)

    async def keep(self, link_id: str, group: str, seconds: float, record: SealedRecord, most: int) -> None:
        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> None:
            async with connection.transaction():
                await connection.execute(f"DELETE FROM toolgen_account_links WHERE expires <= {_NOW}")
                newest = "SELECT id FROM toolgen_account_links WHERE party = %s ORDER BY expires DESC LIMIT %s"
                await connection.execute(
                    f"DELETE FROM toolgen_account_links WHERE party = %s AND id NOT IN ({newest})",
                    (group, group, most - 1),
                )
                row = (link_id, group, seconds, record.key_id, record.wrapped, record.box)
                await connection.execute(
                    f"INSERT INTO toolgen_account_links VALUES (%s, %s, {_NOW} + %s, %s, %s, %s)",
                    row,
                )

        await self._run(work)

    async def link(self, link_id: str, *, take: bool) -> SealedRecord | None:
        where = f"WHERE id = %s AND expires > {_NOW}"
        columns = "key, wrapped, box"
        if take:
            statement = f"DELETE FROM toolgen_account_links {where} RETURNING {columns}"
        else:
            statement = f"SELECT {columns} FROM toolgen_account_links {where}"
        found = await self._rows(statement, link_id)
        return SealedRecord(key_id=found[0][0], wrapped=bytes(found[0][1]), box=bytes(found[0][2])) if found else None

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
            return await (await connection.execute(statement.encode(), values)).fetchall()

        return await self._run(work)

    async def _changed(self, statement: str, *values: object) -> bool:
        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> bool:
            return (await connection.execute(statement.encode(), values)).rowcount == 1

        return await self._run(work)

    async def _run(self, work: Callable[[AsyncConnection[tuple[Any, ...]]], Awaitable[R]]) -> R:
        """Run work on the connection, one at a time. A connection that failed is not used again. Raises `StateError`."""
        try:
            import psycopg  # noqa: PLC0415 - behind the extra `postgres`
        except ImportError:
            raise StateError(
                "accounts in PostgreSQL need psycopg", suggestion='install it with: pip install "toolgen[postgres]"'
            ) from None
        async with self._turn:
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    if self._connection is None:
                        self._connection = await psycopg.AsyncConnection.connect(self._location(), autocommit=True)
                        await self._connection.execute(_SCHEMA.encode())
                    return await work(self._connection)
            except (psycopg.Error, TimeoutError, OSError) as error:
                await self._drop()
                raise StateUnavailableError(
                    f"accounts cannot be stored or read: PostgreSQL cannot be used ({type(error).__name__})"
                ) from None
            except asyncio.CancelledError:
                await self._drop()  # an answer may still be on its way
                raise

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def _row(found: tuple[Any, ...]) -> AccountRow:
    record = SealedRecord(key_id=found[3], wrapped=bytes(found[4]), box=bytes(found[5]))
    return AccountRow(id=found[0], person=found[1], version=found[2], record=record)
