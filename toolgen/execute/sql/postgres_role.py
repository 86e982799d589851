"""What a PostgreSQL session begins with: what its role and its database are, and the settings a statement depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import psycopg

__all__ = ["Role", "begin", "role_of"]

_CATALOG: Final = "pg_catalog"

# What a function or an operator of somebody's own would do in place of the built-in one: an overload that fits its arguments better wins
# over the whole search path (https://www.postgresql.org/docs/current/typeconv-func.html). Where there is one, the path ends before it.
_FACTS: Final = """
SELECT current_setting('is_superuser') = 'on',
  EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'pg_read_all_data'),
  EXISTS (SELECT FROM pg_catalog.pg_proc f WHERE f.pronamespace = 'public'::regnamespace
    AND EXISTS (SELECT FROM pg_catalog.pg_proc b WHERE b.proname = f.proname AND b.pronamespace = 'pg_catalog'::regnamespace)
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
      WHERE d.classid = 'pg_catalog.pg_proc'::regclass AND d.objid = f.oid AND d.deptype = 'e'))
  OR EXISTS (SELECT FROM pg_catalog.pg_operator f WHERE f.oprnamespace = 'public'::regnamespace
    AND EXISTS (SELECT FROM pg_catalog.pg_operator b WHERE b.oprname = f.oprname AND b.oprnamespace = 'pg_catalog'::regnamespace)
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
      WHERE d.classid = 'pg_catalog.pg_operator'::regclass AND d.objid = f.oid AND d.deptype = 'e')),
  ARRAY(SELECT CASE nspname WHEN 'public' THEN relname::text ELSE nspname || '.' || relname END
    FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace WHERE relrowsecurity),
  EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'public')
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What was found about a session's role and its database when it was opened."""

    superuser: bool
    lowers: bool  # a superuser can become pg_read_all_data
    path: str
    row_security: frozenset[str] = frozenset()


async def role_of(connection: psycopg.AsyncConnection[tuple[object, ...]]) -> Role:
    cursor = await connection.execute(_FACTS)
    found = await cursor.fetchone()
    assert found is not None  # noqa: S101 - a SELECT without FROM has one row
    superuser, has_role, shadowed, secured, has_public = found
    assert isinstance(secured, list)  # noqa: S101 - an array is a list
    return Role(
        superuser=bool(superuser),
        lowers=bool(superuser) and bool(has_role),
        path=_CATALOG if shadowed or not has_public else f"{_CATALOG}, public",
        row_security=frozenset(map(str, secured)),
    )


def begin(role: Role, timeout_s: float, mode: str = "REPEATABLE READ READ ONLY") -> bytes:
    """One message: the transaction and every setting the guard's reading of SQL, or the bounds of a statement, depend on."""
    milliseconds = max(1, int(timeout_s * 1000))
    settings = [
        f"statement_timeout = {milliseconds}",
        f"lock_timeout = {max(1, min(milliseconds, 2_000))}",
        f"idle_in_transaction_session_timeout = {milliseconds + 5_000}",
        f"search_path = {role.path}",
        "standard_conforming_strings = on",
        "backslash_quote = off",
        "transform_null_equals = off",
        "array_nulls = on",
        "datestyle = ISO",
        "intervalstyle = postgres",
        "bytea_output = hex",
        "extra_float_digits = 1",
        "row_security = on",
        "cursor_tuple_fraction = 1.0",
        "work_mem = '16MB'",
        "jit = off",
    ]
    if role.superuser:
        settings.append("temp_file_limit = '256MB'")
    statements = [
        f"BEGIN TRANSACTION ISOLATION LEVEL {mode}",
        *(f"SET LOCAL {item}" for item in settings),
    ]
    return "; ".join(statements).encode()
