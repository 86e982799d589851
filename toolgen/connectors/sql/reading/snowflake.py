"""Reading of the schema of a Snowflake database, the check of named queries, and the rights of the source's role, over the SQL API."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias, TypeVar

from msgspec.structs import replace

from toolgen.connectors.http.connector import EgressRefusal
from toolgen.connectors.secrets import Secret, SecretResolver
from toolgen.connectors.sql.execution.server_address import Reach
from toolgen.connectors.sql.execution.session_pool import AnswerTooLargeError, DatabaseUnreachableError
from toolgen.connectors.sql.execution.snowflake import statement_of
from toolgen.connectors.sql.execution.snowflake_api import (
    TRANSPORT_ERRORS,
    ApiConnection,
    FailedStatementError,
    connect,
)
from toolgen.connectors.sql.execution.snowflake_rights import role_rights
from toolgen.connectors.sql.execution.snowflake_values import type_name
from toolgen.connectors.sql.reading.schema import (
    MAX_TABLES,
    ReadSchema,
    Relation,
    SchemaNote,
    assembled,
    plain_default,
)
from toolgen.core.errors import DescriptionError, connection_failure
from toolgen.model.call import Statement
from toolgen.model.database import Column
from toolgen.model.database_rights import Power, Rights, TablePrivilege
from toolgen.model.database_url import ServerLocation

__all__ = ["prepare_snowflake", "read_snowflake", "snowflake_rights"]

_Row: TypeAlias = Mapping[str, str | None]
_Result = TypeVar("_Result")

_SECONDS: Final = 60.0
_DEFAULT: Final = "PUBLIC"
_TABLES: Final = f"""
SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, COMMENT FROM INFORMATION_SCHEMA.TABLES
WHERE TABLE_SCHEMA <> 'INFORMATION_SCHEMA' ORDER BY TABLE_SCHEMA, TABLE_NAME LIMIT {MAX_TABLES + 1}
"""  # noqa: S608 - a number of our own
_COLUMNS: Final = """
SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE, IS_NULLABLE, COMMENT, COLUMN_DEFAULT, NUMERIC_PRECISION, NUMERIC_SCALE,
  CHARACTER_MAXIMUM_LENGTH
FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_SCHEMA <> 'INFORMATION_SCHEMA' ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION
"""
_FUNCTIONS: Final = "SELECT FUNCTION_NAME FROM INFORMATION_SCHEMA.FUNCTIONS ORDER BY FUNCTION_NAME"
# Others are external tables, which read files of a stage, and objects without rows.
_KINDS: Final = frozenset({"BASE TABLE", "VIEW", "MATERIALIZED VIEW"})
_VIEWS: Final = frozenset({"VIEW", "MATERIALIZED VIEW"})
_OWNERS_RIGHTS: Final = (
    "this view reads with its owner's rights: also what the gateway's role may not read of the tables below it"
)
_TOO_MANY: Final = f"the database has more than {MAX_TABLES} tables, of which the others are left out"


def read_snowflake(location: ServerLocation, password: str) -> ReadSchema:
    """Return the tables and views of the database that the role may read. Raises `DescriptionError`."""

    async def read(connection: ApiConnection) -> ReadSchema:
        tables, columns, functions = [await connection.ask(sql, _SECONDS) for sql in (_TABLES, _COLUMNS, _FUNCTIONS)]
        return _assembled(tables, columns, functions)

    return _with_connection(location, password, read)


def _assembled(tables: Sequence[_Row], columns: Sequence[_Row], functions: Sequence[_Row]) -> ReadSchema:
    relations: dict[tuple[str, str], Relation] = {}
    for row in tables[:MAX_TABLES]:
        schema, name, kind = (row.get(key) or "" for key in ("table_schema", "table_name", "table_type"))
        if kind in _KINDS and _is_plain(schema) and _is_plain(name):
            relations[schema, name] = Relation(
                schema="" if schema == _DEFAULT else schema,
                name=name,
                view=kind in _VIEWS,
                comment=row.get("comment") or "",
            )
    found: list[tuple[str, Column]] = []
    for row in columns:
        relation = relations.get((row.get("table_schema") or "", row.get("table_name") or ""))
        name = row.get("column_name") or ""
        if relation is not None and _is_plain(name):
            column = Column(
                name=name,
                type=_declared(row),
                nullable=row.get("is_nullable") != "NO",
                comment=row.get("comment") or "",
                default=plain_default(row.get("column_default") or ""),
            )
            found.append((relation.full, column))
    notes = [
        SchemaNote(origin=one.full, code="owners_rights", message=_OWNERS_RIGHTS)
        for one in relations.values()
        if one.view
    ]
    if len(tables) > MAX_TABLES:
        notes.append(SchemaNote(origin="", code="too_many_tables", message=_TOO_MANY))
    # Snowflake enforces no primary key: several rows may have one.
    known = [(row.get("function_name") or "").lower() for row in functions]
    return ReadSchema(database=assembled("snowflake", relations.values(), found, [], [], known), notes=tuple(notes))


def _is_plain(name: str) -> bool:
    """Return True for a name that no parser could read as the end of a name."""
    return name.isprintable() and bool(name) and not any(sign in '"\\' for sign in name)


def _declared(row: _Row) -> str:
    kind = (row.get("data_type") or "").upper()
    if kind == "NUMBER":
        return f"NUMBER({row.get('numeric_precision') or 38},{row.get('numeric_scale') or 0})"
    if kind == "TEXT":
        length = row.get("character_maximum_length")
        return f"VARCHAR({length})" if length else "VARCHAR"
    return kind


def prepare_snowflake(
    location: ServerLocation, password: str, statements: Sequence[Statement]
) -> Iterator[tuple[str, ...] | str]:
    """Return the types of each statement's columns, or the reason why Snowflake rejects it. No row is read."""

    async def prepare(connection: ApiConnection) -> list[tuple[str, ...] | str]:
        return [await _prepared(connection, statement) for statement in statements]

    yield from _with_connection(location, password, prepare)


async def _prepared(connection: ApiConnection, statement: Statement) -> tuple[str, ...] | str:
    asked = statement_of(statement)
    try:
        columns, _ = await connection.execute(
            replace(asked, sql=f"SELECT * FROM ({asked.sql}) LIMIT 0", timeout_s=_SECONDS)  # noqa: S608 - a checked statement
        )
    except FailedStatementError as error:
        return f"Snowflake rejects it: {error.code} ({error.state})"
    return tuple(type_name(column) for column in columns)


def snowflake_rights(location: ServerLocation, password: str) -> Rights:
    """Return the rights of the role of a location. Raises `DescriptionError`."""

    async def read(connection: ApiConnection) -> Rights:
        rights = await role_rights(connection, _SECONDS)
        powers = [
            Power(
                code="writes",
                message=f"may {one.privilege} on {one.kind.lower()} {one.name}: such a role is not served",
            )
            for one in rights.excess()
        ]
        powers += [
            Power(code="functions", message=f"may call {one.name}, which only the guard refuses", harmless=True)
            for one in rights.calls()
        ]
        if rights.secondary:
            powers.append(Power(code="secondary-roles", message="has secondary roles: such a user is not served"))
        if rights.folds:
            powers.append(
                Power(code="folds-names", message="ignores the case of names in quotes: such a user is not served")
            )
        prefix = f"{location.database}."
        grants = [
            TablePrivilege(table=one.name.removeprefix(prefix).removeprefix(f"{_DEFAULT}."), privilege=one.privilege)
            for one in rights.own
            if one.privilege == "SELECT" and one.name.startswith(prefix)
        ]
        return Rights(account=rights.role, powers=tuple(powers), grants=tuple(sorted(grants)))

    return _with_connection(location, password, read)


def _with_connection(
    location: ServerLocation, password: str, work: Callable[[ApiConnection], Awaitable[_Result]]
) -> _Result:
    """Return the result of work with a connection, in a thread of its own, because the caller may have an event loop."""

    async def run() -> _Result:
        reach = Reach(password=None, secrets=SecretResolver(), permit=None)
        connection = await connect(location, reach, Secret(password) if password else None)
        try:
            return await work(connection)
        finally:
            await connection.close()

    try:
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(asyncio.run, run()).result()
    except DatabaseUnreachableError as error:
        raise DescriptionError(error.reason, suggestion=error.suggestion) from None
    except FailedStatementError as error:
        raise DescriptionError(
            f"Snowflake rejects a query of its catalog: {error.code} ({error.state})",
            suggestion="check that the role may use the database, and that its user has a warehouse",
        ) from None
    except TimeoutError:
        raise DescriptionError("Snowflake did not answer in time", suggestion="check its warehouse") from None
    except AnswerTooLargeError:
        raise DescriptionError(
            "the catalog of the database is too large", suggestion="use a role that reads less"
        ) from None
    except (*TRANSPORT_ERRORS, EgressRefusal) as error:
        raise DescriptionError(
            f"Snowflake does not answer: {connection_failure(error)[0]}", suggestion="check the host of its location"
        ) from None
