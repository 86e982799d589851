"""What a change of a PostgreSQL table sets off, and how many rows of all tables it changed: asked inside of its transaction."""

from __future__ import annotations

from typing import Final, TypeAlias

import psycopg
from psycopg import sql

from toolgen.model.call import Statement
from toolgen.model.cascades import POSTGRES_CASCADES, Cascade

__all__ = ["cascades", "touched"]

_Connection: TypeAlias = psycopg.AsyncConnection[tuple[object, ...]]

# https://www.postgresql.org/docs/current/monitoring-stats.html: a TOAST table holds parts of rows that were counted.
_TOUCHED: Final = """
SELECT CASE WHEN pg_catalog.current_setting('track_counts')::bool THEN coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) ELSE -1 END::int8
FROM pg_catalog.pg_stat_xact_all_tables WHERE schemaname <> 'pg_toast'
"""


async def cascades(connection: _Connection, statement: Statement) -> list[Cascade]:
    """As the catalog has it now. Raises what psycopg raises, also for a table that is gone."""
    parted = (name.rpartition(".") for name in statement.tables)
    names = [sql.Identifier(schema or "public", table).as_string(connection) for schema, _, table in parted]
    found = await connection.execute(POSTGRES_CASCADES, (names,))
    return [
        Cascade(on=str(kind), by=str(what), columns=tuple(map(str, columns)) if isinstance(columns, list) else ())
        for _, kind, what, columns in await found.fetchall()
    ]


async def touched(connection: _Connection) -> int:
    """Rows of every table changed by this session so far, to be subtracted; less than 0 where the server does not count."""
    found = await (await connection.execute(_TOUCHED)).fetchone()
    return int(str(found[0])) if found is not None else -1
