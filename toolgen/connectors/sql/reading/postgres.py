"""Reader of the schema of a PostgreSQL database, as far as the gateway's role may read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

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
from toolgen.model.database import POSTGRES_CASCADES, Cascade, Column, Index
from toolgen.model.database_url import ServerLocation

try:
    import psycopg
    from psycopg import sql
    from psycopg.adapt import PyFormat, Transformer
    from psycopg.pq import DiagnosticField, ExecStatus
except ImportError as error:
    raise ConfigError(
        "the driver of PostgreSQL is not installed", suggestion='install it with: pip install "toolgen[postgres]"'
    ) from error

__all__ = ["begin", "connect", "prepare_postgres", "read_postgres", "unreadable"]

_Connection: TypeAlias = psycopg.Connection[tuple[object, ...]]

_BEGIN: Final = (
    b"BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL search_path = pg_catalog;"
    b"SET LOCAL statement_timeout = 60000; SET LOCAL lock_timeout = 5000"
)
# Tables, partitioned tables, views and materialized views; a partition is read through its table.
_RELATIONS: Final = """
SELECT c.oid::int8, n.nspname, c.relname, c.relkind::text, coalesce(obj_description(c.oid, 'pg_class'), ''),
  coalesce(c.reloptions @> ARRAY['security_invoker=true'] OR c.reloptions @> ARRAY['security_invoker=on'], false)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_' AND has_schema_privilege(n.oid, 'USAGE')
  AND (has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT'))
ORDER BY n.nspname, c.relname LIMIT %s
"""
_COLUMNS: Final = """
SELECT a.attrelid::int8, a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull,
  coalesce(col_description(a.attrelid, a.attnum), ''), a.attgenerated <> '',
  CASE WHEN a.attgenerated <> '' THEN '' WHEN a.attidentity <> '' THEN 'identity' ELSE coalesce(pg_get_expr(d.adbin, d.adrelid), '') END,
  ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = coalesce(nullif(t.typbasetype, 0), t.oid)
    ORDER BY e.enumsortorder LIMIT 200)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = ANY(%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum
"""
_KEYS: Final = """
SELECT k.conrelid::int8, k.contype::text, a.attname, k.confrelid::int8, t.attname
FROM pg_constraint k CROSS JOIN LATERAL unnest(k.conkey, k.confkey) WITH ORDINALITY AS u (own, other, place)
  JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.own
  LEFT JOIN pg_attribute t ON t.attrelid = k.confrelid AND t.attnum = u.other
WHERE k.contype IN ('p', 'f') AND k.conrelid = ANY(%s::oid[]) ORDER BY k.conrelid, k.conname, u.place
"""
_INDEXES: Final = """
SELECT i.indrelid::int8, i.indisunique AND i.indpred IS NULL, ARRAY(
  SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number WHERE k.place <= i.indnkeyatts ORDER BY k.place)
FROM pg_index i WHERE i.indrelid = ANY(%s::oid[]) AND NOT i.indisprimary AND i.indisvalid AND NOT 0 = ANY(i.indkey::int2[])
ORDER BY i.indrelid, i.indexrelid
"""
_CHECKS: Final = """
SELECT k.conrelid::int8, pg_get_expr(k.conbin, k.conrelid) FROM pg_constraint k
WHERE k.contype = 'c' AND k.conrelid = ANY(%s::oid[]) ORDER BY k.conrelid, k.conname
"""
# Objects that read a foreign table: views (through their rules) and parents (through inheritance and partitions).
_FOREIGN: Final = """
WITH RECURSIVE reached (oid) AS (
  SELECT oid FROM pg_class WHERE relkind = 'f'
  UNION
  SELECT above.oid FROM reached JOIN LATERAL (
    SELECT i.inhparent AS oid FROM pg_inherits i WHERE i.inhrelid = reached.oid
    UNION ALL
    SELECT r.ev_class FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
    WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = reached.oid
  ) above ON true)
SELECT oid::int8 FROM reached
"""
_CALLING: Final = """
SELECT DISTINCT r.ev_class::int8 FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
  JOIN pg_proc p ON d.refclassid = 'pg_proc'::regclass AND d.refobjid = p.oid JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname <> 'pg_catalog'
  AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_proc'::regclass AND e.objid = p.oid AND e.deptype = 'e')
"""
_FUNCTIONS: Final = """
SELECT DISTINCT lower(p.proname) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = 'public'
  AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_proc'::regclass AND e.objid = p.oid AND e.deptype = 'e')
"""
_OPERATORS: Final = """
SELECT DISTINCT o.oprname FROM pg_operator o JOIN pg_namespace n ON n.oid = o.oprnamespace
WHERE n.nspname = 'public'
  AND EXISTS (SELECT FROM pg_operator b WHERE b.oprname = o.oprname AND b.oprnamespace = 'pg_catalog'::regnamespace)
  AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_operator'::regclass AND e.objid = o.oid AND e.deptype = 'e')
ORDER BY 1
"""
_FUNCTIONS_OF_ITS_OWN: Final = (
    "this view calls user-defined functions with its owner's rights; check what they do before opening it"
)
_OWNERS_RIGHTS: Final = (
    "this view reads with its owner's rights: also what the gateway's role may not read of the tables below it"
)
_WRAPPER: Final = "this reads a foreign table, so it is left out: its wrapper decides what reading it does"
_SHADOWING: Final = (
    "operators of schema public replace built-in ones, so statements run without that schema in their search path"
)


def read_postgres(location: ServerLocation, password: str) -> ReadSchema:
    """Read the schema. Raises `DescriptionError` when the server cannot be reached or refuses the role."""
    try:
        with connect(location, password) as connection:
            begin(connection)
            return _found(connection)
    except psycopg.OperationalError as error:
        raise (
            unreadable(error) if error.sqlstate else no_session(location, socket_file=f".s.PGSQL.{location.port}")
        ) from None
    except psycopg.Error as error:
        raise unreadable(error) from None


def begin(connection: _Connection) -> None:
    """Begin a read-only transaction for reading catalogs."""
    connection.execute(_BEGIN)


def unreadable(error: psycopg.Error) -> DescriptionError:
    """Return the error for a session that could not read the catalogs, in our own words."""
    return DescriptionError(
        f"the database's catalog cannot be read (SQLSTATE {error.sqlstate or 'unknown'})",
        suggestion="check the rights of the database role",
    )


def connect(location: ServerLocation, password: str) -> _Connection:
    """Open a session of the source's role. Raises psycopg's errors."""
    return psycopg.connect(**location.libpq_arguments(password, "toolgen build"), autocommit=True)


def _found(connection: _Connection) -> ReadSchema:
    relations: dict[int, Relation] = {}
    notes: list[SchemaNote] = []
    foreign = {row[0] for row in connection.execute(_FOREIGN)}
    calling = {row[0] for row in connection.execute(_CALLING)}
    for oid, schema, name, kind, comment, invoker in connection.execute(_RELATIONS, (MAX_TABLES,)):
        view = kind in {"v", "m"}
        relation = Relation(
            schema="" if schema == "public" else str(schema), name=str(name), view=view, comment=str(comment)
        )
        if oid in foreign:
            notes.append(SchemaNote(origin=relation.full, code="foreign_table", message=_WRAPPER))
            continue
        if oid in calling:
            notes.append(SchemaNote(origin=relation.full, code="view_calls_functions", message=_FUNCTIONS_OF_ITS_OWN))
        if kind == "v" and not invoker:
            notes.append(
                SchemaNote(origin=relation.full, code="view_owner_rights", message=_OWNERS_RIGHTS, level="info")
            )
        relations[int(str(oid))] = relation
    operators = [str(row[0]) for row in connection.execute(_OPERATORS)]
    if operators:
        notes.append(SchemaNote(origin=" ".join(operators)[:100], code="operator_shadows", message=_SHADOWING))
    oids = list(relations)
    columns = (
        (
            relations[int(str(oid))].full,
            Column(
                name=str(name),
                type=str(kind),
                nullable=bool(nullable),
                comment=str(comment),
                computed=bool(computed),
                default=plain_default(str(default)),
                labels=tuple(map(str, labels)) if isinstance(labels, list) else (),
            ),
        )
        for oid, name, kind, nullable, comment, computed, default, labels in connection.execute(_COLUMNS, (oids,))
    )
    keys, references = _keys(connection, relations)
    functions = [str(row[0]) for row in connection.execute(_FUNCTIONS)]
    database = assembled(
        "postgres", relations.values(), columns, keys, references, functions, _extras(connection, relations)
    )
    return ReadSchema(database=database, notes=tuple(notes), cascades=_cascades(connection, relations))


def _cascades(connection: _Connection, relations: Mapping[int, Relation]) -> dict[str, list[Cascade]]:
    found: dict[str, list[Cascade]] = {}
    names = [sql.Identifier(one.schema or "public", one.name).as_string(connection) for one in relations.values()]
    for oid, kind, what, columns in connection.execute(POSTGRES_CASCADES, (names,)):
        assert isinstance(columns, list)  # noqa: S101 - an array is a list
        one = Cascade(on=str(kind), by=str(what), columns=tuple(map(str, columns)))
        found.setdefault(relations[int(str(oid))].full, []).append(one)
    return found


def _extras(connection: _Connection, relations: Mapping[int, Relation]) -> Extras:
    extras = Extras()
    for oid, unique, columns in connection.execute(_INDEXES, (list(relations),)):
        assert isinstance(columns, list)  # noqa: S101 - an array is a list
        index = Index(columns=tuple(map(str, columns)), unique=bool(unique))
        extras.indexes.setdefault(relations[int(str(oid))].full, []).append(index)
    for oid, text in connection.execute(_CHECKS, (list(relations),)):
        extras.checks.setdefault(relations[int(str(oid))].full, []).append(str(text or ""))
    return extras


def _keys(
    connection: _Connection, relations: Mapping[int, Relation]
) -> tuple[list[tuple[str, str]], list[ForeignKeyColumn]]:
    keys: list[tuple[str, str]] = []
    references: list[ForeignKeyColumn] = []
    for oid, kind, column, other, target in connection.execute(_KEYS, (list(relations),)):
        table = relations[int(str(oid))].full
        if kind == "p":
            keys.append((table, str(column)))
        elif (referred := relations.get(int(str(other)))) is not None:
            references.append(ForeignKeyColumn(table=table, column=str(column), target=f"{referred.full}.{target}"))
    return keys, references


def prepare_postgres(
    location: ServerLocation, password: str, statements: Sequence[Statement]
) -> Iterator[tuple[str, ...] | str]:
    """Return the types of each statement's columns, or the reason why PostgreSQL rejects it.

    Raises `DescriptionError` when the server cannot be reached any more.
    """
    try:
        with connect(location, password) as connection:
            for statement in statements:
                yield _prepared(connection, statement)
    except psycopg.OperationalError:
        raise DescriptionError(
            "the connection to the database server was lost while queries were prepared", suggestion="build again"
        ) from None  # libpq quotes host, user and options


def _prepared(connection: _Connection, statement: Statement) -> tuple[str, ...] | str:
    """Prepare a statement with the parameter types that the executor will send. Returns its column types, or a fault.

    Only Parse and Describe of the extended protocol are used.
    """
    connection.execute(_BEGIN)
    connection.execute(b"SET LOCAL search_path = pg_catalog, public")
    try:
        transformer = Transformer.from_context(connection)
        transformer.dump_sequence(list(statement.parameters), [PyFormat.TEXT] * len(statement.parameters))
        server = connection.pgconn
        answer = server.prepare(b"", statement.sql.encode(), transformer.types or ())
        if answer.status == ExecStatus.COMMAND_OK:
            answer = server.describe_prepared(b"")
        if answer.status != ExecStatus.COMMAND_OK:
            said = (answer.error_field(DiagnosticField.MESSAGE_PRIMARY) or b"").decode("utf-8", "replace")
            return f"PostgreSQL rejects it: {said[:MAX_SAID]}"
        types = [(answer.ftype(index), answer.fmod(index)) for index in range(answer.nfields)]
        named = connection.execute(
            "SELECT pg_catalog.format_type(t.oid, t.mod) FROM unnest(%s::oid[], %s::int4[]) WITH ORDINALITY AS t (oid, mod, place)"
            " ORDER BY t.place",
            ([oid for oid, _ in types], [modifier for _, modifier in types]),
        )
        return tuple(str(name) for (name,) in named)
    finally:
        connection.execute(b"ROLLBACK")
