"""Records of PostgreSQL with the columns of a table, filled from JSON: `jsonb_populate_record(NULL::orders, '{…}')`.

https://www.postgresql.org/docs/current/functions-json.html#FUNCTIONS-JSON-PROCESSING. With NULL of a table's type, the function is
equivalent to `jsonb_to_record` with the columns of the table, and is rewritten: `jsonb_to_record('{…}') AS r(id int, …)`. The columns are
those that the scope opens. No value of the table is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.guard.bounds import called_name
from toolgen.connectors.sql.guard.grants import visible
from toolgen.connectors.sql.guard.identifiers import DEFAULT_SCHEMA
from toolgen.connectors.sql.guard.placeholders import CALL
from toolgen.connectors.sql.guard.refusal import refuse, shown
from toolgen.model.database import Column, Database, Table
from toolgen.model.sql_scope import SqlScope

__all__ = ["declare_records", "may_populate"]

_FUNCTIONS: Final = {
    f"{kind}_populate_{what}": f"{kind}_to_{what}" for kind in ("json", "jsonb") for what in ("record", "recordset")
}


def may_populate(sql: str) -> bool:
    """Return True if the text may contain such a call."""
    return "_populate_" in sql.lower()


def declare_records(root: exp.Expr, database: Database, scope: SqlScope) -> None:
    """Rewrite each call with the columns of its table, in place. Raises `StatementRefusal`."""
    for call in list(root.find_all(exp.Anonymous)):
        name = called_name(call)
        if name not in _FUNCTIONS:
            continue
        columns = _columns(call, database, scope)
        around = call.parent
        made = exp.Anonymous(this=CALL + _FUNCTIONS[name], expressions=[call.expressions[1].copy()])
        if isinstance(around, (exp.Table, exp.Lateral)):
            _declare(around, call, made, name, columns)
        elif isinstance(around, exp.Paren) and isinstance(around.parent, exp.Dot) and not name.endswith("set"):
            _take_field(around.parent, made, columns)
        else:
            refuse("syntax", f"{shown(name)} is used outside of FROM", f"write it in FROM: {name}(NULL::t, x) AS r")


def _columns(call: exp.Expr, database: Database, scope: SqlScope) -> list[tuple[Column, exp.DataType]]:
    """Return the columns of the table whose type the first argument has, with their declared types."""
    base = call.expressions[0] if len(call.expressions) == 2 else None
    kind = base.to.args.get("kind") if isinstance(base, exp.Cast) and isinstance(base.this, exp.Null) else None
    table = _table(_names(kind), database, scope)
    if table is None:
        refuse(
            "type",
            f"{called_name(call)} is called with something other than NULL of a table's type",
            f"write {_FUNCTIONS[called_name(call)]}(x) AS r(id int, name text)",
        )
    return [(column, _type(column, database)) for column in table.columns]


def _table(named: tuple[str, str] | None, database: Database, scope: SqlScope) -> Table | None:
    default = DEFAULT_SCHEMA[database.dialect]
    for table in visible(database, scope).tables if named is not None else ():
        if named in {(table.schema, table.name), (table.schema or default, table.name)}:
            return table
    return None


def _names(kind: object) -> tuple[str, str] | None:
    match kind:
        case exp.Identifier():
            return "", _folded(kind)
        case exp.Dot(this=exp.Identifier() as schema, expression=exp.Identifier() as name):
            return _folded(schema), _folded(name)
    return None


def _folded(name: exp.Identifier) -> str:
    return str(name.name) if name.args.get("quoted") else str(name.name).lower()


def _type(column: Column, database: Database) -> exp.DataType:
    record = RECORDS[database.dialect]
    if column.type.partition("(")[0] in record.types:
        return exp.DataType(this=exp.DType.USERDEFINED, kind=exp.to_identifier(column.type))
    try:
        return exp.DataType.build(column.type, dialect=database.dialect, udt=False)
    except (SqlglotError, ValueError):
        refuse(
            "type",
            f"the column {shown(column.name)} has a type of this database",
            "declare the columns: jsonb_to_record(x) AS r(id int, name text)",
        )


def _declare(
    source: exp.Expr, call: exp.Expr, made: exp.Expr, name: str, columns: Sequence[tuple[Column, exp.DataType]]
) -> None:
    alias = source.args.get("alias")
    renamed = list(alias.args.get("columns") or ()) if alias is not None else []
    if (
        source.args.get("ordinality")
        or len(renamed) > len(columns)
        or any(type(one) is not exp.Identifier for one in renamed)
    ):
        refuse(
            "syntax",
            f"{shown(name)} has other columns than its table",
            "write AS r, or as many names as it has columns",
        )
    names = [*renamed, *(exp.to_identifier(column.name, quoted=True) for column, _ in columns[len(renamed) :])]
    declared = [exp.ColumnDef(this=one.copy(), kind=kind) for one, (_, kind) in zip(names, columns, strict=True)]
    this = alias.this.copy() if alias is not None and alias.this is not None else exp.to_identifier(name)
    call.replace(made)
    source.set("alias", exp.TableAlias(this=this, columns=declared))


def _take_field(dot: exp.Dot, made: exp.Expr, columns: Sequence[tuple[Column, exp.DataType]]) -> None:
    """Rewrite `(jsonb_populate_record(NULL::t, x)).name` as `(SELECT record.name FROM jsonb_to_record(x) AS record(name text))`."""
    field = dot.expression
    found = [
        (column, kind)
        for column, kind in columns
        if isinstance(field, exp.Identifier) and column.name == _folded(field)
    ]
    if not found:
        refuse("column", "a field of a record is not a column of its table", "name a column of the table")
    ((column, kind),) = found
    name = exp.to_identifier(column.name, quoted=True)
    alias = exp.TableAlias(this=exp.to_identifier("record"), columns=[exp.ColumnDef(this=name, kind=kind)])
    source = exp.Table(this=made, alias=alias)
    value = exp.Column(this=name.copy(), table=exp.to_identifier("record"))
    dot.replace(exp.Subquery(this=exp.Select(expressions=[value], from_=exp.From(this=source))))
