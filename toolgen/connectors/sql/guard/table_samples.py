"""Statements that `describe_table` runs, checked by the guard: samples of a table's values, and its number of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from sqlglot import exp

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.guard.grants import visible_columns
from toolgen.connectors.sql.guard.guard import guard
from toolgen.connectors.sql.guard.identifiers import find_table, full_name
from toolgen.model.call import Sampling, Statement
from toolgen.model.database import Database, DialectName, Table
from toolgen.model.sql_scope import SqlScope, TableScope

__all__ = ["sampling_of"]

_ROWS: Final = 100
_MAX_COLUMNS: Final = 60
_MAX_BYTES: Final = 200_000
_MAX_CELL_LENGTH: Final = 200
_COUNTING_S: Final = 2.0


def sampling_of(
    asked: object, *, database: Database, scope: SqlScope, attributes: Mapping[str, object]
) -> Sampling | None:
    """Return the rows to read for a table of the scope, or None if the policy wants no samples of it, or the guard permits no reading.

    Only visible columns are read, and no masked or sensitive ones; row filters and limits are the guard's.
    """
    found = _open_table(asked, database, scope)
    if found is None:
        return None
    table, entry = found
    columns = [
        name
        for name in visible_columns(table, entry, database.dialect)
        if name not in entry.masks and name not in entry.unsampled
    ][:_MAX_COLUMNS]
    if not (entry.samples and columns):
        return None
    verdict = guard(_text(table, columns, database.dialect), (), database=database, scope=scope, attributes=attributes)
    if not isinstance(verdict, Statement):
        return None
    statement = msgspec.structs.replace(
        verdict,
        max_bytes=min(verdict.max_bytes, _MAX_BYTES),
        max_cell_bytes=min(verdict.max_cell_bytes, _MAX_CELL_LENGTH),
    )
    return Sampling(statement=statement, columns=tuple(columns), shows=entry.samples)


_COUNTED: Final = 10_000


def counting_of(asked: object, *, database: Database, scope: SqlScope) -> Statement | None:
    """Return a statement that estimates the number of rows of a table in the scope; None for a view, and if some of its rows are hidden.

    A server has the number in its catalog. SQLite counts, up to 10,000.
    """
    found = _open_table(asked, database, scope)
    if found is None or found[0].view or found[1].rows is not None or found[1].row_note:
        return None
    table = found[0]
    timeout_s = min(scope.timeout_s, _COUNTING_S)
    estimate = RECORDS[database.dialect].estimate
    if estimate is None:
        named = exp.Table(this=exp.to_identifier(table.name, quoted=True)).sql(dialect=database.dialect)
        text = f"SELECT count(*) FROM (SELECT 1 FROM {named} LIMIT {_COUNTED}) AS q"  # noqa: S608 - the database's own name, quoted
        verdict = guard(text, (), database=database, scope=scope, attributes={})
        return msgspec.structs.replace(verdict, timeout_s=timeout_s) if isinstance(verdict, Statement) else None
    return Statement(
        sql=estimate.sql,
        parameters=estimate.values(table.schema, table.name),
        tables=frozenset(),
        columns=frozenset(),
        max_rows=1,
        max_bytes=_MAX_CELL_LENGTH,
        max_cell_bytes=_MAX_CELL_LENGTH,
        timeout_s=timeout_s,
    )


def _open_table(asked: object, database: Database, scope: SqlScope) -> tuple[Table, TableScope] | None:
    """Return the table with this exact name, or else the first whose name differs only in case."""
    if not isinstance(asked, str):
        return None
    named = ((find_table(database, name), entry) for name, entry in scope.tables.items())
    tables = [(table, entry) for table, entry in named if table is not None]
    order = {id(table): place for place, table in enumerate(database.tables)}
    tables.sort(key=lambda item: order[id(item[0])])
    exact = [item for item in tables if full_name(item[0]) == asked]
    folded = [item for item in tables if full_name(item[0]).lower() == asked.lower()]
    return next(iter([*exact, *folded]), None)


def _text(table: Table, columns: list[str], dialect: DialectName) -> str:
    named = exp.Table(
        this=exp.to_identifier(table.name, quoted=True),
        db=exp.to_identifier(table.schema, quoted=True) if table.schema else None,
    )
    query = exp.Select(
        expressions=[exp.Column(this=exp.to_identifier(name, quoted=True)) for name in columns],
        from_=exp.From(this=named),
        limit=exp.Limit(expression=exp.Literal.number(_ROWS)),
    )
    return query.sql(dialect=dialect)
