"""Attacks on hidden columns and rows: each is refused, or its outcome is the same on a database that does not have them.

The outcome is the rows, or that there was an error. The statement that the guard lets through runs on both databases.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import sqlglot
import yaml

from tests.connectors.sql.guard.analysts import database, script
from tests.connectors.sql.guard.combined import HIDDEN_COLUMNS, ROW_FILTERS, combined
from tests.connectors.sql.guard.honest import Engine, open_engine
from tests.connectors.sql.guard.test_combined import Judge, open_reduced, reduced_scope
from tests.databases import SnowflakeLab, snowflake_database, statement
from tests.exhaustive import size
from toolgen.connectors.secrets import Secret, SecretResolver
from toolgen.connectors.sql.engines import location_of
from toolgen.connectors.sql.execution.server_address import Reach
from toolgen.connectors.sql.execution.snowflake import statement_of
from toolgen.connectors.sql.execution.snowflake_api import connect
from toolgen.connectors.sql.execution.snowflake_values import cell
from toolgen.connectors.sql.guard.guard import DIALECTS, guard
from toolgen.model.call import Statement
from toolgen.model.database_url import ServerLocation

_ATTACKS: Final[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "attacks.yaml").read_text(encoding="utf-8"))
_OPEN: Final = {"invoices": "client", "sensors": "code", "visits": "page"}
_KEYS: Final = {
    "invoice_lines": "invoice_id",
    "invoices": "id",
    "places": "id",
    "readings": "sensor_id",
    "sensors": "id",
    "visits": "id",
}
_AT_LEAST: Final = 300


def _attacks(dialect: str) -> Iterator[str]:
    for form in [*_ATTACKS["columns"]["all"], *_ATTACKS["columns"][dialect]]:
        for table, column in HIDDEN_COLUMNS.items():
            yield form.format(T=table, H=column, V=_OPEN[table])
    for form in [*_ATTACKS["rows"]["all"], *_ATTACKS["rows"][dialect]]:
        for table, key in _KEYS.items():
            yield form.format(T=table, K=key)


def _outcome(engine: Engine, sql: str) -> str:
    try:
        return repr(sorted(map(repr, engine.rows(sql)[1])))
    except Exception as error:
        return type(error).__name__


@contextmanager
def open_clickhouse(folder: Path) -> Iterator[tuple[Engine, Engine]]:
    """Two databases of one folder, as a process opens one folder alone."""
    chdb = pytest.importorskip("chdb")
    from toolgen.connectors.sql.execution.clickhouse import SETTINGS  # noqa: PLC0415 - where chdb is installed

    with closing(chdb.connect(str(folder / "lab"))) as connection:
        connection.query("SET data_type_default_nullable = 1")
        connection.query("CREATE DATABASE reduced")
        for name in ("default", "reduced"):
            connection.query(f"USE {name}")
            for line in _clickhouse_script():
                connection.query(line)
        for table, condition in ROW_FILTERS.items():
            connection.query(f"DELETE FROM reduced.{table} WHERE NOT ({condition}) OR ({condition}) IS NULL")
        for table, column in HIDDEN_COLUMNS.items():
            connection.query(f"ALTER TABLE reduced.{table} DROP COLUMN {column}")
        connection.query(SETTINGS.format(20))
        known = database("clickhouse")
        yield (
            Engine(dialect="clickhouse", database=known, connection=_Session(connection, "default")),
            Engine(dialect="clickhouse", database=known, connection=_Session(connection, "reduced")),
        )


def _clickhouse_script() -> Iterator[str]:
    """The statements of the schema, in which columns of a key are not nullable."""
    for line in script("clickhouse").split(";\n"):
        text = line.replace(" INTEGER PRIMARY KEY", " INTEGER NOT NULL PRIMARY KEY")
        for key in re.findall(r"PRIMARY KEY \(([^)]*)\)", line):
            for name in key.split(", "):
                text = re.sub(rf"([(,] ?){name} (\w+(?:\(\d+\))?)", rf"\1{name} \2 NOT NULL", text, count=1)
        if text.strip():
            yield text


class _Session:
    """Connection to a database, with the cursor that the tests of the other engines use."""

    def __init__(self, connection: Any, name: str) -> None:
        self._connection, self._name = connection, name
        self._rows: list[list[object]] = []
        self.description: list[tuple[str]] = []

    def cursor(self) -> _Session:
        return self

    def close(self) -> None:
        """Do nothing: the connection is of both."""

    def execute(self, sql: str) -> None:
        text = sql.replace('"default".', f'"{self._name}".')
        self._connection.query(f"USE {self._name}")
        try:
            found = json.loads(self._connection.query(text, "JSONCompact").bytes())
        except RuntimeError:
            self._connection.query("SELECT 1")  # its result begins with the rows before the error
            raise
        self.description = [(column["name"],) for column in found["meta"]]
        self._rows = found["data"]

    def fetchall(self) -> list[list[object]]:
        return self._rows


class _Translated:
    """Connection to DuckDB that translates T-SQL, as no SQL Server runs here: it shows which rows and columns a statement reads."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.description: list[tuple[str]] = []

    def cursor(self) -> _Translated:
        return self

    def close(self) -> None:
        """Do nothing: the connection is closed where it was opened."""

    def execute(self, sql: str) -> None:
        text = sql.replace("[dbo].", "").replace("TOP (4611686018427387904)", "TOP (1000000)")
        (translated,) = sqlglot.transpile(text, read="tsql", write="duckdb")
        self._connection.execute(translated)
        self.description = self._connection.description

    def fetchall(self) -> Any:
        return self._connection.fetchall()


@contextmanager
def _open_translated(folder: Path) -> Iterator[tuple[Engine, Engine]]:
    known = database("tsql")
    with open_engine("duckdb", folder) as engine, open_reduced("duckdb", folder / "reduced") as reduced:
        yield (
            Engine(dialect="tsql", database=known, connection=_Translated(engine.connection)),
            Engine(dialect="tsql", database=known, connection=_Translated(reduced.connection)),
        )


@contextmanager
def _open_snowflake(folder: Path) -> Iterator[tuple[Engine, Engine]]:
    """Two databases, each of an emulator of its own."""
    made = [line.strip() for line in script("snowflake").split(";\n") if line.strip()]
    reducing = [
        *(f"DELETE FROM {table} WHERE NOT ({rows}) OR ({rows}) IS NULL" for table, rows in ROW_FILTERS.items()),
        *(f"ALTER TABLE {table} DROP COLUMN {column}" for table, column in HIDDEN_COLUMNS.items()),
    ]
    known = database("snowflake")
    with ExitStack() as stack:
        engines = []
        for name, more in (("whole", []), ("reduced", reducing)):
            (folder / name).mkdir()
            lab = stack.enter_context(snowflake_database(folder / name, *made, *more))
            session = stack.enter_context(closing(_SnowflakeSession(lab)))
            engines.append(Engine(dialect="snowflake", database=known, connection=session))
        yield engines[0], engines[1]


class _SnowflakeSession:
    """Connection to an emulator of Snowflake, with the cursor that the tests of the other engines use."""

    def __init__(self, lab: SnowflakeLab) -> None:
        location = location_of(lab.location)
        assert isinstance(location, ServerLocation)
        self._runner = asyncio.Runner()
        reach = Reach(password=None, secrets=SecretResolver(), permit=None)
        self._connection = self._runner.run(connect(location, reach, Secret(lab.key)))
        self._rows: list[list[object]] = []
        self.description: list[tuple[str]] = []

    def cursor(self) -> _SnowflakeCursor:
        return _SnowflakeCursor(self)

    def close(self) -> None:
        self._runner.run(self._connection.close())
        self._runner.close()

    def execute(self, sql: str) -> None:
        self._runner.run(self._execute(sql))

    async def _execute(self, sql: str) -> None:
        columns, rows = await self._connection.execute(statement_of(statement(sql)))
        self.description = [(column.name,) for column in columns]
        self._rows = [[cell(text, column) for text, column in zip(row, columns, strict=True)] async for row in rows]

    def fetchall(self) -> list[list[object]]:
        return self._rows


class _SnowflakeCursor:
    def __init__(self, session: _SnowflakeSession) -> None:
        self._session = session

    @property
    def description(self) -> list[tuple[str]]:
        return self._session.description

    def execute(self, sql: str) -> None:
        self._session.execute(sql)

    def fetchall(self) -> list[list[object]]:
        return self._session.fetchall()

    def close(self) -> None:
        """Do nothing: the session is closed at the end."""


@contextmanager
def _open_both(dialect: str, folder: Path) -> Iterator[tuple[Engine, Engine]]:
    if dialect in {"clickhouse", "tsql"}:
        with (open_clickhouse if dialect == "clickhouse" else _open_translated)(folder) as engines:
            yield engines
        return
    if dialect == "snowflake":
        with _open_snowflake(folder) as both:
            yield both
        return
    with open_engine(dialect, folder) as engine, open_reduced(dialect, folder / "reduced") as reduced:
        yield engine, reduced


# Of BigQuery, Google's analyzer says which columns and tables a statement reads: test_googlesql.py.
@pytest.mark.parametrize("dialect", sorted(DIALECTS - {"bigquery"}))
def test_no_outcome_depends_on_a_hidden_column_or_row(dialect: str, tmp_path: Path) -> None:
    faults: list[str] = []
    attacks = list(dict.fromkeys(_attacks(dialect)))
    ran = 0
    with _open_both(dialect, tmp_path) as (engine, reduced):
        scope = reduced_scope(engine)
        for sql in attacks:
            verdict = guard(sql, [], database=engine.database, scope=scope, attributes={})
            if not isinstance(verdict, Statement):
                assert verdict.suggestion, sql
                continue
            ran += 1
            found, wanted = _outcome(engine, verdict.sql), _outcome(reduced, verdict.sql)
            if found != wanted:
                faults.append(f"{sql}\n  {verdict.sql}\n  {found}\n  without it: {wanted}")
    assert not faults, f"{len(faults)}\n" + "\n".join(faults)
    assert len(attacks) >= _AT_LEAST
    assert ran > 0.1 * len(attacks)


@pytest.mark.sweep
def test_a_random_statement_is_answered_like_clickhouse(tmp_path: Path) -> None:
    with open_clickhouse(tmp_path) as (engine, reduced):
        judge = Judge(engine, reduced)
        for seed in range(size("TOOLGEN_COMBINED", 40, 2_000)):
            one = combined("clickhouse", seed)
            # The order after UNION is of its last query, and the session does not take correlated subqueries.
            if "UNION" not in one.sql and "EXISTS" not in one.sql:
                judge.check(one)
    assert not judge.faults, "\n".join(judge.faults)
    assert not judge.refused, "\n".join(judge.refused)
    assert judge.compared > 40
