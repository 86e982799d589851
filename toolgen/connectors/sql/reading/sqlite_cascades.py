"""Cascades of changes of a SQLite table: its triggers, found by compiling a statement of each kind, and the actions of foreign keys."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping

from toolgen.model.database import Cascade, Table

__all__ = ["sqlite_cascades"]

_ACTIONS = frozenset({"CASCADE", "SET NULL", "SET DEFAULT"})


def sqlite_cascades(connection: sqlite3.Connection, tables: Iterable[Table]) -> dict[str, list[Cascade]]:
    """Return the cascades by table. Statements are only explained, not run."""
    own = {table.name.lower(): table for table in tables if not table.view}
    found: dict[str, list[Cascade]] = {}
    listed = connection.execute("SELECT DISTINCT tbl_name FROM main.sqlite_schema WHERE type = 'trigger'").fetchall()
    for (name,) in listed:
        if (table := own.get(name.lower())) is not None:
            found.setdefault(table.name, []).extend(_triggers(connection, table))
    for referring in own.values():
        for referred, cascade in _actions(connection, referring, own):
            found.setdefault(referred, []).append(cascade)
    return {name: sorted(set(cascades)) for name, cascades in found.items()}


def _triggers(connection: sqlite3.Connection, table: Table) -> Iterator[Cascade]:
    columns = [column.name for column in table.columns if not column.computed]
    yield from _compiled(connection, "delete", f"DELETE FROM main.{_quoted(table.name)} WHERE 0", ())  # noqa: S608 - its own names, quoted
    listed = ", ".join(map(_quoted, columns))
    nulls = ", ".join("NULL" for _ in columns)
    insert = f"INSERT INTO main.{_quoted(table.name)} ({listed}) VALUES ({nulls})"  # noqa: S608 - its own names, quoted
    yield from _compiled(connection, "insert", insert, ())
    for column in columns:
        update = f"UPDATE main.{_quoted(table.name)} SET {_quoted(column)} = NULL WHERE 0"  # noqa: S608 - its own names, quoted
        yield from _compiled(connection, "update", update, (column,))


def _compiled(connection: sqlite3.Connection, kind: str, statement: str, columns: tuple[str, ...]) -> Iterator[Cascade]:
    """Return the triggers of a statement. The authorizer is called with the trigger's name for its steps. A trigger that cannot be
    compiled counts too.
    """
    names: set[str] = set()

    def note(_action: int, _first: str | None, _second: str | None, _database: str | None, source: str | None) -> int:
        if source:
            names.add(source)
        return sqlite3.SQLITE_OK

    connection.set_authorizer(note)
    try:
        connection.execute(f"EXPLAIN {statement}").close()
    except sqlite3.Error:
        names.add("that cannot be compiled")
    finally:
        connection.set_authorizer(None)
    for name in names:
        yield Cascade(on=kind, by=f"trigger {name}", columns=columns)


def _actions(
    connection: sqlite3.Connection, referring: Table, tables: Mapping[str, Table]
) -> Iterator[tuple[str, Cascade]]:
    keys = connection.execute("SELECT * FROM pragma_foreign_key_list(?, 'main')", (referring.name,)).fetchall()
    for _, _, other, column, target, on_update, on_delete, *_ in keys:
        if (referred := tables.get(other.lower())) is None:
            continue
        by = f"foreign key {column} of {referring.name}"
        if on_delete in _ACTIONS:
            yield referred.name, Cascade(on="delete", by=by)
        if on_update in _ACTIONS:
            known = [name.name for name in referred.columns if target and name.name.lower() == target.lower()]
            yield referred.name, Cascade(on="update", by=by, columns=tuple(known) or referred.primary_key)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
