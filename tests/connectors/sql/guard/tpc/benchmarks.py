"""TPC-H and TPC-DS on every engine: the data and the queries that `make tpc` lets DuckDB generate.

DuckDB writes the queries. For the other engines they are translated. A query that an engine has no words for (ROLLUP in SQLite, GROUPING in
MariaDB) is left out.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from tests.connectors.sql.guard.engines import connected
from tests.connectors.sql.guard.honest import Engine
from tests.connectors.sql.guard.tpc.translation import translated
from toolgen.model.database import Column, Database, Table

__all__ = ["BENCHMARKS", "FOLDER", "Query", "is_generated", "open_benchmark", "queries"]

FOLDER: Final = Path(__file__).parents[5] / ".venv-tpc" / "data"
BENCHMARKS: Final = ("tpch", "tpcds")
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "catalog_returns": ("cr_item_sk", "cr_order_number"),
    "catalog_sales": ("cs_item_sk", "cs_order_number"),
    "inventory": ("inv_date_sk", "inv_item_sk", "inv_warehouse_sk"),
    "lineitem": ("l_orderkey", "l_linenumber"),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "store_returns": ("sr_item_sk", "sr_ticket_number"),
    "store_sales": ("ss_item_sk", "ss_ticket_number"),
    "web_returns": ("wr_item_sk", "wr_order_number"),
    "web_sales": ("ws_item_sk", "ws_order_number"),
}  # of any other table, the key is its first column
_TYPES: Final[Mapping[str, Mapping[str, str]]] = {
    "mysql": {"VARCHAR": "varchar(200)"},
    "postgres": {"VARCHAR": "text"},
    "sqlite": {"VARCHAR": "TEXT", "BIGINT": "INTEGER"},
    "duckdb": {},
}
_BATCH: Final = 2_000
_MAX_S: Final = 60


class Query(Struct, frozen=True, kw_only=True):
    """A query of a benchmark in the words of one engine."""

    number: int
    sql: str


def is_generated() -> bool:
    return all((FOLDER / name / "queries.json").is_file() for name in BENCHMARKS)


def queries(benchmark: str, dialect: str) -> list[Query]:
    """The queries in order."""
    given = json.loads((FOLDER / benchmark / "queries.json").read_text(encoding="utf-8"))
    texts = sorted((int(number), text.strip().rstrip(";")) for number, text in given.items())
    return [Query(number=number, sql=translated(text, dialect)) for number, text in texts]


def _schema(benchmark: str) -> Mapping[str, Sequence[tuple[str, str]]]:
    found: Mapping[str, Sequence[tuple[str, str]]] = json.loads(
        (FOLDER / benchmark / "schema.json").read_text(encoding="utf-8")
    )
    return found


def _database(benchmark: str, dialect: str, name: str) -> Database:
    tables = tuple(
        Table(
            name=table,
            columns=tuple(Column(name=column, type=_TYPES[dialect].get(kind, kind)) for column, kind in columns),
            primary_key=_key(table, columns),
        )
        for table, columns in _schema(benchmark).items()
    )
    return Database(dialect=dialect, tables=tables, name=name if dialect == "mysql" else "")


def _key(table: str, columns: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    return _KEYS.get(table, (columns[0][0],))


@contextmanager
def open_benchmark(benchmark: str, dialect: str, folder: Path) -> Iterator[Engine]:
    """A connection to a fresh database with the tables, keys, indexes and rows; skips where there is no server."""
    with connected(dialect, folder / f"{benchmark}.db") as (connection, name):
        for table, columns in _schema(benchmark).items():
            _load(benchmark, dialect, connection, table, columns)
        with closing(connection.cursor()) as cursor:
            _finish(dialect, cursor, [*_schema(benchmark)])
        yield Engine(dialect=dialect, database=_database(benchmark, dialect, name), connection=connection)


def _load(benchmark: str, dialect: str, connection: Any, table: str, columns: Sequence[tuple[str, str]]) -> None:
    file = FOLDER / benchmark / f"{table}.csv"
    declared = ", ".join(f"{column} {_TYPES[dialect].get(kind, kind)}" for column, kind in columns)
    key = _key(table, columns)
    with closing(connection.cursor()) as cursor:
        cursor.execute(f"CREATE TABLE {table} ({declared}, PRIMARY KEY ({', '.join(key)}))")
        if dialect == "duckdb":
            cursor.execute(f"COPY {table} FROM '{file}' (HEADER, DELIMITER '|', NULLSTR '')")
            return
        mark = "?" if dialect == "sqlite" else "%s"
        insert = f"INSERT INTO {table} VALUES ({', '.join([mark] * len(columns))})"
        if dialect == "mysql":
            cursor.execute("SET autocommit = 0")
        with file.open(encoding="utf-8", newline="") as lines:
            reader = csv.reader(lines, delimiter="|")
            next(reader)
            if dialect == "postgres":
                with cursor.copy(f"COPY {table} FROM STDIN") as copied:
                    for row in reader:
                        copied.write_row([value or None for value in row])
            else:
                while batch := [
                    [value or None for value in row] for _, row in zip(range(_BATCH), reader, strict=False)
                ]:
                    cursor.executemany(insert, batch)
        if dialect != "postgres":
            connection.commit()
        for column, _ in columns:
            if (column.endswith(("_sk", "key")) or column == "d_date") and column != key[0]:
                cursor.execute(f"CREATE INDEX {table}_{column} ON {table} ({column})")


def _finish(dialect: str, cursor: Any, tables: Sequence[str]) -> None:
    """Statistics for the optimizer, and the settings of the gateway's sessions."""
    match dialect:
        case "postgres":
            cursor.execute("ANALYZE")
            cursor.execute(f"SET statement_timeout = {_MAX_S * 1000}")
        case "mysql":
            cursor.execute("SET autocommit = 1")
            cursor.execute(f"ANALYZE TABLE {', '.join(tables)}")
            cursor.fetchall()
            cursor.execute(
                "SET SESSION sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', "
                f"max_statement_time = {_MAX_S}"
            )
        case _:
            cursor.execute("ANALYZE")
