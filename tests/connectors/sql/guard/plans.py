"""Plans of an engine for a statement, in a form in which those of two statements can be compared."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Final

from tests.connectors.sql.guard.honest import Engine

__all__ = ["plan", "sqlite_steps"]

_EXPLAIN: Final = {
    "sqlite": "EXPLAIN QUERY PLAN ",
    "postgres": "EXPLAIN (COSTS OFF) ",
    "mysql": "EXPLAIN ",
    "duckdb": "EXPLAIN (FORMAT json) ",
}
_SCHEMA: Final = re.compile(r"\b(main|public)\.")
_INTERVAL: Final = re.compile(r"::interval (year|month|day|hour|minute|second)\b")
_SORTED: Final = re.compile(r"((?:Sort|Presorted) Key:).*")
_NODE: Final = re.compile(r'"name": "([A-Z_ ]+)"')
_MYSQL_ROWS: Final = 8
_STEPS: Final = 100
_SORTS: Final = frozenset({"Using temporary", "Using filesort"})


def plan(engine: Engine, sql: str) -> list[str]:
    """Steps of the plan: which tables are read, how and in which order, and how they are joined. Raises what the driver raises.

    Names of schemas, estimates and the columns that rows are sorted by are left out: the guard adds some, so that pages have one order.
    The unit of a written interval is left out, too, and how MariaDB sorts what the outermost query answers.
    Of DuckDB the kinds of the steps are told.
    """
    with closing(engine.connection.cursor()) as cursor:
        cursor.execute(_EXPLAIN[engine.dialect] + sql)
        rows = cursor.fetchall()
    match engine.dialect:
        case "sqlite":
            lines = [row[3] for row in rows]
        case "postgres":
            lines = [row[0] for row in rows]
        case "mysql":
            return [str((*row[:_MYSQL_ROWS], _unsorted(row[0], row[_MYSQL_ROWS + 1]))) for row in rows]
        case _:
            return _NODE.findall(rows[0][1])
    return [_INTERVAL.sub("::interval", _SORTED.sub(r"\1", _SCHEMA.sub("", line))) for line in lines]


def sqlite_steps(engine: Engine, sql: str) -> int:
    """How many hundreds of instructions SQLite carries out for a statement, which is the same each time."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    engine.connection.set_progress_handler(count, _STEPS)
    try:
        engine.rows(sql)
    finally:
        engine.connection.set_progress_handler(None, 0)
    return counted


def _unsorted(number: int, extra: str) -> str:
    """What MariaDB says beside a table, without how the outermost query is sorted."""
    return extra if number != 1 else "; ".join(part for part in extra.split("; ") if part not in _SORTS)
