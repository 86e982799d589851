"""Reader of the schema of a MySQL or MariaDB database: the one of its location, as far as the gateway's user may read it."""

from __future__ import annotations

import ssl
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec

from toolgen.connectors.sql.reading.labels import enum_labels
from toolgen.connectors.sql.reading.no_session import no_session
from toolgen.connectors.sql.reading.schema import (
    MAX_SAID,
    MAX_TABLES,
    Extras,
    ForeignKeyColumn,
    ReadSchema,
    Relation,
    SchemaNote,
    assembled,
    plain_default,
)
from toolgen.core.errors import ConfigError, DescriptionError
from toolgen.model.call import Statement
from toolgen.model.database import MYSQL_CASCADES, MYSQL_TABLE_NAMES, Cascade, Column, Index, mysql_table_names
from toolgen.model.database_url import ServerLocation

try:
    import pymysql
    from pymysql.connections import Connection
    from pymysql.constants import COMMAND, FIELD_TYPE
    from pymysql.cursors import Cursor
    from pymysql.protocol import FieldDescriptorPacket
except ImportError as error:
    raise ConfigError(
        "the driver of MySQL and MariaDB is not installed", suggestion='install it with: pip install "toolgen[mysql]"'
    ) from error

__all__ = ["prepare_mysql", "read_mysql", "reading", "texts"]

T = TypeVar("T")

_NO_TLS: Final = 2026
_CLIENT_ERRORS: Final = 2000  # numbers from here on are errors of the connection, lower ones of the server
_BINARY: Final = 63
_TYPES: Final = {
    FIELD_TYPE.TINY: "tinyint",
    FIELD_TYPE.SHORT: "smallint",
    FIELD_TYPE.INT24: "mediumint",
    FIELD_TYPE.LONG: "int",
    FIELD_TYPE.LONGLONG: "bigint",
    FIELD_TYPE.FLOAT: "float",
    FIELD_TYPE.DOUBLE: "double",
    FIELD_TYPE.DECIMAL: "decimal",
    FIELD_TYPE.NEWDECIMAL: "decimal",
    FIELD_TYPE.DATE: "date",
    FIELD_TYPE.DATETIME: "datetime",
    FIELD_TYPE.TIMESTAMP: "timestamp",
    FIELD_TYPE.TIME: "time",
    FIELD_TYPE.YEAR: "year",
    FIELD_TYPE.BIT: "bit",
    FIELD_TYPE.JSON: "json",
    FIELD_TYPE.STRING: "char",
    FIELD_TYPE.VAR_STRING: "varchar",
    FIELD_TYPE.VARCHAR: "varchar",
    FIELD_TYPE.BLOB: "text",
}

_TABLES: Final = """
SELECT t.table_name, t.table_type, coalesce(t.engine, ''), coalesce(t.table_comment, ''), coalesce(v.security_type, '')
FROM information_schema.tables t LEFT JOIN information_schema.views v ON v.table_schema = t.table_schema AND v.table_name = t.table_name
WHERE t.table_schema = %s ORDER BY t.table_name LIMIT %s
"""
_COLUMNS: Final = """
SELECT table_name, column_name, column_type, is_nullable, column_comment,
  coalesce(generation_expression, '') <> '' OR extra LIKE '%%on update%%',
  CASE WHEN extra LIKE '%%auto_increment%%' THEN 'auto_increment' WHEN column_default = 'NULL' THEN ''
    ELSE coalesce(column_default, '') END,
  extra LIKE '%%INVISIBLE%%'
FROM information_schema.columns WHERE table_schema = %s ORDER BY table_name, ordinal_position
"""
_KEYS: Final = """
SELECT table_name, constraint_name, column_name, coalesce(referenced_table_schema, ''), coalesce(referenced_table_name, ''),
  coalesce(referenced_column_name, '')
FROM information_schema.key_column_usage
WHERE table_schema = %s AND (constraint_name = 'PRIMARY' OR referenced_table_name IS NOT NULL)
ORDER BY table_name, constraint_name, ordinal_position
"""
_INDEXES: Final = """
SELECT table_name, index_name, non_unique, coalesce(column_name, '') FROM information_schema.statistics
WHERE table_schema = %s AND index_name <> 'PRIMARY' ORDER BY table_name, index_name, seq_in_index
"""
# MariaDB's names of constraints belong to a table, and it names the table; MySQL's belong to the schema.
_CHECKS: Final = {
    True: "SELECT table_name, check_clause FROM information_schema.check_constraints WHERE constraint_schema = %s",
    False: """
SELECT t.table_name, c.check_clause FROM information_schema.check_constraints c
JOIN information_schema.table_constraints t ON t.constraint_schema = c.constraint_schema AND t.constraint_name = c.constraint_name
WHERE c.constraint_schema = %s""",
}
_ROUTINES: Final = "SELECT lower(routine_name) FROM information_schema.routines WHERE routine_schema = %s AND routine_type = 'FUNCTION'"
# Engines that read from another place: files, other servers, other tables.
_ELSEWHERE: Final = frozenset(
    {"FEDERATED", "CONNECT", "SPIDER", "S3", "CSV", "SPHINX", "OQGRAPH", "MRG_MYISAM", "MERGE"}
)
_WRAPPER: Final = "this table is left out: its storage engine decides what reading it does"
_OWNERS_RIGHTS: Final = (
    "this view reads with its definer's rights: also what the gateway's user may not read of the tables below it"
)
_BROKEN: Final = "the columns of this view cannot be read, so it is left out"


def read_mysql(location: ServerLocation, password: str) -> ReadSchema:
    """Read the schema. Raises `DescriptionError` when the server cannot be reached or refuses the user."""
    return reading(location, password, lambda cursor: _found(cursor, location.database))


def reading(location: ServerLocation, password: str, work: Callable[[Cursor], T]) -> T:
    """Run `work` in a read-only session of the source's user and return its result. Raises as `read_mysql` does."""
    failure, is_open = 0, False
    try:
        connection = _connect(location, password)
        is_open = True
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET SESSION TRANSACTION READ ONLY")
                return work(cursor)
        finally:
            connection.close()
    except pymysql.MySQLError as error:
        failure = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    # Outside of the handler, so that the server's text is not part of the error.
    if is_open:
        raise DescriptionError(
            f"the database's catalog cannot be read (error {failure})",
            suggestion="check the rights of the database user",
        )
    raise no_session(location, f"error {failure}")


def _connect(location: ServerLocation, password: str) -> Connection[Cursor]:
    """Return a connection. `prefer` uses TLS if the server has it, with any certificate, like PostgreSQL's clients."""
    if location.sslmode == "disable" or location.socket:
        return _connected(location, password, {"ssl_disabled": True})
    try:
        return _connected(location, password, {"ssl": _tls(location)})
    except pymysql.OperationalError as error:
        if location.sslmode != "prefer" or error.args[0] != _NO_TLS:
            raise
    return _connected(location, password, {"ssl_disabled": True})


def _tls(location: ServerLocation) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=location.certificates.get("sslrootcert"))
        context.check_hostname = location.sslmode == "verify-full"
        context.verify_mode = ssl.CERT_REQUIRED if location.sslmode.startswith("verify") else ssl.CERT_NONE
        if "sslcert" in location.certificates:
            context.load_cert_chain(location.certificates["sslcert"], location.certificates.get("sslkey"))
    except OSError as error:
        raise DescriptionError(
            "a certificate for the database cannot be read", suggestion="check sslrootcert, sslcert and sslkey"
        ) from error
    return context


def _connected(location: ServerLocation, password: str, options: dict[str, Any]) -> Connection[Cursor]:
    where: dict[str, Any] = {"unix_socket": location.socket} if location.socket else {"host": location.host}
    return pymysql.connect(
        port=location.port,
        user=location.user,
        password=password.encode().decode("latin-1"),
        database=location.database,
        charset="utf8mb4",
        connect_timeout=location.connect_timeout_s,
        read_timeout=60,
        write_timeout=60,
        local_infile=False,
        autocommit=True,
        program_name="toolgen build",
        **where,
        **options,
    )


def _found(cursor: Cursor, database: str) -> ReadSchema:
    relations: dict[str, Relation] = {}
    notes: list[SchemaNote] = []
    cursor.execute(_TABLES, (database, MAX_TABLES))
    views = set()
    for name, kind, engine, comment, security in texts(cursor):
        if kind == "SEQUENCE" or (kind not in {"BASE TABLE", "VIEW", "SYSTEM VERSIONED"}):
            continue
        if engine.upper() in _ELSEWHERE:
            notes.append(SchemaNote(origin=name, code="foreign_table", message=_WRAPPER))
            continue
        view = kind == "VIEW"
        if view:
            views.add(name)  # MySQL writes VIEW, or the fault of a view, into its comment
        if security == "DEFINER":
            notes.append(SchemaNote(origin=name, code="view_owner_rights", message=_OWNERS_RIGHTS, level="info"))
        relations[name] = Relation(schema="", name=name, view=view, comment="" if view else comment)
    cursor.execute(_COLUMNS, (database,))
    columns = [
        (
            table,
            Column(
                name=name,
                type=kind,
                nullable=nullable == "YES",
                comment=comment,
                computed=computed == "1",
                default=plain_default(default),
                labels=enum_labels(kind),
                invisible=invisible == "1",
            ),
        )
        for table, name, kind, nullable, comment, computed, default, invisible in texts(cursor)
        if table in relations
    ]
    with_columns = {table for table, _ in columns}
    notes.extend(SchemaNote(origin=name, code="broken_view", message=_BROKEN) for name in sorted(views - with_columns))
    keys, references = _keys(cursor, database, relations)
    cursor.execute(_ROUTINES, (database,))
    functions = [name for (name,) in texts(cursor)]
    extras = _extras(cursor, database, relations)
    found = assembled("mysql", relations.values(), columns, keys, references, functions, extras)
    named = msgspec.structs.replace(found, name=database, table_names=_table_names(cursor))
    return ReadSchema(database=named, notes=tuple(notes), cascades=_cascades(cursor, relations))


def _table_names(cursor: Cursor) -> str:
    """Return the comparison of table names: https://dev.mysql.com/doc/refman/8.4/en/identifier-case-sensitivity.html: 0 keeps the case
    of tables and aliases, 1 and 2 do not.
    """
    cursor.execute(MYSQL_TABLE_NAMES)
    return mysql_table_names(cursor.fetchall()[0][0])


def _cascades(cursor: Cursor, relations: dict[str, Relation]) -> dict[str, list[Cascade]]:
    cursor.execute(MYSQL_CASCADES)
    found: dict[str, list[Cascade]] = {}
    for table, kind, what, column in texts(cursor):
        one = Cascade(on=kind, by=what, columns=(column,) if column else ())
        for name in [table] if table else relations:
            found.setdefault(name, []).append(one)
    return found


def _extras(cursor: Cursor, database: str, relations: dict[str, Relation]) -> Extras:
    extras = Extras()
    indexes: dict[tuple[str, str, bool], list[str]] = {}
    cursor.execute(_INDEXES, (database,))
    for table, name, non_unique, column in texts(cursor):
        indexes.setdefault((table, name, non_unique == "0"), []).append(column)
    for (table, _name, unique), columns in indexes.items():
        if table in relations and all(columns):  # an index over an expression has no column there
            extras.indexes.setdefault(table, []).append(Index(columns=tuple(columns), unique=unique))
    cursor.execute("SELECT version()")
    try:
        cursor.execute(_CHECKS["MariaDB" in texts(cursor)[0][0]], (database,))
    except pymysql.MySQLError:  # an older server without checks
        return extras
    for table, text in texts(cursor):
        extras.checks.setdefault(table, []).append(text)
    return extras


def _keys(
    cursor: Cursor, database: str, relations: dict[str, Relation]
) -> tuple[list[tuple[str, str]], list[ForeignKeyColumn]]:
    keys: list[tuple[str, str]] = []
    references: list[ForeignKeyColumn] = []
    cursor.execute(_KEYS, (database,))
    for table, constraint, column, other_schema, other, target in texts(cursor):
        if table not in relations:
            continue
        if constraint == "PRIMARY":
            keys.append((table, column))
        elif other_schema == database and other in relations:
            references.append(ForeignKeyColumn(table=table, column=column, target=f"{other}.{target}"))
    return keys, references


def texts(cursor: Cursor) -> list[tuple[str, ...]]:
    """Return texts. MySQL 8 returns some of information_schema as bytes."""
    return [
        tuple(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value) for value in row)
        for row in cursor.fetchall()
    ]


def prepare_mysql(
    location: ServerLocation, password: str, statements: Sequence[Statement]
) -> Iterator[tuple[str, ...] | str]:
    """Return the types of each statement's columns, or the reason why the server rejects it. Raises `DescriptionError` when it cannot be
    reached.
    """
    try:
        connection = _connect(location, password)
        try:
            for statement in statements:
                yield _prepared(connection, statement)
        finally:
            connection.close()
    except pymysql.MySQLError:
        raise DescriptionError(
            "the connection to the database server was lost while queries were prepared", suggestion="build again"
        ) from None  # the server's text is not passed on


def _prepared(connection: Connection[Cursor], statement: Statement) -> tuple[str, ...] | str:
    """Prepare a statement with COM_STMT_PREPARE, which PyMySQL has no method for: the server parses it, returns its columns, and runs
    nothing.

    https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_prepare.html
    """
    wire: Any = connection
    try:
        wire._execute_command(COMMAND.COM_STMT_PREPARE, statement.sql)
        data: bytes = wire._read_packet().get_all_data()
        _, number, columns, parameters = struct.unpack_from("<BIHH", data)
        _definitions(wire, parameters)
        types = tuple(_type_of(column) for column in _definitions(wire, columns))
        wire._execute_command(COMMAND.COM_STMT_CLOSE, struct.pack("<I", number))
    except (pymysql.ProgrammingError, pymysql.NotSupportedError, pymysql.DataError, pymysql.InternalError) as error:
        return f"MySQL rejects it: {str(error.args[-1])[:MAX_SAID]}"
    except pymysql.OperationalError as error:
        if error.args and isinstance(error.args[0], int) and error.args[0] < _CLIENT_ERRORS:
            return f"MySQL rejects it: {str(error.args[-1])[:MAX_SAID]}"
        raise
    return types


def _definitions(wire: Any, count: int) -> list[Any]:
    found = [wire._read_packet(FieldDescriptorPacket) for _ in range(count)]
    if count:
        wire._read_packet()  # EOF
    return found


def _type_of(column: Any) -> str:
    """Return the type in a FieldDescriptorPacket, whose attributes its stubs do not have."""
    binary = column.charsetnr == _BINARY
    match _TYPES.get(column.type_code, ""):
        case "varchar" | "char" | "text" as text if binary:
            return {"varchar": "varbinary", "char": "binary", "text": "blob"}[text]
        case name:
            return name
