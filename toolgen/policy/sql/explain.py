"""Whose plan may be shown: a plan tells how many rows there are, what a view is made of, and by what rows are filtered."""

from __future__ import annotations

from toolgen.model.call import Statement
from toolgen.model.database import Database
from toolgen.model.verdict import Deny
from toolgen.policy.sql.grants import SqlScope, find_table, full_name
from toolgen.policy.sql.refusal import Refusal

__all__ = ["explainable"]


def explainable(verdict: Statement | Deny, *, database: Database, scope: SqlScope) -> Statement | Deny:
    """The statement, unless it reads a view, or a table through a row filter or a mask: then a refusal that says which."""
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
            return Refusal(
                "explain",
                f"{full_name(table)} is {what}, and a plan would tell of what is below",
                "leave it out of the query to explain, or run the query",
            ).verdict()
    return verdict
