"""Result types of all schema readers, and the assembly of a server's catalog rows into tables."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec import Struct, field

from toolgen.connectors.sql.reading.labels import with_labels
from toolgen.model.database import UNSEEN, Cascade, Column, Database, DialectName, Index, Table
from toolgen.model.excerpt import bounded

__all__ = [
    "MAX_SAID",
    "MAX_TABLES",
    "Extras",
    "ForeignKeyColumn",
    "ReadSchema",
    "Relation",
    "SchemaNote",
    "assembled",
    "plain_default",
]

MAX_TABLES = 5_000
_MAX_TOLD = 5
_MAX_KEPT = 40  # maximum indexes, and checks, of a table
_CASCADING = "such statements are refused unless the policy says cascades: true for the table"
MAX_SAID = 200  # characters of an engine's message about a trusted query


class SchemaNote(Struct, frozen=True, kw_only=True):
    """Something to know about a table, view or function: a Problem without its source."""

    origin: str
    code: str
    message: str
    level: str = "warning"


class ReadSchema(Struct, frozen=True, kw_only=True):
    """Database with its notes, and the cascades of changes of a table (by its full name)."""

    database: Database
    notes: tuple[SchemaNote, ...] = ()
    cascades: Mapping[str, Sequence[Cascade]] = field(default_factory=lambda: MappingProxyType({}))

    def with_cascades(self) -> ReadSchema:
        """Return the database for a source that writes: tables list the cascades of their changes, and notes warn of them."""
        tables: list[Table] = []
        notes = [*self.notes]
        unseen = False
        for table in self.database.tables:
            name = f"{table.schema}.{table.name}" if table.schema else table.name
            own = () if table.view else tuple(sorted({*self.cascades.get(name, ())}))
            tables.append(msgspec.structs.replace(table, cascades=own))
            told = sorted({f"{one.by} ({one.on})" for one in own if one.by != UNSEEN})
            unseen = unseen or any(one.by == UNSEEN for one in own)
            if told:
                more = f" and {len(told) - _MAX_TOLD} more" if len(told) > _MAX_TOLD else ""
                listed = f"{', '.join(told[:_MAX_TOLD])}{more}"
                notes.append(
                    SchemaNote(origin=name, code="cascades", message=f"changing it sets off {listed}: {_CASCADING}")
                )
        if unseen:
            notes.append(
                SchemaNote(origin="", code="cascades", message=f"changing a table may set off {UNSEEN}: {_CASCADING}")
            )
        return ReadSchema(
            database=msgspec.structs.replace(self.database, tables=tuple(tables)),
            notes=tuple(notes),
            cascades=self.cascades,
        )


class Extras(Struct, frozen=True):
    """Indexes and checks by the full names of tables."""

    indexes: dict[str, list[Index]] = {}
    checks: dict[str, list[str]] = {}

    def indexes_of(self, table: str) -> tuple[Index, ...]:
        """Return indexes in the order of their columns; of equal ones the first, and of those over the same columns the unique one."""
        found = sorted(set(self.indexes.get(table, ())), key=lambda one: (one.columns, not one.unique))
        kept = {one.columns: one for one in reversed(found)}
        return tuple(kept[columns] for columns in sorted(kept))[:_MAX_KEPT]

    def checks_of(self, table: str) -> tuple[str, ...]:
        """Return short checks, in the order of their texts."""
        found = {" ".join(text.split()) for text in self.checks.get(table, ())}
        return tuple(sorted(text for text in found if 0 < len(text) <= MAX_SAID))[:_MAX_KEPT]


class Relation(Struct, frozen=True, kw_only=True):
    """Table or view under its name in the manifest: without a schema in the default one."""

    schema: str
    name: str
    view: bool = False
    comment: str = ""

    @property
    def full(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


class ForeignKeyColumn(Struct, frozen=True, kw_only=True):
    """Column of a foreign key."""

    table: str  # full name, as of Relation
    column: str
    target: str  # `table.column`


_LITERAL = re.compile(
    r"('(?:[^']|'')*'|[-+]?[0-9]+(?:\.[0-9]+)?|null|true|false)(?:::[\w .\"()\[\],]+)?\Z", re.IGNORECASE
)
_WORD = re.compile(r"\(?[a-z_][a-z0-9_]*(?:\([0-9]*\))?\)?\Z", re.IGNORECASE)


def plain_default(text: str) -> str:
    """Return a default that is a value, or a word such as `CURRENT_TIMESTAMP`. Any other is `expression`, because it may contain a
    hidden name.
    """
    text = " ".join(text.split())
    if literal := _LITERAL.match(text):
        return "" if literal[1].lower() == "null" else bounded(literal[1], MAX_SAID)
    if not text or _WORD.match(text):
        return bounded(text, MAX_SAID)
    return "auto_increment" if text.lower().startswith("nextval(") else "expression"


def assembled(
    dialect: DialectName,
    relations: Iterable[Relation],
    columns: Iterable[tuple[str, Column]],
    keys: Iterable[tuple[str, str]],
    references: Iterable[ForeignKeyColumn],
    functions: Iterable[str] = (),
    extras: Extras | None = None,
) -> Database:
    """Return the database in an order that depends only on names. `columns` and `keys` are (table's full name, …) in their own order."""
    extras = extras or Extras()
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
            columns=with_labels(of[relation.full], extras.checks.get(relation.full, ()), dialect),
            primary_key=tuple(keyed[relation.full]),
            references=referred[relation.full],
            view=relation.view,
            comment=relation.comment,
            indexes=extras.indexes_of(relation.full),
            checks=extras.checks_of(relation.full),
        )
        for relation in sorted(relations, key=lambda item: (item.schema, item.name))
        if relation.full in of
    )
    return Database(dialect=dialect, tables=tuple(tables), functions=tuple(sorted(set(functions))))
