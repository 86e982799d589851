"""Cascades of a change in PostgreSQL: what the change of a table triggers, and how many rows of all tables the transaction changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import psycopg
from psycopg import sql

from toolgen.model.call import Statement
from toolgen.model.database import POSTGRES_CASCADES, Cascade

__all__ = ["cascades", "touched"]

_Connection: TypeAlias = psycopg.AsyncConnection[tuple[object, ...]]

# https://www.postgresql.org/docs/current/monitoring-stats.html: a TOAST table holds parts of rows that were counted.
_TOUCHED: Final = """
SELECT CASE WHEN pg_catalog.current_setting('track_counts')::bool THEN coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) ELSE -1 END::int8
FROM pg_catalog.pg_stat_xact_all_tables WHERE schemaname <> 'pg_toast'
"""
_THERE: Final = (
    "SELECT pg_catalog.array_agg(n) FROM pg_catalog.unnest(%s::text[]) n WHERE pg_catalog.to_regclass(n) IS NOT NULL"
)


async def cascades(connection: _Connection, statement: Statement) -> list[Cascade]:
    """Return the cascades of a change, read from the current catalog. Raises psycopg's errors, also for a table that no longer exists."""
    names = [
        sql.Identifier(schema or "public", table).as_string(connection)
        for name in statement.tables
        for schema, table in _meant(name)
    ]
    there = await (await connection.execute(_THERE, (names,))).fetchone()
    found = await connection.execute(POSTGRES_CASCADES, ((there[0] if there else None) or names,))
    return [
        Cascade(on=str(kind), by=str(what), columns=tuple(map(str, columns)) if isinstance(columns, list) else ())
        for _, kind, what, columns in await found.fetchall()
    ]


def _meant(name: str) -> Iterator[tuple[str, str]]:
    """Yield every schema and table that `schema.table` may mean, because a name may contain a dot."""
    parts = name.split(".")
    for index in range(len(parts)):
        yield ".".join(parts[:index]), ".".join(parts[index:])


async def touched(connection: _Connection) -> int:
    """Return the rows of all tables changed by this session so far, to be subtracted; less than 0 if the server does not count."""
    found = await (await connection.execute(_TOUCHED)).fetchone()
    return int(str(found[0])) if found is not None else -1
