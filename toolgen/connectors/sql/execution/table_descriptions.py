"""Descriptions of tables: the list of tables, and the content of each, for the part of a database that a caller may see."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace

from toolgen.connectors.sql.execution.engine_errors import failed
from toolgen.core.spelling import nearest
from toolgen.model.database import Column, Database, Table
from toolgen.model.result import Delivery, Failed, Success
from toolgen.model.schema import Json, JsonObject

__all__ = ["describe_table", "list_tables", "with_estimate"]

_PAGE: Final = 200
_MAX_DESCRIBED: Final = 20
_NO_ARGUMENTS: Final[JsonObject] = MappingProxyType({})
_MAX_REFERRING: Final = 40


def list_tables(database: Database | None, arguments: JsonObject = _NO_ARGUMENTS) -> Success | Failed:
    """Return a page of the visible tables whose names match a pattern, with the number of visible columns."""
    if database is None:
        return failed("internal", "no stage decided which tables are visible", "")
    pattern, limit, cursor = arguments.get("pattern"), arguments.get("limit"), arguments.get("cursor")
    if cursor is not None and not (isinstance(cursor, str) and cursor.isdecimal() and len(cursor) < 10):
        return failed("validation", "cursor must be a value of meta.next_cursor", "leave it out for the first page")
    wanted = pattern.lower() if isinstance(pattern, str) else ""
    named = [table for table in database.tables if _is_like(wanted, _name(table).lower())]
    begin, most = int(cursor) if isinstance(cursor, str) else 0, limit if isinstance(limit, int) else _PAGE
    tables: list[Json] = [_listed(table) for table in named[begin : begin + most]]
    ended = begin + len(tables)
    return Success(
        data={"dialect": database.dialect, "tables": tables},
        next_cursor=str(ended) if ended < len(named) else "",
        delivery=Delivery(rows=len(tables), total=len(named)),
    )


def _is_like(pattern: str, name: str) -> bool:
    """Return True if a name contains the pattern or, for a pattern with `*` or `?`, matches it completely."""
    if not any(sign in pattern for sign in "*?"):
        return pattern in name
    at, place, star, tried = 0, 0, -1, 0
    while place < len(name):
        if at < len(pattern) and pattern[at] == "*":
            star, tried, at = at, place, at + 1
        elif at < len(pattern) and pattern[at] in ("?", name[place]):
            at, place = at + 1, place + 1
        elif star >= 0:
            at, tried = star + 1, tried + 1
            place = tried
        else:
            return False
    return set(pattern[at:]) <= {"*"}


def _listed(table: Table) -> dict[str, Json]:
    """Return a table's entry in the list of tables. Defaults are omitted: the kind of a table that is not a view, and an empty comment."""
    told: dict[str, Json] = {"name": _name(table), "columns": len(table.columns)}
    if table.view:
        told["kind"] = "view"
    if table.comment:
        told["comment"] = table.comment
    if table.writes:
        told["writes"] = list(table.writes)
    if table.row_note:
        told["rows"] = table.row_note
    return told


def describe_table(database: Database | None, asked: Json) -> Success | Failed:
    """Describe a table, or several with commas between their names. A table that the caller may not see is answered as missing."""
    if database is None:
        return failed("internal", "no stage decided which tables are visible", "")
    if isinstance(asked, str) and "," in asked and isinstance(one := _one_table(database, asked), Failed):
        names = list(dict.fromkeys(name for part in asked.split(",") if (name := part.strip())))
        if len(names) > _MAX_DESCRIBED:
            return failed("validation", f"at most {_MAX_DESCRIBED} tables are described at once", "name fewer")
        found = [_one_table(database, name) for name in names] or [one]
        wrong = [table for table in found if isinstance(table, Failed)]
        if wrong:
            return wrong[0]
        described = [_described(table, database) for table in found if isinstance(table, Table)]
        tables: list[Json] = [{name: value for name, value in one.items() if name != "dialect"} for one in described]
        return Success(data={"dialect": database.dialect, "tables": tables}, delivery=Delivery(rows=len(tables)))
    table = _one_table(database, asked)
    if isinstance(table, Failed):
        return table
    return Success(data=_described(table, database), delivery=Delivery(rows=len(table.columns)))


def _one_table(database: Database, asked: Json) -> Table | Failed:
    names = [_name(table) for table in database.tables]
    exact = [table for table in database.tables if _name(table) == asked]
    folded = [table for table in database.tables if isinstance(asked, str) and _name(table).lower() == asked.lower()]
    for table in (*exact, *folded):
        return table
    wanted = asked if isinstance(asked, str) and len(asked) <= 64 else "…"
    listed = f"available tables: {', '.join(names[:40])}" if names else "no table of this database is available"
    return failed("validation", f"table {wanted} is not available{nearest(wanted, names)}", listed)


def _described(table: Table, database: Database) -> dict[str, Json]:
    """Return the complete description of a table without empty parts."""
    described: dict[str, Json] = {
        "name": _name(table),
        "kind": "view" if table.view else "table",
        "dialect": database.dialect,
        "columns": [_column(column, table) for column in table.columns],
    }
    more: dict[str, Json] = {
        "primary_key": list(table.primary_key),
        "references": dict(table.references),
        "comment": table.comment,
        "rows": table.row_note,
        "writes": list(table.writes),
        "referenced_by": _referred(table, database),
        "unique": [list(index.columns) for index in table.indexes if index.unique],
        "indexes": [list(index.columns) for index in table.indexes],
        "checks": list(table.checks),
    }
    return {**described, **{name: value for name, value in more.items() if value}}


def _column(column: Column, table: Table) -> Json:
    """Return the description of a column without the usual properties: that it may be null, and that it may be changed as other columns."""
    told: dict[str, Json] = {"name": column.name, "type": column.type}
    if not column.nullable:
        told["nullable"] = False
    if column.comment:
        told["comment"] = column.comment
    if table.writes and column.name in table.writable:
        told["writable"] = True
    if column.labels:
        told["values"] = list(column.labels)
    if column.default:
        told["default"] = column.default
    return told


def _referred(table: Table, database: Database) -> dict[str, Json]:
    """Return the visible columns of other tables that refer to each column."""
    own = f"{_name(table)}."
    found: dict[str, list[Json]] = {}
    for other in database.tables:
        for column, target in other.references.items():
            if target.startswith(own) and "." not in target[len(own) :]:
                found.setdefault(target[len(own) :], []).append(f"{_name(other)}.{column}")
    return {column: referring[:_MAX_REFERRING] for column, referring in found.items()}


def with_estimate(described: Success, counted: Success) -> Success:
    """Return the description of a table with the approximate number of rows, if the database has an estimate."""
    table: Any = described.data
    rows: Any = counted.data
    number = rows["rows"][0][0] if rows["rows"] and rows["rows"][0] else None
    if isinstance(number, str) and number.isdigit():
        number = int(number)
    if not isinstance(number, int | float) or number < 0:
        return described
    digits = max(0, len(str(int(number))) - 2)
    delivery = replace(described.delivery, sql=counted.delivery.sql)
    return replace(described, data={**table, "row_estimate": round(int(number), -digits)}, delivery=delivery)


def _name(table: Table) -> str:
    return f"{table.schema}.{table.name}" if table.schema else table.name
