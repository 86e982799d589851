"""Schema of a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import sqlglot

from toolgen.connectors.sql.reading.labels import with_labels
from toolgen.connectors.sql.reading.schema import MAX_SAID, MAX_TABLES, Extras, ReadSchema, SchemaNote, plain_default
from toolgen.connectors.sql.reading.sqlite_cascades import sqlite_cascades
from toolgen.core.errors import DescriptionError
from toolgen.model.call import Statement
from toolgen.model.database import Column, Database, Index, Table

__all__ = ["prepare_sqlite", "read_sqlite"]

_MAX_TEXT_LENGTH = 50_000


_GENERATED = frozenset({2, 3})  # https://www.sqlite.org/pragma.html#pragma_table_xinfo: virtual and stored


def read_sqlite(path: Path) -> ReadSchema:
    """Read the schema of the database at `path` through a read-only connection. Virtual tables are left out, because their modules decide
    what a read does.

    Raises `DescriptionError` for a missing file, and for a file that is not a database.
    """
    if not path.is_file():
        raise DescriptionError("there is no such database file", suggestion="check the path after sqlite:///")
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5.0)) as connection:
            connection.execute("PRAGMA query_only=ON")
            connection.execute("PRAGMA trusted_schema=OFF")
            return _read(connection)
    except sqlite3.Error as error:
        raise DescriptionError(
            "the database cannot be read", suggestion="check that the file is a SQLite database"
        ) from error


def _read(connection: sqlite3.Connection) -> ReadSchema:
    tables: list[Table] = []
    notes: list[SchemaNote] = []
    connection.execute("BEGIN")
    listed = connection.execute("PRAGMA main.table_list").fetchmany(MAX_TABLES)
    for _, name, kind, *_ in sorted(listed, key=lambda row: str(row[1])):
        if name.lower().startswith("sqlite_") or kind == "shadow":
            continue
        if kind == "virtual":
            left_out = "a virtual table is left out: its module decides what reading it does"
            notes.append(SchemaNote(origin=name, code="virtual_table", message=left_out))
            continue
        try:
            tables.append(_table(connection, name, view=kind == "view"))
        except sqlite3.Error:
            unread = "the columns of this view cannot be read, so it is left out"
            notes.append(SchemaNote(origin=name, code="broken_view", message=unread))
    return ReadSchema(
        database=Database(dialect="sqlite", tables=tuple(tables)),
        notes=tuple(notes),
        cascades=sqlite_cascades(connection, tables),
    )


def _table(connection: sqlite3.Connection, name: str, *, view: bool) -> Table:
    columns: list[Column] = []
    keyed: list[tuple[int, str]] = []
    for _, column, declared, not_null, default, key, hidden in connection.execute(
        "SELECT * FROM pragma_table_xinfo(?, 'main')", (name,)
    ):
        if hidden == 1:
            continue
        columns.append(
            Column(
                name=column,
                type=declared or "",
                nullable=not (not_null or key),
                computed=hidden in _GENERATED,
                default=plain_default(str(default or "")),
            )
        )
        if key:
            keyed.append((key, column))
    extras = Extras() if view else _extras(connection, name)
    return Table(
        name=name,
        columns=with_labels(columns, extras.checks.get(name, ()), "sqlite"),
        primary_key=tuple(column for _, column in sorted(keyed)),
        references=dict(_references(connection, name)),
        view=view,
        indexes=() if view else extras.indexes_of(name),
        checks=() if view else extras.checks_of(name),
    )


def _extras(connection: sqlite3.Connection, name: str) -> Extras:
    """Return the indexes listed by the library, and the checks in the table's text."""
    extras = Extras()
    for _, index, unique, origin, partial in connection.execute(
        "SELECT * FROM pragma_index_list(?, 'main')", (name,)
    ).fetchall():
        columns = [row[2] for row in connection.execute("SELECT * FROM pragma_index_info(?, 'main')", (index,))]
        if origin != "pk" and None not in columns:
            one = Index(columns=tuple(columns), unique=bool(unique) and not partial)
            extras.indexes.setdefault(name, []).append(one)
    written = connection.execute(
        "SELECT sql FROM main.sqlite_schema WHERE type = 'table' AND name = ?", (name,)
    ).fetchone()
    text = str(written[0]) if written and written[0] else ""
    if "CHECK" not in text.upper() or len(text) > _MAX_TEXT_LENGTH:
        return extras
    try:
        parsed = sqlglot.parse_one(text, dialect="sqlite")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return extras
    checks = parsed.find_all(sqlglot.exp.CheckColumnConstraint, sqlglot.exp.Check)
    extras.checks[name] = [
        one.this.sql(dialect="sqlite") for one in checks if isinstance(one.this, sqlglot.exp.Expression)
    ]
    return extras


def _references(connection: sqlite3.Connection, name: str) -> Iterator[tuple[str, str]]:
    """Yield foreign keys by column. A key that names no column of the other table means its primary key, which is inserted here."""
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
    """Return the reason why a statement cannot be compiled, or no types: SQLite types values, not columns of a result."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5.0)) as connection:
        connection.execute("PRAGMA query_only=ON")
        connection.execute("PRAGMA trusted_schema=OFF")
        for statement in statements:
            try:
                connection.execute(f"EXPLAIN {statement.sql}", statement.parameters).close()
                yield ()
            except sqlite3.Error as error:
                yield f"SQLite rejects it: {str(error)[:MAX_SAID]}"
