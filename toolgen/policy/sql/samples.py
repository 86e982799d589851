"""What `describe_table` may read to show how the values of a table look: one query of our own, guarded like anybody's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from sqlglot import exp

from toolgen.model.call import Sampling, Statement
from toolgen.model.database import Database, Table
from toolgen.policy.sql.grants import SqlScope, TableScope, find_table, full_name, visible_columns
from toolgen.policy.sql.guard import guard

__all__ = ["sampling_of"]

_ROWS: Final = 100
_MOST_COLUMNS: Final = 60
_MOST_BYTES: Final = 200_000
_LONGEST_CELL: Final = 200


def sampling_of(
    asked: object, *, database: Database, scope: SqlScope, attributes: Mapping[str, object]
) -> Sampling | None:
    """The rows to look at for a table of the scope, or None where the policy wants no samples of it, or the guard lets nothing be read.

    Only columns that may be seen are read, and none that is masked or sensitive; row filters and limits are the guard's.
    """
    found = _open_table(asked, database, scope)
    if found is None:
        return None
    table, entry = found
    columns = [
        name
        for name in visible_columns(table, entry, database.dialect)
        if name not in entry.masks and name not in entry.unsampled
    ][:_MOST_COLUMNS]
    if not (entry.samples and columns):
        return None
    verdict = guard(_text(table, columns, database.dialect), (), database=database, scope=scope, attributes=attributes)
    if not isinstance(verdict, Statement):
        return None
    statement = msgspec.structs.replace(
        verdict,
        max_bytes=min(verdict.max_bytes, _MOST_BYTES),
        max_cell_bytes=min(verdict.max_cell_bytes, _LONGEST_CELL),
    )
    return Sampling(statement=statement, columns=tuple(columns), shows=entry.samples)


def _open_table(asked: object, database: Database, scope: SqlScope) -> tuple[Table, TableScope] | None:
    """The table that describing means by a name: one spelt so, or else the first whose name differs in case alone."""
    if not isinstance(asked, str):
        return None
    named = ((find_table(database, name), entry) for name, entry in scope.tables.items())
    tables = [(table, entry) for table, entry in named if table is not None]
    order = {id(table): place for place, table in enumerate(database.tables)}
    tables.sort(key=lambda item: order[id(item[0])])
    exact = [item for item in tables if full_name(item[0]) == asked]
    folded = [item for item in tables if full_name(item[0]).lower() == asked.lower()]
    return next(iter([*exact, *folded]), None)


def _text(table: Table, columns: list[str], dialect: str) -> str:
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
