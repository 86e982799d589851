"""The schemas of PostgreSQL, MariaDB and DuckDB: what is found, what is left out, and that none of it is a row or a password."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tests.databases import duckdb_file, mysql_database, postgres, postgres_database
from toolgen.connectors.source import SourceConfig, SourceReading
from toolgen.connectors.sql.engines import location_of
from toolgen.connectors.sql.reading.read import read_sql
from toolgen.core.errors import DescriptionError
from toolgen.model.database import Database
from toolgen.model.database_url import ServerLocation

POSTGRES = """
CREATE SCHEMA hr;
CREATE TABLE customers (id int PRIMARY KEY, name varchar(40) NOT NULL, tags text[], credit numeric(12,2));
COMMENT ON TABLE customers IS 'People who buy'; COMMENT ON COLUMN customers.credit IS 'In euro';
CREATE TABLE orders (id int PRIMARY KEY, customer int NOT NULL REFERENCES customers, boss int);
CREATE TABLE hr.people (a int, b int, PRIMARY KEY (b, a));
ALTER TABLE orders ADD FOREIGN KEY (customer, boss) REFERENCES hr.people (b, a);
INSERT INTO customers VALUES (1, 'CNRY', NULL, 1);
CREATE VIEW seen AS SELECT id FROM customers;
CREATE VIEW invoked WITH (security_invoker = true) AS SELECT id FROM customers;
CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS n FROM orders;
CREATE TABLE parts (id int, at date) PARTITION BY RANGE (at);
CREATE TABLE parts_2024 PARTITION OF parts FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE FUNCTION lower(varchar) RETURNS text LANGUAGE sql AS 'SELECT ''x''::text';
CREATE FUNCTION hr.upper(text) RETURNS text LANGUAGE sql AS 'SELECT ''x''::text';
CREATE VIEW shouting AS SELECT lower(name) AS name FROM customers;
CREATE EXTENSION postgres_fdw;
CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '1');
CREATE FOREIGN TABLE away (id int) SERVER far;
CREATE VIEW over_away AS SELECT id FROM away;
CREATE VIEW over_over_away AS SELECT id FROM over_away;
CREATE TABLE parent (id int);
CREATE FOREIGN TABLE child () INHERITS (parent) SERVER far;
CREATE FUNCTION same(varchar, varchar) RETURNS bool LANGUAGE sql AS 'SELECT true';
CREATE OPERATOR = (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = same);
"""

MYSQL = """
CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL COMMENT 'Full name', credit DECIMAL(12,2)) COMMENT 'People who buy';
CREATE TABLE orders (id INT PRIMARY KEY, customer INT NOT NULL, FOREIGN KEY (customer) REFERENCES customers (id));
CREATE TABLE pairs (a INT, b INT, PRIMARY KEY (b, a));
INSERT INTO customers VALUES (1, 'CNRY', 1);
CREATE VIEW seen AS SELECT id FROM customers;
CREATE SQL SECURITY INVOKER VIEW invoked AS SELECT id FROM customers;
CREATE TABLE text_file (a INT NOT NULL) ENGINE=CSV;
CREATE FUNCTION shout() RETURNS INT RETURN 1;
"""

DUCKDB = """
CREATE SCHEMA hr;
CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR NOT NULL, tags VARCHAR[], credit DECIMAL(12,2));
COMMENT ON TABLE customers IS 'People who buy'; COMMENT ON COLUMN customers.credit IS 'In euro';
CREATE TABLE orders (id INT PRIMARY KEY, customer INT NOT NULL REFERENCES customers (id));
CREATE TABLE hr.people (a INT, b INT, PRIMARY KEY (b, a));
INSERT INTO customers VALUES (1, 'CNRY', NULL, 1);
CREATE VIEW seen AS SELECT id FROM customers;
CREATE MACRO shout(x) AS upper(x);
"""


def read(location: str, password: str = "") -> SourceReading:
    return read_sql(SourceConfig(name="lab", kind="sql", location=location), password)


def tables(
    reading: SourceReading,
) -> dict[str, tuple[list[tuple[str, str, bool]], tuple[str, ...], dict[str, str], bool]]:
    database = found(reading)
    return {
        f"{table.schema}.{table.name}".lstrip("."): (
            [(column.name, column.type, column.nullable) for column in table.columns],
            table.primary_key,
            table.references,
            table.view,
        )
        for table in database.tables
    }


def found(reading: SourceReading) -> Database:
    assert reading.info.database is not None
    assert "CNRY" not in json.dumps(msgspec.to_builtins(reading.info))
    return reading.info.database


def comments(reading: SourceReading) -> dict[str, str]:
    database = found(reading)
    of_columns = {
        f"{table.name}.{column.name}": column.comment for table in database.tables for column in table.columns
    }
    return {
        key: value for key, value in {**{t.name: t.comment for t in database.tables}, **of_columns}.items() if value
    }


def codes(reading: SourceReading) -> set[tuple[str, str, str]]:
    return {(problem.origin, problem.code, problem.level) for problem in reading.problems}


def test_postgres() -> None:
    with postgres_database(POSTGRES) as location:
        reading = read(location)
        assert reading == read(location)
    assert tables(reading) == {
        "customers": (
            [
                ("id", "integer", False),
                ("name", "character varying(40)", False),
                ("tags", "text[]", True),
                ("credit", "numeric(12,2)", True),
            ],
            ("id",),
            {},
            False,
        ),
        "orders": (
            [("id", "integer", False), ("customer", "integer", False), ("boss", "integer", True)],
            ("id",),
            {"customer": "customers.id", "boss": "hr.people.a"},
            False,
        ),
        "hr.people": ([("a", "integer", False), ("b", "integer", False)], ("b", "a"), {}, False),
        "parts": ([("id", "integer", True), ("at", "date", True)], (), {}, False),
        "seen": ([("id", "integer", True)], (), {}, True),
        "invoked": ([("id", "integer", True)], (), {}, True),
        "shouting": ([("name", "text", True)], (), {}, True),
        "totals": ([("n", "bigint", True)], (), {}, True),
    }
    assert comments(reading) == {"customers": "People who buy", "customers.credit": "In euro"}
    assert codes(reading) == {
        ("=", "operator_shadows", "warning"),
        ("away", "foreign_table", "warning"),
        ("child", "foreign_table", "warning"),
        ("parent", "foreign_table", "warning"),
        ("over_away", "foreign_table", "warning"),
        ("over_over_away", "foreign_table", "warning"),
        ("seen", "view_owner_rights", "info"),
        ("shouting", "view_calls_functions", "warning"),
        ("shouting", "view_owner_rights", "info"),
    }
    assert found(reading).functions == ("lower", "same")
    assert [tool.name for tool in reading.tools] == [
        "lab__query",
        "lab__explain",
        "lab__list_tables",
        "lab__describe_table",
    ]
    assert "PostgreSQL" in reading.tools[0].description
    assert "$1" in reading.tools[0].description


def test_a_role_sees_what_it_may_read() -> None:
    with postgres_database(POSTGRES) as location:
        parsed = location_of(location)
        assert isinstance(parsed, ServerLocation)
        role = f"{parsed.database}_role"
        with postgres(parsed.database) as admin:
            admin.execute(f'CREATE ROLE "{role}" LOGIN'.encode())
            try:
                admin.execute(
                    f'GRANT SELECT (id) ON customers TO "{role}"; GRANT SELECT ON hr.people TO "{role}"'.encode()
                )
                reading = read(location.replace(f"{parsed.user}@", f"{role}@"))
            finally:
                admin.execute(f'DROP OWNED BY "{role}"; DROP ROLE "{role}"'.encode())
    # Every column of a table in reach: names are resolved against all of them.
    assert list(tables(reading)) == ["customers"]
    assert len(found(reading).tables[0].columns) == 4


def test_mysql() -> None:
    with mysql_database(MYSQL) as location:
        reading = read(location)
        assert reading == read(location)
    assert tables(reading) == {
        "customers": (
            [("id", "int(11)", False), ("name", "varchar(40)", False), ("credit", "decimal(12,2)", True)],
            ("id",),
            {},
            False,
        ),
        "orders": (
            [("id", "int(11)", False), ("customer", "int(11)", False)],
            ("id",),
            {"customer": "customers.id"},
            False,
        ),
        "pairs": ([("a", "int(11)", False), ("b", "int(11)", False)], ("b", "a"), {}, False),
        "seen": ([("id", "int(11)", False)], (), {}, True),
        "invoked": ([("id", "int(11)", False)], (), {}, True),
    }
    assert comments(reading) == {"customers": "People who buy", "customers.name": "Full name"}
    assert codes(reading) == {("seen", "view_owner_rights", "info"), ("text_file", "foreign_table", "warning")}
    assert found(reading).functions == ("shout",)


def test_duckdb(tmp_path: Path) -> None:
    location = duckdb_file(tmp_path / "lab.duckdb", DUCKDB)
    reading = read(location)
    assert reading == read(location)
    assert tables(reading) == {
        "customers": (
            [
                ("id", "INTEGER", False),
                ("name", "VARCHAR", False),
                ("tags", "VARCHAR[]", True),
                ("credit", "DECIMAL(12,2)", True),
            ],
            ("id",),
            {},
            False,
        ),
        "orders": (
            [("id", "INTEGER", False), ("customer", "INTEGER", False)],
            ("id",),
            {"customer": "customers.id"},
            False,
        ),
        "hr.people": ([("a", "INTEGER", False), ("b", "INTEGER", False)], ("b", "a"), {}, False),
        "seen": ([("id", "INTEGER", True)], (), {}, True),
    }
    assert comments(reading) == {"customers": "People who buy", "customers.credit": "In euro"}
    assert found(reading).functions == ("shout",)


UNREACHABLE = [
    "postgresql://CNRYuser@127.0.0.1:1/CNRYdb",
    "mysql://CNRYuser@127.0.0.1:1/CNRYdb",
    "duckdb:///nowhere/CNRY.duckdb",
    "oracle://CNRY@h/d",
]


@pytest.mark.parametrize("location", UNREACHABLE)
def test_a_database_that_cannot_be_read_is_a_clear_error(location: str) -> None:
    with pytest.raises(DescriptionError) as caught:
        read(location, "CNRYpassword")
    assert "CNRY" not in str(caught.value)
    assert "sources.lab" in str(caught.value)
    assert caught.value.suggestion
