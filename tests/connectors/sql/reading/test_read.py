"""Named queries held against each engine: what it says of their columns, what it does not take, and that it runs none of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import duckdb_file, mysql_database, postgres_database
from toolgen import build
from toolgen.model.manifest import Manifest

SCHEMA = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, status VARCHAR(10) NOT NULL, total DECIMAL(10, 2) NOT NULL, placed_on DATE NOT NULL);
INSERT INTO orders VALUES (1, 'open', 1.50, '2026-01-31');
"""
QUERY = """\
-- name: recent
-- description: Orders of a status since a day.
-- parameter: since date  The day.
-- parameter: status string = 'open'
-- parameter: most integer = 5 maximum(10)
SELECT id, status, total, placed_on, count(*) AS n FROM orders
WHERE placed_on >= CAST(:since AS DATE) AND status = :status GROUP BY id, status, total, placed_on ORDER BY id LIMIT :most
"""
BROKEN = """
-- name: broken
-- description: No engine takes this.
-- parameter: x integer
SELECT id FROM orders WHERE id = :x GROUP BY status
"""
TYPES = {
    "postgres": ["bigint", "character varying(10)", "numeric(10,2)", "date", "bigint"],
    "mysql": ["bigint", "varchar", "decimal", "date", "bigint"],
    "duckdb": ["bigint", "varchar", "decimal(10,2)", "date", "bigint"],
}


@pytest.fixture(params=["postgres", "mysql", "duckdb"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    match request.param:
        case "postgres":
            with postgres_database(SCHEMA) as found:
                yield "postgres", found
        case "mysql":
            with mysql_database(SCHEMA) as found:
                yield "mysql", found
        case dialect:
            yield dialect, duckdb_file(tmp_path / "lab.duckdb", SCHEMA)


def built(root: Path, location: str, text: str) -> Manifest:
    (root / "queries.sql").write_text(text, encoding="utf-8")
    return build({"shop": {"sql": location, "queries": "queries.sql"}}, root=root)


def test_columns_have_the_engines_types(location: tuple[str, str], tmp_path: Path) -> None:
    dialect, where = location
    manifest = built(tmp_path, where, QUERY)

    assert [problem for problem in manifest.problems if problem.level == "error"] == []
    schema = manifest.tools["shop__recent"].output_schema
    assert schema is not None
    cells = schema["properties"]["rows"]["items"]["prefixItems"]
    assert [cell["title"] for cell in cells] == ["id", "status", "total", "placed_on", "n"]
    assert [cell["description"] for cell in cells] == TYPES[dialect]


def test_what_the_engine_does_not_take_is_a_problem(location: tuple[str, str], tmp_path: Path) -> None:
    dialect, where = location
    text = BROKEN.replace("GROUP BY status", "AND mod(id, 'x', 1) = 1") if dialect == "mysql" else BROKEN
    manifest = built(tmp_path, where, QUERY + ";\n" + text)

    assert "shop__recent" in manifest.tools
    assert "shop__broken" not in manifest.tools
    (problem,) = [problem for problem in manifest.problems if problem.level == "error"]
    assert (problem.code, problem.origin) == ("bad_query", f"queries.sql:{QUERY.count(chr(10)) + 6}")


def test_nothing_is_run(location: tuple[str, str], tmp_path: Path) -> None:
    """A statement that would fail as soon as it ran over the one row there is."""
    dialect, where = location
    text = {
        "postgres": "SELECT 1 / (id - :x) AS gone FROM orders",
        "mysql": "SELECT id FROM orders WHERE id = (SELECT o.id FROM orders AS o CROSS JOIN orders AS p WHERE :x = 1)",
        "duckdb": "SELECT CAST(status AS INTEGER) AS gone FROM orders WHERE id = :x",
    }[dialect]
    head = "-- name: gone\n-- description: Fails when it runs.\n-- parameter: x integer = 1\n"

    manifest = built(tmp_path, where, head + text)

    assert "shop__gone" in manifest.tools


def test_postgres_takes_lists(tmp_path: Path) -> None:
    text = """\
-- name: some
-- description: Orders by their ids.
-- parameter: ids integer[] max_items(20)  The ids.
SELECT id, total FROM orders WHERE id = ANY(:ids) ORDER BY id
"""
    with postgres_database(SCHEMA) as where:
        manifest = built(tmp_path, where, text)

    assert [problem for problem in manifest.problems if problem.level == "error"] == []
    assert manifest.tools["shop__some"].input_schema["properties"]["ids"] == {
        "type": "array",
        "items": {"type": "integer"},
        "maxItems": 20,
        "description": "The ids.",
    }
