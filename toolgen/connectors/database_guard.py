"""Guard of calls to databases, as a connector of databases brings it."""

from __future__ import annotations

from typing import Protocol

from toolgen.model.call import Call, DatabaseDescription, Principal, Statement
from toolgen.model.database import Database
from toolgen.model.schema import Json
from toolgen.model.sql_scope import SqlScope
from toolgen.model.tool import Tool
from toolgen.model.verdict import Deny

__all__ = ["DatabaseGuard"]


class DatabaseGuard(Protocol):
    """Pure functions from a call or a statement to the statement that may run, or a refusal.

    A protocol, because the guard belongs to the connector of SQL, which the pipeline must not import.
    """

    async def verdict(
        self, call: Call, *, database: Database, scope: SqlScope
    ) -> Statement | Database | DatabaseDescription | Deny:
        """Inspect a call without blocking others: a statement, a part of the database to describe, or a refusal."""
        ...

    def inspect(
        self, call: Call, *, database: Database, scope: SqlScope
    ) -> Statement | Database | DatabaseDescription | Deny:
        """Return the verdict at once, for previews."""
        ...

    def open_scope(self, database: Database) -> SqlScope:
        """Return a scope of all tables, for previews."""
        ...

    def refusal(self, tool: Tool, database: Database | None, scope: SqlScope | None) -> str:
        """Return the reason why every call of a tool with a stored statement would be refused; "" if there is none."""
        ...

    def check(
        self, sql: str, parameters: list[Json], *, database: Database, scope: SqlScope, principal: Principal
    ) -> Statement | Deny:
        """Return the verdict on a statement that nobody calls a tool with."""
        ...
