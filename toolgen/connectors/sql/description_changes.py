"""Changes of a database and of the statements that its tools run, between two builds."""

from __future__ import annotations

from collections.abc import Iterator

from toolgen.model.binding_change import BindingChange, breaking, change, compatible, one_line
from toolgen.model.database import Column, Table
from toolgen.model.manifest import SourceInfo
from toolgen.model.tool import SqlBinding, Tool

__all__ = ["schema_changes", "statement_changes"]


def statement_changes(earlier: Tool, later: Tool) -> Iterator[BindingChange]:
    """Yield changes of the operation, or of a stored statement."""
    old, new = earlier.binding, later.binding
    if not isinstance(old, SqlBinding) or not isinstance(new, SqlBinding):
        return
    if (old.dialect, old.operation) != (new.dialect, new.operation):
        text = f"now does {new.operation} in {new.dialect} (before: {old.operation} in {old.dialect})"
        yield breaking("binding", text)
    elif old.statement != new.statement:
        yield breaking("binding", f"its statement is now: {one_line(new.statement)}")


def schema_changes(earlier: SourceInfo, later: SourceInfo) -> Iterator[BindingChange]:
    """Yield changes of dialect, functions, tables and columns."""
    old, new = earlier.database, later.database
    if old is None or new is None:
        return
    if old.dialect != new.dialect:
        yield breaking("dialect", f"its dialect is now {new.dialect} (before: {old.dialect})")
    for name in sorted({*old.functions, *new.functions}):
        if name not in old.functions:
            text = f"now defines the function {name}; calls of a built-in function with that name are refused"
            yield breaking("function", text)
        elif name not in new.functions:
            yield compatible("function", f"no longer defines the function {name}")
    before = {_table_name(table): table for table in old.tables}
    after = {_table_name(table): table for table in new.tables}
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            yield breaking("table", f"table {name} was removed")
        elif name not in before:
            yield compatible("table", f"table {name} is new")
        elif before[name] != after[name]:
            yield from _table(name, before[name], after[name])


def _table_name(table: Table) -> str:
    return f"{table.schema}.{table.name}" if table.schema else table.name


def _table(name: str, old: Table, new: Table) -> Iterator[BindingChange]:
    before = {column.name: column for column in old.columns}
    after = {column.name: column for column in new.columns}
    for column in [*after, *(column for column in before if column not in after)]:
        if column not in after:
            yield breaking("column", f"column {name}.{column} was removed")
        elif column not in before:
            yield compatible("column", f"column {name}.{column} is new")
        else:
            yield from _column(f"{name}.{column}", before[column], after[column])
    if list(filter(after.__contains__, before)) != list(filter(before.__contains__, after)):
        yield compatible("table", f"table {name} has its columns in another order")
    for code, said in (("primary_key", "primary key"), ("references", "list of references"), ("comment", "comment")):
        if getattr(old, code) != getattr(new, code):
            yield compatible("table", f"table {name} has another {said}")
    if old.view != new.view:
        yield compatible("table", f"{name} is now a {'view' if new.view else 'table'}")


def _column(name: str, old: Column, new: Column) -> Iterator[BindingChange]:
    if old.type != new.type:
        yield breaking("column", f"column {name} is now {new.type or 'untyped'} (before: {old.type or 'untyped'})")
    if old.nullable != new.nullable:
        yield change(
            new.nullable, "column", f"column {name} {'may now be null' if new.nullable else 'can no longer be null'}"
        )
    if old.comment != new.comment:
        yield compatible("column", f"column {name} has another comment")
