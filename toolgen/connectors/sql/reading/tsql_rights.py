"""Rights of a SQL Server account, as the server computes them for it: those on tables, and those that go beyond reading."""

from __future__ import annotations

from typing import Final

from toolgen.connectors.sql.execution.tds_connection import TdsConnection
from toolgen.connectors.sql.execution.tsql import RIGHTS
from toolgen.connectors.sql.reading.tsql import all_rows, reading
from toolgen.model.database_rights import Power, Rights, TablePrivilege
from toolgen.model.database_url import ServerLocation

__all__ = ["tsql_rights"]

_SCHEMA: Final = "dbo"
_SELECTS: Final = """
SELECT s.name, o.name, p.subentity_name FROM sys.objects AS o JOIN sys.schemas AS s ON s.schema_id = o.schema_id
CROSS APPLY sys.fn_my_permissions(QUOTENAME(s.name) + N'.' + QUOTENAME(o.name), N'OBJECT') AS p
WHERE o.type IN ('U', 'V') AND o.is_ms_shipped = 0 AND p.permission_name = N'SELECT'
"""
_EVERYTHING: Final = (
    "SELECT COUNT(*) FROM sys.fn_my_permissions(NULL, N'DATABASE') AS p WHERE p.permission_name = N'SELECT'"
)


def tsql_rights(location: ServerLocation, password: str) -> Rights:
    """Read the rights. Raises `DescriptionError` when the server cannot be reached or refuses the account."""
    return reading(location, password, lambda connection: _rights(connection, location))


def _rights(connection: TdsConnection, location: ServerLocation) -> Rights:
    grants: dict[str, set[str]] = {}
    for schema, name, column in all_rows(connection, _SELECTS):
        grants.setdefault(name if schema == _SCHEMA else f"{schema}.{name}", set()).add(column or "")
    powers = {
        Power(code="writes", message=f"has {permission} on {place or 'the server'}")
        for place, permission in all_rows(connection, RIGHTS)
    }
    if all_rows(connection, _EVERYTHING)[0][0]:
        powers.add(Power(code="database", message=f"has SELECT on every table of database {location.database}"))
    return Rights(
        account=location.user,
        grants=tuple(
            sorted(
                TablePrivilege(table=table, privilege="SELECT", column=column)
                for table, columns in grants.items()
                for column in ([""] if "" in columns else columns)
            )
        ),
        powers=tuple(sorted(powers)),
    )
