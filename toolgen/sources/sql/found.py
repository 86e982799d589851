"""What every reader of a schema finds, and how what a server answers is put together into tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from toolgen.model.database import Column, Database, Table

__all__ = ["MOST_SAID", "MOST_TABLES", "Found", "Note", "Reference", "Relation", "assembled"]

MOST_TABLES = 5_000
MOST_SAID = 200  # characters of what an engine says of a trusted query


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something to know about a table, view or function: a Problem without its source."""

    origin: str
    code: str
    message: str
    level: str = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A database and what was left out of it, or is special about it."""

    database: Database
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A table or view under the name it gets in the manifest: without a schema in the default one."""

    schema: str
    name: str
    view: bool = False
    comment: str = ""

    @property
    def full(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One column of a foreign key."""

    table: str  # full name, as of Relation
    column: str
    target: str  # `table.column`


def assembled(
    dialect: str,
    relations: Iterable[Relation],
    columns: Iterable[tuple[str, Column]],
    keys: Iterable[tuple[str, str]],
    references: Iterable[Reference],
    functions: Iterable[str] = (),
) -> Database:
    """The database in an order that depends on names alone. `columns` and `keys` are (table's full name, …) in their own order."""
    of: dict[str, list[Column]] = defaultdict(list)
    for table, column in columns:
        of[table].append(column)
    keyed: dict[str, list[str]] = defaultdict(list)
    for table, name in keys:
        keyed[table].append(name)
    referred: dict[str, dict[str, str]] = defaultdict(dict)
    for reference in sorted(references, key=lambda item: (item.table, item.column, item.target)):
        referred[reference.table].setdefault(reference.column, reference.target)
    tables = (
        Table(
            name=relation.name,
            schema=relation.schema,
            columns=tuple(of[relation.full]),
            primary_key=tuple(keyed[relation.full]),
            references=referred[relation.full],
            view=relation.view,
            comment=relation.comment,
        )
        for relation in sorted(relations, key=lambda item: (item.schema, item.name))
        if relation.full in of
    )
    return Database(dialect=dialect, tables=tuple(tables), functions=tuple(sorted(set(functions))))
