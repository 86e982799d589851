"""The statements that make an account which can do what the policy opens, and nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from toolgen.model.database import Database, Table
from toolgen.model.location import ServerLocation
from toolgen.model.rights import Grant, Sequence
from toolgen.policy.sql.grants import SqlScope, find_table, full_name
from toolgen.policy.sql.names import DEFAULT_SCHEMA

__all__ = ["fitting_account", "password_hint", "row_hints"]

_PRIVILEGES = ("SELECT", "INSERT", "UPDATE", "DELETE")


def fitting_account(
    location: ServerLocation,
    database: Database,
    needed: frozenset[Grant],
    sequences: tuple[Sequence, ...],
    account: str,
) -> list[str]:
    """SQL for an administrator, in order. The account it makes has no password yet, and a comment says how it gets one."""
    name = _quoted(account, database.dialect)
    statements: list[str] = []
    if database.dialect == "postgres":
        statements.append(f"CREATE ROLE {name} LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION")
        if not any(grant.privilege != "SELECT" for grant in needed):
            statements.append(f"ALTER ROLE {name} SET default_transaction_read_only = on")
        statements.append(f"GRANT CONNECT ON DATABASE {_quoted(location.database, 'postgres')} TO {name}")
        opened = {grant.table for grant in needed}
        schemas = sorted({table.schema or "public" for table in database.tables if full_name(table) in opened})
        statements.extend(f"GRANT USAGE ON SCHEMA {_quoted(schema, 'postgres')} TO {name}" for schema in schemas)
    else:
        name = f"{name}@{_quoted('%', 'mysql')}"
        statements.append(f"CREATE USER {name} ACCOUNT LOCK")
    for table in database.tables:
        statements.extend(_on_table(table, location, database.dialect, needed, name))
    inserting = {grant.table for grant in needed if grant.privilege == "INSERT"}
    statements.extend(f"GRANT USAGE ON SEQUENCE {one.name} TO {name}" for one in sequences if one.table in inserting)
    return statements


def password_hint(dialect: str, account: str) -> str:
    """How the account gets a password that no output of ours has held."""
    name = _quoted(account, dialect)
    if dialect == "postgres":
        return f"\\password {name}  -- in psql: gives the role a password"
    return f"ALTER USER {name}@`%` IDENTIFIED BY '…' ACCOUNT UNLOCK"


def row_hints(database: Database, scope: SqlScope) -> Iterator[str]:
    """Row filters are the gateway's work; a sentence for each says what the database could hold as well."""
    for name, entry in scope.tables.items():
        table = find_table(database, name)
        if entry.rows is not None and table is not None:
            means = "row-level security or a view" if database.dialect == "postgres" else "a view"
            yield f"{full_name(table)}: rows where {entry.rows}; the gateway adds this itself, {means} can hold it in the database too"


def _on_table(
    table: Table, location: ServerLocation, dialect: str, needed: frozenset[Grant], account: str
) -> Iterator[str]:
    columns: defaultdict[str, set[str]] = defaultdict(set)
    for grant in needed:
        if grant.table == full_name(table):
            columns[grant.privilege].add(grant.column)
    schema = table.schema or (DEFAULT_SCHEMA["postgres"] if dialect == "postgres" else location.database)
    place = f"{_quoted(schema, dialect)}.{_quoted(table.name, dialect)}"
    for privilege in _PRIVILEGES:
        if privilege not in columns:
            continue
        named = [column.name for column in table.columns if column.name in columns[privilege]]
        whole = "" in columns[privilege] or len(named) == len(table.columns)
        listed = "" if whole else f" ({', '.join(_quoted(column, dialect) for column in named)})"
        yield f"GRANT {privilege}{listed} ON {place} TO {account}"


def _quoted(name: str, dialect: str) -> str:
    mark = '"' if dialect == "postgres" else "`"
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"
