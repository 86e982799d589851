"""Start of a PostgreSQL session: its role and database, and settings that affect statements."""

from __future__ import annotations

import re
from typing import Final

import psycopg
from msgspec import Struct

__all__ = ["SessionRole", "begin", "role_of"]

_CATALOG: Final = "pg_catalog"
# The third fact is true if schema public has user-defined functions or operators that could replace built-in ones: an overload with better
# matching arguments wins, wherever its schema is in the search path (https://www.postgresql.org/docs/current/typeconv-func.html). Then the
# path does not contain public.
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


class SessionRole(Struct, frozen=True, kw_only=True):
    """Role and database of a session, as found when it was opened."""

    superuser: bool
    lowers: bool  # a superuser can become pg_read_all_data
    path: str
    row_security: frozenset[str] = frozenset()


async def role_of(connection: psycopg.AsyncConnection[tuple[object, ...]]) -> SessionRole:
    cursor = await connection.execute(_FACTS)
    found = await cursor.fetchone()
    assert found is not None  # noqa: S101 - a SELECT without FROM has one row
    superuser, has_role, shadowed, secured, has_public = found
    assert isinstance(secured, list)  # noqa: S101 - an array is a list
    return SessionRole(
        superuser=bool(superuser),
        lowers=bool(superuser) and bool(has_role),
        path=_CATALOG if shadowed or not has_public else f"{_CATALOG}, public",
        row_security=frozenset(map(str, secured)),
    )


WORK_MEMORY_KB: Final = 16_384
"""Memory of one sort in kilobytes; a hash may take twice as much."""
_ALL_WORK_MEMORY_KB: Final = 163_840  # limit for all sorts and hashes of a statement
_LEAST_WORK_MEMORY_KB: Final = 256
_SORTS: Final = re.compile(r"\b(?:ORDER BY|OVER|WITHIN GROUP|PARTITION BY)\b")
_HASHES: Final = re.compile(
    r"\b(?:DISTINCT|GROUP BY|JOIN|UNION|INTERSECT|EXCEPT|ROLLUP|CUBE|SETS|IN \(SELECT)\b|FROM|\"\.\""
)


def work_memory(text: str) -> int:
    """Return the kilobytes for each sort of a statement, so that all sorts and hashes its text can have take at most 160 MB.

    https://www.postgresql.org/docs/current/runtime-config-resource.html#GUC-WORK-MEM: each sort and hash of a plan has its own memory, and
    so has each aggregate that sorts. Words in texts count too, which only reduces the memory.
    """
    count = len(_SORTS.findall(text)) + 2 * len(_HASHES.findall(text))
    return max(_LEAST_WORK_MEMORY_KB, min(WORK_MEMORY_KB, _ALL_WORK_MEMORY_KB // max(count, 1)))


def begin(role: SessionRole, timeout_s: float, mode: str = "REPEATABLE READ READ ONLY") -> bytes:
    """Return one message that begins the transaction with every setting that the SQL guard's parsing or a statement's limits depend on."""
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
        f"work_mem = {WORK_MEMORY_KB}",
        "jit = off",
    ]
    if role.superuser:
        settings.append("temp_file_limit = '256MB'")
    statements = [
        f"BEGIN TRANSACTION ISOLATION LEVEL {mode}",
        *(f"SET LOCAL {item}" for item in settings),
    ]
    return "; ".join(statements).encode()
