"""What `list_tables` and `describe_table` answer: the part of the manifest's database that the inspect stage left for this principal."""

from __future__ import annotations

from toolgen.execute.sql.answer import failed
from toolgen.model.database import Database, Table
from toolgen.model.names import nearest
from toolgen.model.result import Failed, Success
from toolgen.model.schema import Json

__all__ = ["describe_table", "list_tables"]


def list_tables(database: Database | None) -> Success | Failed:
    """Every table that may be seen, with its kind and how many columns of it may be."""
    if database is None:
        return failed("internal", "nothing said which tables may be seen", "")
    tables: list[Json] = [
        {
            "name": _name(table),
            "kind": "view" if table.view else "table",
            "columns": len(table.columns),
            "comment": table.comment,
        }
        for table in database.tables
    ]
    return Success(data={"dialect": database.dialect, "tables": tables}, facts={"rows": len(tables)})


def describe_table(database: Database | None, asked: Json) -> Success | Failed:
    """One table. One that may not be seen and one that does not exist are answered with the same words."""
    if database is None:
        return failed("internal", "nothing said which tables may be seen", "")
    names = [_name(table) for table in database.tables]
    exact = [table for table in database.tables if _name(table) == asked]
    folded = [table for table in database.tables if isinstance(asked, str) and _name(table).lower() == asked.lower()]
    for table in (*exact, *folded):
        return Success(data=_described(table, database.dialect), facts={"rows": len(table.columns)})
    wanted = asked if isinstance(asked, str) and len(asked) <= 64 else "…"
    listed = f"available tables: {', '.join(names[:40])}" if names else "no table of this database is available"
    return failed("validation", f"table {wanted} is not available{nearest(wanted, names)}", listed)


def _described(table: Table, dialect: str) -> Json:
    columns: list[Json] = [
        {"name": column.name, "type": column.type, "nullable": column.nullable, "comment": column.comment}
        for column in table.columns
    ]
    return {
        "name": _name(table),
        "kind": "view" if table.view else "table",
        "dialect": dialect,
        "columns": columns,
        "primary_key": list(table.primary_key),
        "references": dict(table.references),
        "comment": table.comment,
    }


def _name(table: Table) -> str:
    return f"{table.schema}.{table.name}" if table.schema else table.name
