"""Random statements are answered like the engine: as they are, in pages, and on tables that hide columns and rows.

For hidden columns and rows the engine is asked about a copy of the database that does not have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Final

import duckdb
import pytest
from msgspec.structs import replace

from tests.connectors.sql.guard.analysts import database, location, open_scope
from tests.connectors.sql.guard.combined import HIDDEN_COLUMNS, ROW_FILTERS, Combined, combined
from tests.connectors.sql.guard.engines import TRANSACTIONAL
from tests.connectors.sql.guard.honest import Engine, Rows, open_engine
from tests.exhaustive import size
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement
from toolgen.model.sql_scope import SqlScope, TableScope

_PAGE: Final = 3
_MAX_PAGES: Final = 400
_DIGITS: Final = 9


@contextmanager
def open_reduced(dialect: str, folder: Path) -> Iterator[Engine]:
    """A database without the columns and rows that the policy hides."""
    folder.mkdir()
    with open_engine(dialect, folder) if dialect != "duckdb" else _open_duckdb(folder) as engine:
        cursor = engine.connection.cursor()
        for table, condition in ROW_FILTERS.items():
            cursor.execute(f"DELETE FROM {table} WHERE NOT ({condition})" + f" OR ({condition}) IS NULL")
        for table, column in HIDDEN_COLUMNS.items():
            cursor.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        yield engine


@contextmanager
def _open_duckdb(folder: Path) -> Iterator[Engine]:
    with location("duckdb", folder) as place, duckdb.connect(place.removeprefix("duckdb:///")) as connection:
        yield Engine(dialect="duckdb", database=database("duckdb", place), connection=connection)


def reduced_scope(engine: Engine) -> SqlScope:
    return SqlScope(
        tables={
            table.name: TableScope(
                columns=tuple(
                    column.name
                    for column in table.columns
                    if column.name.lower() != HIDDEN_COLUMNS.get(table.name.lower())
                ),
                rows=ROW_FILTERS[table.name.lower()],
            )
            for table in engine.database.tables
        },
        max_rows=1000,
    )


def _rounded(row: Sequence[object]) -> str:
    """Sums of doubles depend on the order in which they are added up."""
    return repr(tuple(float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value for value in row))


def _key(row: Sequence[object]) -> str:
    """What rows are ordered by: `1` and `1.0` are equal, and texts that differ in case alone are to MariaDB."""
    values = (value.normalize() if isinstance(value, Decimal) else value for value in row)
    return _rounded(tuple(values)).lower()


def _differ(one: Combined, found: Rows, wanted: Rows) -> bool:
    if one.limited or one.keys:
        keys = [[_key(row[: one.keys]) for row in rows[1]] for rows in (found, wanted)]
        if keys[0] != keys[1]:
            return True
    return not one.limited and sorted(map(_rounded, found[1])) != sorted(map(_rounded, wanted[1]))


def _asked(engine: Engine, sql: str) -> Rows | None:
    """The answer; None for an error of the engine."""
    try:
        return engine.rows(sql)
    except Exception:
        return None


def _paged(engine: Engine, one: Combined, scope: SqlScope) -> list[tuple[object, ...]] | None:
    """The rows of all pages; None for a statement without pages."""
    rows: list[tuple[object, ...]] = []
    page = ""
    for _ in range(_MAX_PAGES):
        cursor = f"{len(rows)}-{page[:16]}" if rows else ""
        verdict = guard(one.sql, [], database=engine.database, scope=scope, attributes={}, cursor=cursor)
        if not isinstance(verdict, Statement) or not verdict.page:
            return None
        page = verdict.page
        found = engine.rows(verdict.sql)[1]
        rows += found
        if len(found) < scope.max_rows:
            return rows
    return None


class Judge:
    """The checks of statements on one engine, and what they found."""

    def __init__(self, engine: Engine, reduced: Engine) -> None:
        self._engine, self._reduced = engine, reduced
        self._open = open_scope(engine.database)
        self._narrow = reduced_scope(engine)
        self.faults: list[str] = []
        self.refused: list[str] = []
        self.compared = self.pages = 0

    def check(self, one: Combined) -> None:
        for what, scope, reference in (("", self._open, self._engine), ("reduced: ", self._narrow, self._reduced)):
            wanted = _asked(reference, one.sql)
            verdict = guard(one.sql, [], database=self._engine.database, scope=scope, attributes={})
            if wanted is None:
                continue
            if not isinstance(verdict, Statement):
                self.refused.append(f"{what}{one.sql}\n  {verdict.reason}; {verdict.suggestion}")
                continue
            self.compared += 1
            found = _asked(self._engine, verdict.sql)
            if found is None or _differ(one, found, wanted):
                self.faults.append(f"{what}{one.sql}\n  {verdict.sql}\n  {found}\n  for {wanted}")
            elif one.keys and not one.limited and len(wanted[1]) > _PAGE:
                self._check_pages(what, one, scope, wanted)

    def _check_pages(self, what: str, one: Combined, scope: SqlScope, wanted: Rows) -> None:
        paged = _paged(self._engine, one, replace(scope, max_rows=_PAGE))
        if paged is not None:
            self.pages += 1
            if _differ(one, (wanted[0], paged), wanted):
                self.faults.append(f"pages: {what}{one.sql}\n  {paged}\n  for {wanted[1]}")


@pytest.mark.sweep
@pytest.mark.parametrize("dialect", TRANSACTIONAL)
def test_a_random_statement_is_answered_like_the_engine(dialect: str, tmp_path: Path) -> None:
    count = size("TOOLGEN_COMBINED", 100, 15_000)
    with open_engine(dialect, tmp_path) as engine, open_reduced(dialect, tmp_path / "reduced") as reduced:
        judge = Judge(engine, reduced)
        for seed in range(count):
            judge.check(combined(dialect, seed))
    assert not judge.faults, f"{len(judge.faults)} of {judge.compared}\n" + "\n".join(judge.faults[:20])
    assert len(judge.refused) <= 0.005 * judge.compared, "\n".join(judge.refused[:20])
    assert judge.compared > count
    assert judge.pages > 0.05 * count
