"""The schema of a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from toolgen.errors import DescriptionError
from toolgen.model.call import Statement
from toolgen.model.database import Column, Database, Table
from toolgen.sources.sql.found import MOST_SAID, MOST_TABLES, Found, Note
from toolgen.sources.sql.sqlite_cascades import sqlite_cascades

__all__ = ["prepare_sqlite", "read_sqlite"]

_GENERATED = frozenset({2, 3})  # https://www.sqlite.org/pragma.html#pragma_table_xinfo: virtual and stored


def read_sqlite(path: Path) -> Found:
    """Reads the schema of the database at `path` through a read-only connection. Virtual tables are left out, because what reading them
    does is up to a module.

    Raises `DescriptionError` for a file that is not there and one that is no database.
    """
    if not path.is_file():
        raise DescriptionError("there is no such database file", suggestion="check the path after sqlite:///")
    try:
        uri = f"file:{quote(str(path))}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5.0)) as connection:
            connection.execute("PRAGMA query_only=ON")
            connection.execute("PRAGMA trusted_schema=OFF")
            return _read(connection)
    except sqlite3.Error as error:
        raise DescriptionError(
            "the database cannot be read", suggestion="check that the file is a SQLite database"
        ) from error


def _read(connection: sqlite3.Connection) -> Found:
    tables: list[Table] = []
    notes: list[Note] = []
    connection.execute("BEGIN")
    listed = connection.execute("PRAGMA main.table_list").fetchmany(MOST_TABLES)
    for _, name, kind, *_ in sorted(listed, key=lambda row: str(row[1])):
        if name.lower().startswith("sqlite_") or kind == "shadow":
            continue
        if kind == "virtual":
            left_out = "a virtual table is left out: its module decides what reading it does"
            notes.append(Note(origin=name, code="virtual_table", message=left_out))
            continue
        try:
            tables.append(_table(connection, name, view=kind == "view"))
        except sqlite3.Error:
            unread = "the columns of this view cannot be read, so it is left out"
            notes.append(Note(origin=name, code="broken_view", message=unread))
    return Found(
        database=Database(dialect="sqlite", tables=tuple(tables)),
        notes=tuple(notes),
        cascades=sqlite_cascades(connection, tables),
    )


def _table(connection: sqlite3.Connection, name: str, *, view: bool) -> Table:
    columns: list[Column] = []
    keyed: list[tuple[int, str]] = []
    for _, column, declared, not_null, _, key, hidden in connection.execute(
        "SELECT * FROM pragma_table_xinfo(?, 'main')", (name,)
    ):
        if hidden == 1:
            continue
        columns.append(
            Column(name=column, type=declared or "", nullable=not (not_null or key), computed=hidden in _GENERATED)
        )
        if key:
            keyed.append((key, column))
    return Table(
        name=name,
        columns=tuple(columns),
        primary_key=tuple(column for _, column in sorted(keyed)),
        references=dict(_references(connection, name)),
        view=view,
    )


def _references(connection: sqlite3.Connection, name: str) -> Iterator[tuple[str, str]]:
    """Foreign keys by column. A key that names no column of the other table means its primary key, which is named here."""
    for row in sorted(connection.execute("SELECT * FROM pragma_foreign_key_list(?, 'main')", (name,))):
        _, position, other, column, target, *_ = row
        if target is None:
            keys = sorted(
                (info[5], info[1])
                for info in connection.execute("SELECT * FROM pragma_table_xinfo(?, 'main')", (other,))
                if info[5]
            )
            target = keys[position][1] if position < len(keys) else "rowid"
        yield column, f"{other}.{target}"


def prepare_sqlite(path: Path, statements: Sequence[Statement]) -> Iterator[tuple[str, ...] | str]:
    """Why each statement cannot be compiled, or nothing: SQLite types values, and not the columns of a result."""
    uri = f"file:{quote(str(path))}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5.0)) as connection:
        connection.execute("PRAGMA query_only=ON")
        connection.execute("PRAGMA trusted_schema=OFF")
        for statement in statements:
            try:
                connection.execute(f"EXPLAIN {statement.sql}", statement.parameters).close()
                yield ()
            except sqlite3.Error as error:
                yield f"SQLite does not take it: {str(error)[:MOST_SAID]}"
