"""Statements that create a database account with the rights that the policy needs, and no others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.dialects.record import AccountStatements
from toolgen.connectors.sql.guard.identifiers import find_table, full_name
from toolgen.model.database import Database, DialectName, Table
from toolgen.model.database_rights import Sequence, TablePrivilege
from toolgen.model.database_url import ServerLocation
from toolgen.model.sql_scope import SqlScope

__all__ = ["account_hints", "fitting_account", "limit_statement"]

_PROCESSES = 5  # number of gateways that use an account at once, each with its own pool
_PRIVILEGES = ("SELECT", "INSERT", "UPDATE", "DELETE")


def fitting_account(
    location: ServerLocation,
    database: Database,
    needed: frozenset[TablePrivilege],
    sequences: tuple[Sequence, ...],
    account: str,
) -> list[str]:
    """Return SQL for an administrator, in order. The new account has no password; a comment says how to set it."""
    terms, name = _statements(location), _quoted(account, database.dialect)
    opened = {grant.table for grant in needed}
    default = RECORDS[database.dialect].default_schema
    schemas = sorted({table.schema or default for table in database.tables if full_name(table) in opened})
    writes = any(grant.privilege != "SELECT" for grant in needed)
    statements = [*terms.make(name, location.database, schemas, writes, _sessions(location))]
    name = terms.rights(name)
    for table in database.tables:
        statements.extend(_on_table(table, location, database.dialect, needed, name))
    inserting = {grant.table for grant in needed if grant.privilege == "INSERT"}
    statements.extend(f"GRANT USAGE ON SEQUENCE {one.name} TO {name}" for one in sequences if one.table in inserting)
    return statements


def _statements(location: ServerLocation) -> AccountStatements:
    statements = RECORDS[location.dialect].accounts
    assert statements is not None  # noqa: S101 - a server has accounts
    return statements


def _sessions(location: ServerLocation) -> int:
    return _PROCESSES * location.pool_size


def limit_statement(location: ServerLocation, account: str, resource: str) -> str:
    """Return the statement that limits a resource of an existing account."""
    return _statements(location).bound(resource, _quoted(account, location.dialect), _sessions(location))


def account_hints(location: ServerLocation, database: Database, scope: SqlScope, account: str) -> Iterator[str]:
    """Yield sentences about the password of a new account, its memory, and each row filter that the database could enforce too."""
    statements = _statements(location)
    yield statements.password_hint(_quoted(account, database.dialect))
    yield statements.memory_hint(account)
    for name, entry in scope.tables.items():
        table = find_table(database, name)
        if entry.rows is not None and table is not None:
            where = f"{full_name(table)}: rows where {entry.rows}"
            yield f"{where}; the gateway adds this condition, and {statements.rows} can enforce it in the database too"


def _on_table(
    table: Table, location: ServerLocation, dialect: DialectName, needed: frozenset[TablePrivilege], account: str
) -> Iterator[str]:
    columns: defaultdict[str, set[str]] = defaultdict(set)
    for grant in needed:
        if grant.table == full_name(table):
            columns[grant.privilege].add(grant.column)
    schema = table.schema or RECORDS[dialect].default_schema or location.database
    place = f"{_quoted(schema, dialect)}.{_quoted(table.name, dialect)}"
    whole_table = _statements(location).grant
    if whole_table is not None:
        if "SELECT" in columns:
            yield whole_table(place, account)
        return
    for privilege in _PRIVILEGES:
        if privilege not in columns:
            continue
        named = [column.name for column in table.columns if column.name in columns[privilege]]
        whole = "" in columns[privilege] or len(named) == len(table.columns)
        listed = "" if whole else f" ({', '.join(_quoted(column, dialect) for column in named)})"
        yield f"GRANT {privilege}{listed} ON {place} TO {account}"


def _quoted(name: str, dialect: DialectName) -> str:
    mark = RECORDS[dialect].quote
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"
