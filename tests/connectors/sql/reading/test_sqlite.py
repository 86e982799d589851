"""A database read into a schema and four tools."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import jsonschema
import msgspec
import pytest

from tests.connectors.sql.guard.lab import DATABASE, write
from toolgen.connectors.source import SourceConfig, SourceReading
from toolgen.connectors.sql.reading.read import read_sql
from toolgen.core.errors import DescriptionError
from toolgen.model.manifest import assemble
from toolgen.model.names import TOOL_NAME
from toolgen.model.tool import Effect, SqlBinding


def read(location: str) -> SourceReading:
    return read_sql(SourceConfig(name="lab", kind="sql", location=location))


def made(tmp_path: Path, script: str) -> SourceReading:
    path = tmp_path / "made.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return read(f"sqlite:///{path}")


@pytest.fixture
def reading(tmp_path: Path) -> SourceReading:
    return read(f"sqlite:///{write(tmp_path / 'lab.db')}")


def test_tables_and_views_are_found_with_their_columns(reading: SourceReading) -> None:
    found = reading.info.database
    assert found is not None
    assert found.dialect == "sqlite"
    assert {table.name: tuple(column.name for column in table.columns) for table in found.tables} == {
        table.name: tuple(column.name for column in table.columns) for table in DATABASE.tables
    }
    assert {table.name for table in found.tables if table.view} == {"germans", "all_secrets"}


def test_types_keys_and_references_are_found(tmp_path: Path) -> None:
    reading = made(
        tmp_path,
        """CREATE TABLE a (x TEXT, y INTEGER, z REAL NOT NULL, w, PRIMARY KEY (y, x));
        CREATE TABLE b (id INTEGER PRIMARY KEY, ay INTEGER, ax TEXT, p INTEGER REFERENCES b, q GENERATED ALWAYS AS (p + 1),
          FOREIGN KEY (ay, ax) REFERENCES a (y, x));""",
    )
    assert reading.info.database is not None
    a, b = reading.info.database.tables
    assert [(column.name, column.type, column.nullable) for column in a.columns] == [
        ("x", "TEXT", False),
        ("y", "INTEGER", False),
        ("z", "REAL", False),
        ("w", "", True),
    ]
    assert a.primary_key == ("y", "x")
    assert b.references == {"ay": "a.y", "ax": "a.x", "p": "b.id"}
    assert "q" in {column.name for column in b.columns}


def test_four_read_only_tools_are_made(reading: SourceReading) -> None:
    assert [tool.name for tool in reading.tools] == [
        "lab__query",
        "lab__explain",
        "lab__list_tables",
        "lab__describe_table",
    ]
    for tool in reading.tools:
        assert TOOL_NAME.match(tool.name)
        assert tool.effect is Effect.READ
        assert isinstance(tool.binding, SqlBinding)
        assert tool.name == f"lab__{tool.binding.operation}"
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tool.output_schema is not None
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)
    assert reading.operations == len(reading.tools) + len(reading.problems)


def test_the_description_says_the_dialect_and_where_tables_are_listed(reading: SourceReading) -> None:
    query = reading.tools[0]
    assert "SQLite" in query.description
    assert "lab__list_tables" in query.description
    assert "lab__describe_table" in query.description


def test_no_row_and_no_path_stands_in_the_manifest(reading: SourceReading, tmp_path: Path) -> None:
    manifest = assemble({"lab": reading.info}, reading.tools, reading.problems)
    written = msgspec.json.encode(manifest.to_dict()).decode()
    assert "Customer 1" not in written
    assert "CNRY" not in written
    assert str(tmp_path) not in written


def test_the_digest_is_of_the_schema_and_not_of_the_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "lab.db")
    before = read(f"sqlite:///{path}").info.digest
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("DELETE FROM orders; VACUUM;")
    assert read(f"sqlite:///{path}").info.digest == before
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("ALTER TABLE orders ADD COLUMN x TEXT;")
    assert read(f"sqlite:///{path}").info.digest != before


def test_a_virtual_table_is_left_out_and_said_so(tmp_path: Path) -> None:
    reading = made(tmp_path, "CREATE TABLE t (a); CREATE VIRTUAL TABLE docs USING fts5(body);")
    assert reading.info.database is not None
    assert [table.name for table in reading.info.database.tables] == ["t"]
    assert [(problem.origin, problem.code, problem.level) for problem in reading.problems] == [
        ("docs", "virtual_table", "warning")
    ]


def test_a_view_that_cannot_be_read_is_left_out_and_said_so(tmp_path: Path) -> None:
    reading = made(
        tmp_path,
        "CREATE TABLE t (a); CREATE VIEW v AS SELECT a FROM t; CREATE VIEW broken AS SELECT a FROM nowhere;",
    )
    assert reading.info.database is not None
    assert [table.name for table in reading.info.database.tables] == ["t", "v"]
    assert [problem.origin for problem in reading.problems] == ["broken"]


def test_reading_changes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "lab.db")
    before = path.read_bytes()
    read(f"sqlite:///{path}")
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["lab.db"]


LOCATIONS = [
    "postgresql://user:CNRY@db.example/x",
    "mysql://db.example/x",
    "duckdb:///x.db",
    "lab.db",
    "sqlite://lab.db",
    "sqlite:///missing.db",
]


@pytest.mark.parametrize("location", LOCATIONS)
def test_a_database_that_cannot_be_read_is_a_description_error(location: str) -> None:
    with pytest.raises(DescriptionError) as caught:
        read(location)
    assert "lab" in caught.value.where
    assert caught.value.suggestion
    assert "CNRY" not in str(caught.value)


def test_a_file_that_is_no_database_is_a_description_error(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("no database " * 100, encoding="utf-8")
    with pytest.raises(DescriptionError):
        read(f"sqlite:///{tmp_path / 'x.db'}")
