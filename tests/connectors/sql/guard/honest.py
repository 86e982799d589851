"""Honest statements as people write them, and the answers of the engines to them: one connection for all statements of an engine.

`statements/common.sql` and `common_idioms.sql` are for every engine, and so is `reports.sql` with queries of the forms of TPC-H and
TPC-DS. `<dialect>.sql` and `<dialect>_idioms.sql` are for one. The files whose names end with `expressions.sql` have expressions, one a
line. The lines that begin with `-- ` above them are the statements that each of them is put into, at `{}`. `-- varies` before a statement
says that its rows differ each time, so that only its columns are compared.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import duckdb
from msgspec import Struct

from tests.connectors.sql.guard.analysts import database, location, open_scope
from tests.databases import mysql, mysql_database, postgres, postgres_database
from tests.exhaustive import part
from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.engines import location_of
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement
from toolgen.model.database import Database
from toolgen.model.sql_scope import SqlScope

__all__ = [
    "FOLDER",
    "Engine",
    "Honest",
    "Rows",
    "check_statements",
    "connection_to",
    "faults_of",
    "honest_statements",
    "listed",
    "open_engine",
    "open_server",
    "same_rows",
]

FOLDER: Final = Path(__file__).parent / "statements"
_VARIES: Final = "-- varies"
Rows: TypeAlias = tuple[list[str], list[tuple[object, ...]]]


class Honest(Struct, frozen=True, kw_only=True):
    """A statement, and whether its rows are the same each time."""

    sql: str
    varies: bool = False


def honest_statements(dialect: str) -> list[Honest]:
    """All statements for one engine."""
    return [
        *listed(FOLDER / "common.sql"),
        *listed(FOLDER / "reports.sql"),
        *listed(FOLDER / "common_idioms.sql"),
        *_expressions("common_idiom_expressions.sql"),
        *_expressions("common_expressions.sql"),
        *listed(FOLDER / f"{dialect}.sql"),
        *_expressions(f"{dialect}_expressions.sql"),
        *listed(FOLDER / f"{dialect}_idioms.sql"),
        *_expressions(f"{dialect}_idiom_expressions.sql"),
    ]


def listed(file: Path) -> list[Honest]:
    """The statements of a file, each of which ends with a semicolon at the end of a line."""
    found = []
    for piece in file.read_text(encoding="utf-8").split(";\n"):
        text = piece.strip()
        varies = text.startswith(_VARIES)
        if text := text.removeprefix(_VARIES).strip():
            found.append(Honest(sql=text, varies=varies))
    return found


def _expressions(file: str) -> Iterator[Honest]:
    frames: list[str] = []
    above = False
    for line in (FOLDER / file).read_text(encoding="utf-8").splitlines():
        if line.startswith("-- "):
            frames = [*frames, line] if above else [line]
        elif line.strip():
            for frame in frames:
                varies = frame.startswith(_VARIES)
                text = frame.removeprefix(_VARIES).removeprefix("-- ").strip()
                yield Honest(sql=text.replace("{}", line.strip()), varies=varies)
        above = line.startswith("-- ")


class Engine(Struct, kw_only=True):
    """A connection to a database. `digits`: of doubles that are compared, whose sums depend on the order of rows; 0 for all of them."""

    dialect: str
    database: Database
    connection: Any
    digits: int = 0

    def rows(self, sql: str) -> Rows:
        """Column names and rows. Raises what the driver raises."""
        names, rows = self._rows(sql)
        return names, [tuple(map(self._rounded, row)) for row in rows] if self.digits else rows

    def _rounded(self, value: object) -> object:
        match value:
            case float():
                return float(f"{value:.{self.digits}g}")
            case list():
                return [self._rounded(item) for item in value]
        return value

    def _rows(self, sql: str) -> Rows:
        if self.dialect == "duckdb":
            found = self.connection.execute(sql)
            return [column[0] for column in found.description], found.fetchall()
        with closing(self.connection.cursor()) as cursor:
            cursor.execute(sql)
            return [column[0] for column in cursor.description], [tuple(row) for row in cursor.fetchall()]


# As the gateway's sessions have them.
_MYSQL_SETTINGS: Final = (
    "SET SESSION sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION',"
    " SESSION optimizer_search_depth = 0"
)


def connection_to(dialect: str, place: str) -> Any:
    """A connection to a database with the settings of the gateway's sessions."""
    name = place.rpartition("/")[2]
    match dialect:
        case "postgres":
            return postgres(name)
        case "mysql":
            connection = mysql(name)
            with closing(connection.cursor()) as cursor:
                cursor.execute(_MYSQL_SETTINGS)
            return connection
        case "duckdb":
            return duckdb.connect(place.removeprefix("duckdb:///"), read_only=True)
        case _:
            return sqlite3.connect(place.removeprefix("sqlite:///"))


@contextmanager
def open_engine(dialect: str, folder: Path) -> Iterator[Engine]:
    """A fresh database of the schema; skips where there is no server."""
    with location(dialect, folder) as place:
        known = database(dialect, place)
        with closing(connection_to(dialect, place)) as connection:
            yield Engine(dialect=dialect, database=known, connection=connection)


@contextmanager
def open_server(dialect: str, script: Path, digits: int = 0) -> Iterator[Engine]:
    """A fresh database of PostgreSQL or MariaDB, with the schema that a build reads from it; skips where there is no server."""
    made = script.read_text(encoding="utf-8")
    with (postgres_database if dialect == "postgres" else mysql_database)(made) as place:
        known = RECORDS[dialect].read(location_of(place), "").database
        with closing(connection_to(dialect, place)) as connection:
            yield Engine(dialect=dialect, database=known, connection=connection, digits=digits)


def _title(name: str) -> str:
    """A column name. DuckDB makes those of expressions from its own text of them."""
    return "" if "(" in name else name


_EVERY: Final = 8  # statement is tried through a row filter in the default run
_ORDERED: Final = re.compile(r"\border\s+by\b[^()]*$", re.IGNORECASE)


def faults_of(engine: Engine, asked: Iterable[Honest], scope: SqlScope) -> list[str]:
    """Return a text for each statement that is refused, or not answered as by the engine."""
    faults = []
    for honest in asked:
        wanted = engine.rows(honest.sql)
        verdict = guard(honest.sql, [], database=engine.database, scope=scope, attributes={})
        if not isinstance(verdict, Statement):
            faults.append(f"{honest.sql}\n  refused: {verdict.reason}; {verdict.suggestion}")
            continue
        found = engine.rows(verdict.sql)
        if honest.varies:
            found, wanted = (found[0], []), (wanted[0], [])
        if not same_rows(honest.sql, found, wanted):
            faults.append(f"{honest.sql}\n  {verdict.sql}\n  {found}\n  for {wanted}")
    return faults


def check_statements(
    engine: Engine, statements: Sequence[Honest], rows: str | None, *, at_least: int, without_filter: Sequence[str]
) -> None:
    """Assert that all statements are accepted and answered as by the engine.

    With `rows`, each table has this row filter, a part of the statements is tried in the default run, and those with a word of
    `without_filter`, which no filter may be around, are left out.
    """
    assert len({honest.sql for honest in statements}) == len(statements) > at_least
    if rows is not None:
        statements = [
            honest for honest in part(statements, _EVERY) if not any(word in honest.sql for word in without_filter)
        ]
    faults = faults_of(engine, statements, open_scope(engine.database, rows))
    assert not faults, "\n".join(faults)


def same_rows(sql: str, found: Rows, wanted: Rows) -> bool:
    """True if both have the same columns and rows, in the same order if the statement asks for one."""
    if [*map(_title, found[0])] != [*map(_title, wanted[0])]:
        return False
    if _ORDERED.search(sql):
        return repr(found[1]) == repr(wanted[1])
    return sorted(map(repr, found[1])) == sorted(map(repr, wanted[1]))
