"""Archive of the policies that were in force, with their content, and of the last use of each key."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from toolgen.state.sqlite_file import LASTING, SqliteFile, transaction

__all__ = ["SeenPolicies", "SeenPolicy"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS policies (digest TEXT PRIMARY KEY, first REAL NOT NULL, last REAL NOT NULL, files TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS keys (id TEXT PRIMARY KEY, last REAL NOT NULL)
"""
_MAX_POLICIES = 1000  # number of stored policies; the least recent are removed first


class SeenPolicy(Struct, frozen=True, kw_only=True):
    """Policy that was in force: its digest, and the times (seconds since the epoch) at which it first and last came into force."""

    digest: str
    first: float
    last: float


class SeenPolicies:
    """Archive in a file that every process of a machine writes. It contains no secrets."""

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(path, kept="the archive of policies and uses of keys", schema=_SCHEMA, pragmas=LASTING)

    async def policy(self, digest: str, files: Mapping[str, Any], now: float) -> None:
        """Record a policy that came into force, with the content of its files. Raises `StateError`, like all methods."""
        text = json.dumps(files, ensure_ascii=False, default=str)

        def write(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                connection.execute(
                    "INSERT INTO policies VALUES (?, ?, ?, ?) ON CONFLICT (digest) DO UPDATE SET last = excluded.last",
                    (digest, now, now, text),
                )
                connection.execute(
                    "DELETE FROM policies WHERE digest IN (SELECT digest FROM policies ORDER BY last DESC LIMIT -1 OFFSET ?)",
                    (_MAX_POLICIES,),
                )

        await self._file.run(write)

    async def policies(self) -> tuple[SeenPolicy, ...]:
        """Return the policies with stored content, the most recent first."""
        found = await self._rows("SELECT digest, first, last FROM policies ORDER BY last DESC")
        return tuple(SeenPolicy(digest=digest, first=first, last=last) for digest, first, last in found)

    async def files(self, digest: str) -> Mapping[str, Any] | None:
        """Return the content of a policy's files, by name; None if it is not stored."""
        found = await self._rows("SELECT files FROM policies WHERE digest = ?", digest)
        return json.loads(found[0][0]) if found else None

    async def used(self, keys: Iterable[str], now: float) -> None:
        """Record the use of keys, by their public ids, at about this time."""
        rows = [(key, now) for key in keys]
        statement = "INSERT INTO keys VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET last = max(last, excluded.last)"
        await self._file.run(lambda connection: connection.executemany(statement, rows))

    async def uses(self) -> Mapping[str, float]:
        """Return the times of the last use of keys, by their ids."""
        return dict(await self._rows("SELECT id, last FROM keys"))

    async def close(self) -> None:
        """Close the file."""
        await self._file.close()

    async def _rows(self, statement: str, *values: object) -> list[Any]:
        if not self._file:
            return []
        return await self._file.run(lambda connection: connection.execute(statement, values).fetchall())
