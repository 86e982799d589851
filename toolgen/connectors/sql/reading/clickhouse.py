"""Reading of the schema of a ClickHouse folder: tables and views of the database `default`, their columns, keys and comments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from toolgen.connectors.sql.execution.clickhouse import FolderInUseError, connected, with_values
from toolgen.connectors.sql.reading.schema import ReadSchema, Relation, assembled
from toolgen.core.errors import DescriptionError
from toolgen.model.call import Statement
from toolgen.model.database import Column

__all__ = ["prepare_clickhouse", "read_clickhouse"]

_SECONDS: Final = 30.0
_ATTEMPTS: Final = 250  # for five seconds, while statements of a gateway have the folder open
# Names that a parser could read as the end of a name are not served.
_PLAIN: Final = "NOT match({}, '[\\\\\\\\\"`\\\\x00-\\\\x1f]')"
# Tables of other engines read files, other servers or programs.
_TABLES: Final = f"""
SELECT name, engine LIKE '%View', comment FROM system.tables
WHERE database = 'default' AND NOT is_temporary AND NOT startsWith(name, '.inner') AND {_PLAIN.format("name")}
AND (engine LIKE '%MergeTree' OR engine IN ('Log', 'StripeLog', 'TinyLog', 'View', 'MaterializedView'))
ORDER BY name
"""  # noqa: S608 - texts of our own
_COLUMNS: Final = f"""
SELECT table, name, type, comment, default_kind, default_expression FROM system.columns
WHERE database = 'default' AND {_PLAIN.format("name")} ORDER BY table, position
"""  # noqa: S608 - texts of our own
_DEFINED: Final = "SELECT lower(name) FROM system.functions WHERE origin != 'System' ORDER BY 1"
_COMPUTED: Final = frozenset({"MATERIALIZED", "ALIAS", "EPHEMERAL"})


def read_clickhouse(path: Path) -> ReadSchema:
    """Return the schema of the folder. Raises `DescriptionError` if it cannot be opened."""
    if not (path / "metadata").is_dir():
        raise DescriptionError("there is no ClickHouse database", suggestion="check the folder after chdb:///")
    try:
        with connected(path, _SECONDS, _ATTEMPTS) as connection:
            tables, columns = (_rows(connection, sql) for sql in (_TABLES, _COLUMNS))
            functions = [str(name) for (name,) in _rows(connection, _DEFINED)]
    except (FolderInUseError, RuntimeError) as error:
        raise DescriptionError(
            "the ClickHouse folder cannot be opened", suggestion="end the process that uses it, then try again"
        ) from error
    relations = {name: Relation(schema="", name=name, view=bool(view), comment=note) for name, view, note in tables}
    found = [
        (
            table,
            Column(
                name=name,
                type=kind,
                nullable=kind.startswith(("Nullable(", "LowCardinality(Nullable(")),
                comment=note,
                computed=how in _COMPUTED,
                default=default if how == "DEFAULT" else "",
            ),
        )
        for table, name, kind, note, how, default in columns
        if table in relations and how != "EPHEMERAL"
    ]
    # A primary key of ClickHouse is an order of rows, of which several may have one key.
    return ReadSchema(database=assembled("clickhouse", relations.values(), found, [], [], functions))


def _rows(connection: Any, sql: str) -> list[list[Any]]:
    rows: list[list[Any]] = json.loads(connection.query(sql, "JSONCompact").bytes())["data"]
    return rows


def prepare_clickhouse(path: Path, statements: Sequence[Statement]) -> Iterator[tuple[str, ...] | str]:
    """Return the types of each statement's columns, or the reason why ClickHouse rejects it."""
    with connected(path, _SECONDS, _ATTEMPTS) as connection:
        for statement in statements:
            sql, values = with_values(statement)
            try:
                described = json.loads(connection.query(f"DESCRIBE ({sql})", "JSONCompact", params=values).bytes())
                yield tuple(str(row[1]) for row in described["data"])
            except RuntimeError as error:
                yield f"ClickHouse rejects it: {str(error).rstrip().rpartition('(')[2].rstrip(')')}"
