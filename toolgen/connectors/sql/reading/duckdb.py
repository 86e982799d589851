"""Reader of the schema of a DuckDB file, without access to anything outside of the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from toolgen.connectors.sql.reading.labels import enum_labels
from toolgen.connectors.sql.reading.schema import (
    MAX_SAID,
    MAX_TABLES,
    Extras,
    ForeignKeyColumn,
    ReadSchema,
    Relation,
    assembled,
    plain_default,
)
from toolgen.core.errors import ConfigError, DescriptionError
from toolgen.model.call import Statement
from toolgen.model.database import Column, Index

try:
    import duckdb
except ImportError as error:
    raise ConfigError(
        "the driver of DuckDB is not installed", suggestion='install it with: pip install "toolgen[duckdb]"'
    ) from error

__all__ = ["prepare_duckdb", "read_duckdb"]

_CONFIG: Final = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",
    "lock_configuration": "true",
}
_HERE: Final = "database_name = current_database() AND NOT internal"
_RELATIONS: Final = f"""
SELECT schema_name, table_name, false, coalesce(comment, '') FROM duckdb_tables() WHERE {_HERE} AND NOT temporary
UNION ALL SELECT schema_name, view_name, true, coalesce(comment, '') FROM duckdb_views() WHERE {_HERE} AND NOT temporary
ORDER BY 1, 2 LIMIT {MAX_TABLES}
"""  # noqa: S608 - constants
_COLUMNS: Final = f"""
SELECT schema_name, table_name, column_name, data_type, is_nullable, coalesce(comment, ''), is_generated,
  coalesce(column_default, '') FROM duckdb_columns() WHERE {_HERE}
ORDER BY schema_name, table_name, column_index
"""  # noqa: S608 - constants
_KEYS: Final = """
SELECT schema_name, table_name, constraint_type, constraint_column_names, coalesce(referenced_table, ''),
  coalesce(referenced_column_names, [])
FROM duckdb_constraints() WHERE database_name = current_database() AND constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY')
ORDER BY schema_name, table_name, constraint_index
"""
_INDEXES: Final = """
SELECT schema_name, table_name, is_unique, expressions FROM duckdb_indexes() WHERE database_name = current_database() AND NOT is_primary
"""
_CHECKS: Final = """
SELECT schema_name, table_name, constraint_type, constraint_column_names, coalesce(expression, '')
FROM duckdb_constraints() WHERE database_name = current_database() AND constraint_type IN ('UNIQUE', 'CHECK')
"""
_ENUMS: Final = """
SELECT labels, schema_name, type_name FROM duckdb_types()
WHERE database_name = current_database() AND logical_type = 'ENUM' AND NOT internal ORDER BY schema_name DESC, type_name DESC
"""
_MACROS: Final = "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE NOT internal ORDER BY 1"


def read_duckdb(path: Path) -> ReadSchema:
    """Read the schema. Raises `DescriptionError` for a missing file, a file that is not a database, or one that is being written."""
    if not path.is_file():
        raise DescriptionError("there is no such database file", suggestion="check the path after duckdb:///")
    try:
        with duckdb.connect(str(path), read_only=True, config=dict(_CONFIG)) as connection:
            return _found(connection)
    except duckdb.Error as error:
        raise DescriptionError(
            "the database cannot be read",
            suggestion="check that the file is a DuckDB database and that nothing is writing to it",
        ) from error


def _found(connection: duckdb.DuckDBPyConnection) -> ReadSchema:
    relations = {
        (schema, name): Relation(schema="" if schema == "main" else schema, name=name, view=view, comment=comment)
        for schema, name, view, comment in connection.execute(_RELATIONS).fetchall()
    }
    enums = _enum_names(connection)
    columns = [
        (
            relations[schema, table].full,
            Column(
                name=name,
                type=kind,
                nullable=bool(nullable),
                comment=comment,
                computed=bool(generated),
                default="" if generated else plain_default(default),
                labels=(labels := enum_labels(kind)),
                enum=enums.get(labels, "") if labels else "",
            ),
        )
        for schema, table, name, kind, nullable, comment, generated, default in connection.execute(_COLUMNS).fetchall()
        if (schema, table) in relations
    ]
    keys: list[tuple[str, str]] = []
    references: list[ForeignKeyColumn] = []
    for schema, table, kind, names, other, targets in connection.execute(_KEYS).fetchall():
        if (relation := relations.get((schema, table))) is None:
            continue
        if kind == "PRIMARY KEY":
            keys.extend((relation.full, name) for name in names)
        elif (referred := relations.get((schema, other))) is not None:
            references.extend(
                ForeignKeyColumn(table=relation.full, column=name, target=f"{referred.full}.{target}")
                for name, target in zip(names, targets, strict=False)
            )
    macros = [name for (name,) in connection.execute(_MACROS).fetchall()]
    extras = _extras(connection, relations, columns)
    return ReadSchema(database=assembled("duckdb", relations.values(), columns, keys, references, macros, extras))


def _enum_names(connection: duckdb.DuckDBPyConnection) -> Mapping[tuple[str, ...], str]:
    """Return enum types by their labels. The catalog gives the labels of a column's type, but not its name."""
    return {
        tuple(labels): f"{_quoted(schema)}.{_quoted(name)}"
        for labels, schema, name in connection.execute(_ENUMS).fetchall()
    }


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _extras(
    connection: duckdb.DuckDBPyConnection,
    relations: Mapping[tuple[str, str], Relation],
    columns: Iterable[tuple[str, Column]],
) -> Extras:
    """Return indexes and constraints. DuckDB describes the expressions of an index as text: an index over other than columns is left
    out.
    """
    extras = Extras()
    known: dict[str, set[str]] = {}
    for table, column in columns:
        known.setdefault(table, set()).add(column.name)
    for schema, table, unique, expressions in connection.execute(_INDEXES).fetchall():
        if (relation := relations.get((schema, table))) is None:
            continue
        names = tuple(name.strip().strip('"') for name in str(expressions).strip("[]").split(","))
        if set(names) <= known.get(relation.full, set()):
            extras.indexes.setdefault(relation.full, []).append(Index(columns=names, unique=bool(unique)))
    for schema, table, kind, names, text in connection.execute(_CHECKS).fetchall():
        if (relation := relations.get((schema, table))) is None:
            continue
        if kind == "UNIQUE":
            extras.indexes.setdefault(relation.full, []).append(Index(columns=tuple(names), unique=True))
        else:
            extras.checks.setdefault(relation.full, []).append(text)
    return extras


def prepare_duckdb(path: Path, statements: Sequence[Statement]) -> Iterator[tuple[str, ...] | str]:
    """Return the types of each statement's columns, or the reason why DuckDB rejects it."""
    with duckdb.connect(str(path), read_only=True, config=dict(_CONFIG)) as connection:
        for statement in statements:
            try:
                described = connection.execute(f"DESCRIBE {statement.sql}", list(statement.parameters)).fetchall()
                yield tuple(str(row[1]).lower() for row in described)
            except duckdb.Error as error:
                first = str(error).partition("\n")[0]
                yield f"DuckDB rejects it: {first[:MAX_SAID]}"
