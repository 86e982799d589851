"""Trials of statements beyond a policy. Imported only if the SQL parser is installed (`toolgen[sql]`)."""

from __future__ import annotations

from typing import Final

from toolgen.connectors.registry import CONNECTORS
from toolgen.model.call import Call, Statement
from toolgen.quality.doctor.scratch_gateway import Scratch
from toolgen.quality.doctor.trial import RefusalChecks, UselessError

__all__ = ["SQL_ATTEMPTS"]

SQL_ATTEMPTS: Final = RefusalChecks()
_GUARD: Final = next(type(found) for one in CONNECTORS.values() if (found := one.database_guard()) is not None)

_REFUSED_SQL: Final = {
    "a column that the policy hides": "SELECT ssn FROM customers",
    "a hidden column in a filter": "SELECT id FROM customers WHERE ssn LIKE 'a%'",
    "a table that the policy does not open": "SELECT amount FROM salaries",
    "a hidden table in a subquery": "SELECT id FROM customers WHERE id IN (SELECT id FROM salaries)",
    "the engine's own tables": "SELECT sql FROM sqlite_master",
    "a change": "DELETE FROM customers",
    "two statements": "SELECT id FROM customers; DELETE FROM customers",
    "a function that loads code": "SELECT load_extension('x')",
    "a setting": "PRAGMA table_info(customers)",
}
_BY_ANOTHER_WAY: Final = (
    "SELECT id FROM customers WHERE 1 = 1 OR tenant = 'other'",
    "SELECT c.id FROM customers c JOIN customers d ON 1 = 1",
    "SELECT id FROM customers UNION ALL SELECT id FROM customers",
)


async def _as_written(_guard: object, call: Call, **_: object) -> Statement:
    sql = str(call.arguments.get("sql", ""))
    nothing: frozenset[str] = frozenset()
    return Statement(
        sql=sql,
        parameters=(),
        tables=nothing,
        columns=nothing,
        max_rows=1_000_000,
        max_bytes=0,
        max_cell_bytes=0,
        timeout_s=1.0,
    )


@SQL_ATTEMPTS.add_in_scratch(
    "SQL",
    f"{len(_REFUSED_SQL)} statements beyond what the policy opens were refused",
    _GUARD,
    "verdict",
    _as_written,
    database=True,
)
async def _statements(place: Scratch) -> str:
    for what, sql in _REFUSED_SQL.items():
        if await place.reached("query", {"sql": sql}):
            return f"a statement with {what} was let through"
    return ""


@SQL_ATTEMPTS.add_in_scratch(
    "SQL rows",
    "statements were given the policy's row filter and its limit",
    _GUARD,
    "verdict",
    _as_written,
    database=True,
)
async def _rows(place: Scratch) -> str:
    for sql in _BY_ANOTHER_WAY:
        if not await place.reached("query", {"sql": sql}):
            continue  # a refusal is equally good
        statement = place.echo.calls[-1].statement
        if statement is None or "own" not in statement.parameters or "tenant" not in statement.sql:
            return f"a statement was let through without the row filter: {sql}"
        if statement.max_rows > 5 or "LIMIT" not in statement.sql.upper():
            return f"a statement was let through without the limit on its rows: {sql}"
    if not place.echo.calls:
        raise UselessError("statements that the policy allows were refused too")
    return ""
