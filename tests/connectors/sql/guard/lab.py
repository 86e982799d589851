"""A small database with something to hide, as a file and as a schema in every dialect."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement
from toolgen.model.database import Column, Database, Table
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.verdict import Deny

SCHEMA = Path(__file__).parents[3] / "fixtures" / "sql" / "lab.sql"
ATTRIBUTES = {"tenant": "acme"}
VISIBLE = {"customers", "orders", "tickets", "germans"}

_TABLES = {
    "all_secrets": ("id", "password"),
    "canary": ("id", "n"),
    "customers": ("id", "name", "country", "ssn"),
    "germans": ("id", "name"),
    "orders": ("id", "customer_id", "status", "total", "order", "detail"),
    "tickets": ("id", "tenant", "body"),
    "users_secret": ("id", "password"),
}


def database(dialect: str = "sqlite") -> Database:
    """The schema of lab.sql as a build in this dialect would find it, and one more table in a schema of its own where there are schemas."""
    tables = [
        Table(
            name=name,
            columns=tuple(Column(name=column, type="TEXT") for column in columns),
            view=name in {"germans", "all_secrets"},
            primary_key=("id",),
            references={"customer_id": "customers.id"} if name == "orders" else {},
        )
        for name, columns in _TABLES.items()
    ]
    if dialect == "postgres":
        tables.append(Table(name="Customers", columns=(Column(name="secret", type="TEXT"),)))
        tables.append(Table(name="orders", schema="hr", columns=(Column(name="iban", type="TEXT"),)))
    if dialect == "snowflake":
        tables = [in_capitals(one) for one in tables]
    return Database(dialect=dialect, tables=tuple(tables))


def in_capitals(known: Table) -> Table:
    """A table as Snowflake lists one whose names were written without quotes."""
    return replace(
        known,
        name=known.name.upper(),
        columns=tuple(replace(column, name=column.name.upper()) for column in known.columns),
        primary_key=(),
        references={},
    )


def scope(**changes: object) -> SqlScope:
    """Customers without their number, the tickets of one tenant, orders and a view; nothing else."""
    settings: dict[str, object] = {
        "tables": {
            "customers": TableScope(columns=("id", "name", "country")),
            "orders": TableScope(),
            "tickets": TableScope(rows="tenant = :tenant"),
            "germans": TableScope(),
        },
        "max_rows": 100,
        "max_bytes": 1_000_000,
        "max_cell_bytes": 10_000,
        "timeout_s": 2.0,
    }
    return SqlScope(**(settings | changes))  # type: ignore[arg-type]


DATABASE = database()
SCOPE = scope()
SCOPE_IN_CAPITALS = scope(
    tables={
        "CUSTOMERS": TableScope(columns=("ID", "NAME", "COUNTRY")),
        "ORDERS": TableScope(),
        "TICKETS": TableScope(rows="tenant = :tenant"),
        "GERMANS": TableScope(),
    }
)


def judge(sql: str, *parameters: object, dialect: str = "sqlite", **changes: object) -> Statement | Deny:
    """The guard's verdict for the principal of the tenant acme."""
    opened = SCOPE_IN_CAPITALS if dialect == "snowflake" else SCOPE
    return guard(
        sql,
        list(parameters),  # type: ignore[arg-type]
        database=DATABASE if dialect == "sqlite" else database(dialect),
        scope=scope(**{"tables": opened.tables, **changes}) if changes else opened,
        attributes=ATTRIBUTES,
    )


def allowed(sql: str, *parameters: object, dialect: str = "sqlite", **changes: object) -> Statement:
    """The statement, and a failed test when it was refused."""
    verdict = judge(sql, *parameters, dialect=dialect, **changes)
    assert isinstance(verdict, Statement), f"{sql}: {verdict}"
    return verdict


def refused(sql: str, *parameters: object, dialect: str = "sqlite", **changes: object) -> Deny:
    """The refusal, and a failed test when there is none."""
    verdict = judge(sql, *parameters, dialect=dialect, **changes)
    assert isinstance(verdict, Deny), f"{sql}: {verdict}"
    assert verdict.code == "sql_refused"
    assert verdict.reason
    assert verdict.suggestion
    return verdict


def write(path: Path) -> Path:
    """The database of lab.sql in a file."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA.read_text(encoding="utf-8"))
    return path
