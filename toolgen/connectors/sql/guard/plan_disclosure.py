"""Refusal to explain a statement whose plan would reveal hidden data: the size of a table, the query of a view, or a row filter."""

from __future__ import annotations

from toolgen.connectors.sql.guard.identifiers import find_table, full_name
from toolgen.connectors.sql.guard.refusal import StatementRefusal
from toolgen.model.call import Statement
from toolgen.model.database import Database
from toolgen.model.sql_scope import SqlScope
from toolgen.model.verdict import Deny

__all__ = ["explainable"]


def explainable(verdict: Statement | Deny, *, database: Database, scope: SqlScope) -> Statement | Deny:
    """Return the statement, or a refusal with the table's name if it reads a view, or a table with a row filter or a mask."""
    if isinstance(verdict, Deny):
        return verdict
    for name, entry in scope.tables.items():
        table = find_table(database, name)
        if (
            table is not None
            and full_name(table) in verdict.tables
            and (table.view or entry.rows is not None or entry.masks)
        ):
            what = "a view" if table.view else "seen in part"
            return StatementRefusal(
                "explain",
                f"{full_name(table)} is {what}, and a plan would reveal what is below it",
                "leave it out of the query to explain, or run the query",
            ).verdict()
    return verdict
