"""Reader of the schema of a SQL Server database: tables and views that the account may see, their columns, keys and comments."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from toolgen.connectors.sql.execution.session_pool import AnswerTooLargeError
from toolgen.connectors.sql.execution.tds_connection import (
    BrokenConnectionError,
    TdsConnection,
    TdsServerError,
    declared,
    dial,
    tls_context,
)
from toolgen.connectors.sql.execution.tsql import numbered, reason_of
from toolgen.connectors.sql.reading.no_session import no_session
from toolgen.connectors.sql.reading.schema import (
    MAX_TABLES,
    ForeignKeyColumn,
    ReadSchema,
    Relation,
    SchemaNote,
    assembled,
    plain_default,
)
from toolgen.core.errors import DescriptionError
from toolgen.model.call import Statement
from toolgen.model.database import Column
from toolgen.model.database_url import ServerLocation

__all__ = ["all_rows", "prepare_tsql", "read_tsql", "reading"]

T = TypeVar("T")

_SCHEMA: Final = "dbo"
_ANSWER: Final = 64_000_000  # bytes of one catalog query
# Names that the guard does not write, or that a collation could take for another name.
_PLAIN: Final = re.compile(r"(?! )[^\[\]\"'\\`\x00-\x1f\x7f-\U0010ffff]{1,128}(?<! )\Z")
# The guard compares names as these collations do: without the case of ASCII letters. In a Turkish one, `I` is not `i`.
_COLLATIONS: Final = re.compile(r"(?:SQL_)?Latin1_General_(?:[A-Z0-9]+_)*CI_A[IS](?:_|\Z)")
_COLLATION: Final = "SELECT CAST(DATABASEPROPERTYEX(DB_NAME(), N'Collation') AS nvarchar(128))"
# External tables read from other places, and are left out.
_TABLES: Final = f"""
SELECT TOP {MAX_TABLES} s.name, o.name, CASE o.type WHEN 'V' THEN 1 ELSE 0 END, CAST(e.value AS nvarchar(1000))
FROM sys.objects AS o JOIN sys.schemas AS s ON s.schema_id = o.schema_id
LEFT JOIN sys.tables AS t ON t.object_id = o.object_id
LEFT JOIN sys.extended_properties AS e ON e.class = 1 AND e.major_id = o.object_id AND e.minor_id = 0 AND e.name = N'MS_Description'
WHERE o.type IN ('U', 'V') AND o.is_ms_shipped = 0 AND COALESCE(t.is_external, 0) = 0 ORDER BY s.name, o.name
"""  # noqa: S608 - texts of our own
_COLUMNS: Final = """
SELECT s.name, o.name, c.name, COALESCE(b.name, y.name), CAST(c.max_length AS int), CAST(c.precision AS int), CAST(c.scale AS int),
  c.is_nullable, c.is_computed, c.is_identity, c.is_hidden, d.definition, CAST(e.value AS nvarchar(1000)),
  CAST(CASE WHEN c.encryption_type IS NULL THEN 0 ELSE 1 END AS bit)
FROM sys.columns AS c JOIN sys.objects AS o ON o.object_id = c.object_id JOIN sys.schemas AS s ON s.schema_id = o.schema_id
JOIN sys.types AS y ON y.user_type_id = c.user_type_id
LEFT JOIN sys.types AS b ON b.user_type_id = y.system_type_id AND y.is_assembly_type = 0
LEFT JOIN sys.default_constraints AS d ON d.object_id = c.default_object_id
LEFT JOIN sys.extended_properties AS e
  ON e.class = 1 AND e.major_id = c.object_id AND e.minor_id = c.column_id AND e.name = N'MS_Description'
WHERE o.type IN ('U', 'V') AND o.is_ms_shipped = 0 ORDER BY s.name, o.name, c.column_id
"""
_KEYS: Final = """
SELECT s.name, o.name, c.name FROM sys.key_constraints AS k JOIN sys.objects AS o ON o.object_id = k.parent_object_id
JOIN sys.schemas AS s ON s.schema_id = o.schema_id
JOIN sys.index_columns AS i ON i.object_id = k.parent_object_id AND i.index_id = k.unique_index_id
JOIN sys.columns AS c ON c.object_id = i.object_id AND c.column_id = i.column_id
WHERE k.type = 'PK' AND i.key_ordinal > 0 ORDER BY s.name, o.name, i.key_ordinal
"""
_REFERENCES: Final = """
SELECT s.name, o.name, c.name, rs.name, r.name, rc.name FROM sys.foreign_key_columns AS f
JOIN sys.objects AS o ON o.object_id = f.parent_object_id JOIN sys.schemas AS s ON s.schema_id = o.schema_id
JOIN sys.columns AS c ON c.object_id = f.parent_object_id AND c.column_id = f.parent_column_id
JOIN sys.objects AS r ON r.object_id = f.referenced_object_id JOIN sys.schemas AS rs ON rs.schema_id = r.schema_id
JOIN sys.columns AS rc ON rc.object_id = f.referenced_object_id AND rc.column_id = f.referenced_column_id
"""
_OWNERS_RIGHTS: Final = "this view reads with its owner's rights: also what the gateway's account may not read below it"
_ENCRYPTED: Final = "values of the column are encrypted by Always Encrypted, so that only ciphertext is read"
_LENGTHS: Final = frozenset({"binary", "char", "nchar", "nvarchar", "varbinary", "varchar"})
_DIGITS: Final = frozenset({"decimal", "numeric"})
_FRACTIONS: Final = frozenset({"datetime2", "datetimeoffset", "time"})


def read_tsql(location: ServerLocation, password: str) -> ReadSchema:
    """Read the schema. Raises `DescriptionError` when the server cannot be reached, and for names that are case-sensitive."""
    return reading(location, password, _found)


def reading(location: ServerLocation, password: str, work: Callable[[TdsConnection], T]) -> T:
    """Run `work` with a connection of the source's account. Raises `DescriptionError`."""
    connection = _connected(location, password)
    try:
        connection.batch("SET QUOTED_IDENTIFIER ON; SET ANSI_NULLS ON; SET LOCK_TIMEOUT 10000;")
        return work(connection)
    except (TdsServerError, BrokenConnectionError, AnswerTooLargeError) as error:
        number = f" (error {error.number})" if isinstance(error, TdsServerError) else ""
        raise DescriptionError(
            f"the database's catalog cannot be read{number}", suggestion="check the rights of the database user"
        ) from None
    finally:
        connection.close()


def _connected(location: ServerLocation, password: str) -> TdsConnection:
    if location.socket:
        raise DescriptionError("SQL Server has no Unix socket", suggestion="write a host in place of ?socket=")
    try:
        context = tls_context(location)
    except OSError as error:
        raise DescriptionError(
            "a certificate for the database cannot be read", suggestion="check sslrootcert, sslcert and sslkey"
        ) from error
    failure = ""
    with contextlib.suppress(OSError):
        connection = TdsConnection(dial(location.host, location), location, context)
        try:
            connection.login(password)
        except TdsServerError as error:
            failure = f"error {error.number}"
        except BrokenConnectionError:
            failure = "no session, or no TLS"
        else:
            return connection
        connection.close()
    raise no_session(location, failure)


def all_rows(connection: TdsConnection, sql: str) -> list[list[Any]]:
    """Return all rows of a query of our own."""
    connection.execute(sql, [], _ANSWER)
    rows: list[list[Any]] = [[*row] for row in connection.rows()]
    connection.end()
    return rows


def _found(connection: TdsConnection) -> ReadSchema:
    collation = str(all_rows(connection, _COLLATION)[0][0])
    if not _COLLATIONS.match(collation):
        raise DescriptionError(
            "the collation of this database compares names in a way that is not supported",
            suggestion="use a database with a collation such as Latin1_General_100_CI_AS",
        )
    notes: list[SchemaNote] = []
    relations: dict[str, Relation] = {}
    for schema, name, view, comment in all_rows(connection, _TABLES):
        if not (_PLAIN.match(schema) and _PLAIN.match(name)):
            notes.append(
                SchemaNote(origin="", code="name", message="a table with a name that is not served is left out")
            )
            continue
        full = _full(schema, name)
        relations[full] = Relation(
            schema="" if schema == _SCHEMA else schema, name=name, view=bool(view), comment=comment or ""
        )
        if view:
            notes.append(SchemaNote(origin=full, code="view_owner_rights", message=_OWNERS_RIGHTS, level="info"))
    columns: list[tuple[str, Column]] = []
    for schema, table, *described in all_rows(connection, _COLUMNS):
        full = _full(schema, table)
        if full not in relations:
            continue
        column, encrypted = _column(described)
        if not _PLAIN.match(column.name):
            notes.append(
                SchemaNote(origin=full, code="name", message="a column with a name that is not served is left out")
            )
            continue
        if encrypted:
            notes.append(SchemaNote(origin=f"{full}.{column.name}", code="encrypted", message=_ENCRYPTED, level="info"))
        columns.append((full, column))
    keys = [(_full(schema, table), name) for schema, table, name in all_rows(connection, _KEYS)]
    references = [
        ForeignKeyColumn(table=_full(schema, table), column=column, target=f"{_full(other, target)}.{key}")
        for schema, table, column, other, target, key in all_rows(connection, _REFERENCES)
        if _full(schema, table) in relations and _full(other, target) in relations
    ]
    return ReadSchema(database=assembled("tsql", relations.values(), columns, keys, references), notes=tuple(notes))


def _full(schema: str, name: str) -> str:
    return name if schema == _SCHEMA else f"{schema}.{name}"


def _column(described: Sequence[Any]) -> tuple[Column, bool]:
    """Return the column of a row of `_COLUMNS`, and True if its values are encrypted."""
    name, kind, length, precision, scale, nullable, computed, identity, hidden, default, comment, encrypted = described
    column = Column(
        name=name,
        type=_type(kind, length, precision, scale),
        nullable=bool(nullable),
        comment=comment or "",
        computed=bool(computed),
        default="auto_increment" if identity else plain_default(_bare(default or "")),
        invisible=bool(hidden),
    )
    return column, bool(encrypted)


def _type(kind: str, length: int, precision: int, scale: int) -> str:
    if kind in _LENGTHS:
        size = length // 2 if kind.startswith("n") and length > 0 else length
        return f"{kind}({'max' if length < 0 else size})"
    if kind in _DIGITS:
        return f"{kind}({precision}, {scale})"
    return f"{kind}({scale})" if kind in _FRACTIONS else kind


def _bare(default: str) -> str:
    """Return a default without the parentheses in which the server keeps it: `((0))`."""
    while default.startswith("(") and default.endswith(")") and "(" not in default[1:-1].strip("()"):
        default = default[1:-1]
    return default


def prepare_tsql(
    location: ServerLocation, password: str, statements: Sequence[Statement]
) -> Iterator[tuple[str, ...] | str]:
    """Return the types of each statement's columns, or the reason why the server rejects it. Nothing of them runs."""
    yield from reading(location, password, lambda connection: [_prepared(connection, one) for one in statements])


def _prepared(connection: TdsConnection, statement: Statement) -> tuple[str, ...] | str:
    """Describe a statement.

    https://learn.microsoft.com/en-us/sql/relational-databases/system-stored-procedures/sp-describe-first-result-set-transact-sql
    """
    try:
        columns = connection.call(
            "sp_describe_first_result_set", [numbered(statement.sql), declared(statement.parameters)]
        )
        place = next((index for index, column in enumerate(columns) if column.name == "system_type_name"), None)
        types = tuple(str(row[place]) for row in connection.rows()) if place is not None else ()
        connection.end()
    except TdsServerError as error:
        connection.stop()
        return f"SQL Server rejects it (error {error.number}): {reason_of(error.number).message}"
    return types
