"""The schema of a DuckDB file, read with everything outside of the file out of reach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from toolgen.errors import ConfigError, DescriptionError
from toolgen.model.call import Statement
from toolgen.model.database import Column
from toolgen.model.result import bounded
from toolgen.sources.sql.schema import MAX_SAID, MAX_TABLES, Found, Reference, Relation, assembled, enum_labels

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
_MACROS: Final = "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE NOT internal ORDER BY 1"


def read_duckdb(path: Path) -> Found:
    """Raises `DescriptionError` for a file that is not there, is no database, or is being written."""
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


def _found(connection: duckdb.DuckDBPyConnection) -> Found:
    relations = {
        (schema, name): Relation(schema="" if schema == "main" else schema, name=name, view=view, comment=comment)
        for schema, name, view, comment in connection.execute(_RELATIONS).fetchall()
    }
    columns = [
        (
            relations[schema, table].full,
            Column(
                name=name,
                type=kind,
                nullable=bool(nullable),
                comment=comment,
                computed=bool(generated),
                default="" if generated else bounded(default, MAX_SAID),
                labels=enum_labels(kind),
            ),
        )
        for schema, table, name, kind, nullable, comment, generated, default in connection.execute(_COLUMNS).fetchall()
        if (schema, table) in relations
    ]
    keys: list[tuple[str, str]] = []
    references: list[Reference] = []
    for schema, table, kind, names, other, targets in connection.execute(_KEYS).fetchall():
        if (relation := relations.get((schema, table))) is None:
            continue
        if kind == "PRIMARY KEY":
            keys.extend((relation.full, name) for name in names)
        elif (referred := relations.get((schema, other))) is not None:
            references.extend(
                Reference(table=relation.full, column=name, target=f"{referred.full}.{target}")
                for name, target in zip(names, targets, strict=False)
            )
    macros = [name for (name,) in connection.execute(_MACROS).fetchall()]
    return Found(database=assembled("duckdb", relations.values(), columns, keys, references, macros))


def prepare_duckdb(path: Path, statements: Sequence[Statement]) -> Iterator[tuple[str, ...] | str]:
    """The types of each statement's columns, or why DuckDB does not take it."""
    with duckdb.connect(str(path), read_only=True, config=dict(_CONFIG)) as connection:
        for statement in statements:
            try:
                described = connection.execute(f"DESCRIBE {statement.sql}", list(statement.parameters)).fetchall()
                yield tuple(str(row[1]).lower() for row in described)
            except duckdb.Error as error:
                first = str(error).partition("\n")[0]
                yield f"DuckDB does not take it: {first[:MAX_SAID]}"
