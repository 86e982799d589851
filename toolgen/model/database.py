"""What a build found in a database: the tables and columns a statement may be resolved against."""

from __future__ import annotations

import msgspec

from toolgen.model.cascades import Cascade

__all__ = ["MYSQL_TABLE_NAMES", "Column", "Database", "Table", "mysql_table_names"]

MYSQL_TABLE_NAMES = "SELECT @@lower_case_table_names"


class Column(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A column as the engine names and types it. `computed`: an update may change it without setting it (GENERATED, ON UPDATE)."""

    name: str
    type: str
    nullable: bool = True
    comment: str = ""
    computed: bool = False


class Table(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A table or view. `references` maps a column to `table.column`; `cascades` is read for sources that write."""

    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    references: dict[str, str] = {}
    view: bool = False
    schema: str = ""
    comment: str = ""
    cascades: tuple[Cascade, ...] = ()


class Database(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The physical schema of one database. `dialect` is sqlglot's name: sqlite, postgres, mysql or duckdb.

    `functions` are those somebody defined where a call without a schema finds them, in lower case: one may stand in for a built-in one.
    `name` is the database's own, where statements may write it before a table (MySQL). `table_names` says whether the server of a MySQL
    database tells names of tables and aliases apart by their case: `exact`, `folded`, or "" where nobody asked (lower_case_table_names).
    """

    dialect: str
    tables: tuple[Table, ...]
    functions: tuple[str, ...] = ()
    name: str = ""
    table_names: str = ""


def mysql_table_names(answered: object) -> str:
    """`Database.table_names` of what a server answers to MYSQL_TABLE_NAMES; it is decided when a server is set up, for all of it."""
    return "exact" if str(answered) == "0" else "folded"
