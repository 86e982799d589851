"""Rows of the sign-in in PostgreSQL: shared by all gateways of a project, which have the same key-encryption keys."""

# ruff: noqa: S608 - names of tables and the time are constants of this module

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from toolgen.state.key_encryption import SealedRecord
from toolgen.state.postgres_session import NOW, PostgresSession, TransactionStep
from toolgen.state.sign_in import SignInRow

__all__ = ["PostgresSignInRows"]

_SCHEMA = """
SELECT pg_advisory_xact_lock(7301884520143);
CREATE TABLE IF NOT EXISTS toolgen_sign_in (
  kind text NOT NULL, id text NOT NULL, party text NOT NULL, version bigint NOT NULL, expires double precision NOT NULL,
  key text NOT NULL, wrapped bytea NOT NULL, box bytea NOT NULL, PRIMARY KEY (kind, id)
);
CREATE INDEX IF NOT EXISTS toolgen_sign_in_party ON toolgen_sign_in (kind, party, expires);
CREATE INDEX IF NOT EXISTS toolgen_sign_in_expires ON toolgen_sign_in (expires)
"""
_COLUMNS = f"kind, id, party, version, expires - {NOW}, key, wrapped, box"
_ROW = f"SELECT {_COLUMNS} FROM toolgen_sign_in"
_INSERT = (
    f"INSERT INTO toolgen_sign_in VALUES (%s, %s, %s, %s, {NOW} + %s, %s, %s, %s) ON CONFLICT (kind, id) DO NOTHING"
)
_UPDATE = (
    f"UPDATE toolgen_sign_in SET party = %s, version = %s, expires = {NOW} + %s, key = %s, wrapped = %s, box = %s "
    "WHERE kind = %s AND id = %s AND version = %s"
)


class PostgresSignInRows:
    """Rows in PostgreSQL. A reader of the database sees digests and encrypted boxes. Times are those of the server.

    `location` returns the address of the database, which may contain a password.
    """

    def __init__(self, location: Callable[[], str]) -> None:
        self._session = PostgresSession(location, _SCHEMA, "sign-ins")

    def __repr__(self) -> str:
        return "PostgresSignInRows(***)"

    async def get(self, kind: str, row_id: str) -> SignInRow | None:
        found = await self._session.rows(f"{_ROW} WHERE kind = %s AND id = %s AND expires > {NOW}", kind, row_id)
        return _row(found[0]) if found else None

    async def put(self, row: SignInRow, most: int) -> bool:
        kept = (row.group, row.version, row.seconds, row.record.key_id, row.record.wrapped, row.record.box)

        if row.version == 1:
            write = TransactionStep(_INSERT, (row.kind, row.id, *kept), decisive=True)
        else:
            write = TransactionStep(_UPDATE, (*kept, row.kind, row.id, row.version - 1), decisive=True)
        statements = [TransactionStep(f"DELETE FROM toolgen_sign_in WHERE expires <= {NOW}"), write]
        if most:
            newest = "SELECT id FROM toolgen_sign_in WHERE kind = %s AND party = %s ORDER BY expires DESC LIMIT %s"
            shorten = f"DELETE FROM toolgen_sign_in WHERE kind = %s AND party = %s AND id NOT IN ({newest})"
            statements.append(TransactionStep(shorten, (row.kind, row.group, row.kind, row.group, most)))
        return await self._session.transaction(*statements)

    async def take(self, kind: str, row_id: str) -> SignInRow | None:
        statement = f"DELETE FROM toolgen_sign_in WHERE kind = %s AND id = %s AND expires > {NOW} RETURNING {_COLUMNS}"
        found = await self._session.rows(statement, kind, row_id)
        return _row(found[0]) if found else None

    async def of(self, kind: str, group: str) -> Sequence[SignInRow]:
        if group == "*":
            found = await self._session.rows(f"{_ROW} WHERE kind = %s AND expires > {NOW}", kind)
        else:
            found = await self._session.rows(f"{_ROW} WHERE kind = %s AND party = %s AND expires > {NOW}", kind, group)
        return [_row(one) for one in found]

    async def count(self, kind: str, group: str) -> int:
        statement = f"SELECT count(*) FROM toolgen_sign_in WHERE kind = %s AND party = %s AND expires > {NOW}"
        return int((await self._session.rows(statement, kind, group))[0][0])

    async def close(self) -> None:
        await self._session.close()


def _row(found: tuple[Any, ...]) -> SignInRow:
    kind, row_id, group, version, seconds, key_id, wrapped, box = found
    return SignInRow(
        kind=kind,
        id=row_id,
        group=group,
        version=version,
        seconds=float(seconds),
        record=SealedRecord(key_id=key_id, wrapped=bytes(wrapped), box=bytes(box)),
    )
