"""Data and queries of TPC-H and TPC-DS, written by DuckDB's own extensions of these names.

Run by the interpreter of `.venv-tpc`, which has a version of DuckDB that these extensions are published for: `make tpc`. It writes a folder
for each benchmark: `schema.json`, `queries.json` and a file of rows for each table.
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import duckdb

_GENERATORS = {"tpch": "dbgen", "tpcds": "dsdgen"}
_SCALE = 0.01


def main(folder: Path) -> None:
    """Writes both benchmarks below `folder`."""
    for name, generator in _GENERATORS.items():
        _write(name, generator, folder / name)


def _write(name: str, generator: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{_extension(name)}'")
        connection.execute(f"CALL {generator}(sf={_SCALE})")
        queries = connection.execute(f"SELECT query_nr, query FROM {name}_queries()").fetchall()
        columns = connection.execute(
            "SELECT table_name, column_name, data_type FROM information_schema.columns ORDER BY table_name, ordinal_position"
        ).fetchall()
        schema: dict[str, list[tuple[str, str]]] = {}
        for table, column, kind in columns:
            schema.setdefault(table, []).append((column, kind))
        for table in schema:
            connection.execute(f"COPY {table} TO '{folder / table}.csv' (HEADER, DELIMITER '|', NULLSTR '')")
    (folder / "schema.json").write_text(json.dumps(schema), encoding="utf-8")
    (folder / "queries.json").write_text(json.dumps(dict(queries)), encoding="utf-8")


def _extension(name: str) -> Path:
    found = find_spec(f"duckdb_extension_{name}")
    if found is None or found.origin is None:
        raise SystemExit(f"the extension {name} is not installed: make tpc")
    return next(Path(found.origin).parent.rglob(f"{name}.duckdb_extension"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
