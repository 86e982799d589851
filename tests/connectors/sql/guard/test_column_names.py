"""What SQLite's columns hold is told the same way with and without a value to ask: each row is run both ways on a real file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.connectors.sql.execution.guarded import built, database, run
from toolgen.connectors.sql.guard.guard import guard
from toolgen.connectors.sql.guard.value_types import declared_type
from toolgen.model.call import Statement
from toolgen.model.result import Success
from toolgen.model.sql_scope import SqlScope, TableScope

pytestmark = pytest.mark.usefixtures("sql_processes")

SCRIPT = """CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR(20), price DOUBLE, made DATE, raw BLOB, n, tenant TEXT);
INSERT INTO t VALUES (1, 'a', 1.5, '2026-01-02', x'01', 7, 'acme');
CREATE TABLE u (id INT, t_id INT, note TEXT);
INSERT INTO u VALUES (1, 1, 'x');
"""
CASES = [
    ("SELECT id, name, price, raw FROM t", ["integer", "text", "real", "blob"]),
    ("SELECT * FROM u", ["integer", "integer", "text"]),
    ("SELECT x.name AS n, u.note FROM t AS x JOIN u ON u.t_id = x.id", ["text", "text"]),
    ("SELECT a.k FROM (SELECT id AS k FROM t) AS a", ["integer"]),
    ("WITH c(k, v) AS (SELECT id, name FROM t) SELECT v, k FROM c", ["text", "integer"]),
    ("WITH RECURSIVE r(i) AS (SELECT id FROM t UNION ALL SELECT i + 1 FROM r WHERE i < 3) SELECT i FROM r", ["integer"]),
    ("SELECT id FROM t UNION SELECT t_id FROM u", ["integer"]),
    ("SELECT name || '!' AS a, id + 1, price * 2, -id, id > 0, name LIKE 'a%' FROM t",
     ["text", "integer", "real", "integer", "integer", "integer"]),
    ("SELECT upper(name), length(name), coalesce(name, '?'), round(price, 1), CAST(id AS TEXT) FROM t",
     ["text", "integer", "text", "real", "text"]),
    ("SELECT name, count(*), sum(id), avg(id), max(price), group_concat(name) FROM t GROUP BY name",
     ["text", "integer", "integer", "real", "real", "text"]),
    ("SELECT CASE WHEN id > 0 THEN 'p' ELSE name END AS c, iif(id > 0, 1, 0), (SELECT max(note) FROM u) FROM t",
     ["text", "integer", "text"]),
    ("SELECT row_number() OVER (ORDER BY id) AS r, sum(id) FILTER (WHERE id > 0) OVER () FROM t", ["integer", "integer"]),
    ("SELECT DISTINCT strftime('%Y', made) AS y, 'a', 1, 1.5 FROM t", ["text", "text", "integer", "real"]),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "types"), CASES, ids=[sql[:50] for sql, _ in CASES])
def test_an_empty_result_has_the_types_of_a_full_one(sql: str, types: list[str], tmp_path: Path) -> None:
    with database("sqlite", SCRIPT, tmp_path) as location:
        found = built(location)
        scope = SqlScope(tables={"t": TableScope(rows="tenant = :tenant"), "u": TableScope()}, timeout_s=20.0)
        full, empty = (
            guard(text, [], database=found, scope=scope, attributes={"tenant": "acme"})
            for text in (sql, f"SELECT * FROM ({sql}) AS result WHERE 0")
        )
        assert isinstance(full, Statement), full
        assert full.types == tuple(types)
        results = run(location, full, empty, operation="query")
    for result, count in zip(results, (1, 0), strict=True):
        assert isinstance(result, Success), result
        data = json.loads(json.dumps(result.data))
        assert min(data["row_count"], 1) == count
        assert [column["type"] for column in data["columns"]] == types


def test_a_column_that_may_hold_anything_is_called_what_it_was_declared_as(tmp_path: Path) -> None:
    with database("sqlite", SCRIPT, tmp_path) as location:
        given = guard(
            "SELECT made, n, id FROM t WHERE id = 2",
            [],
            database=built(location),
            scope=SqlScope(tables={"t": TableScope()}, timeout_s=20.0),
            attributes={},
        )
        (result,) = run(location, given, operation="query")
        (plan,) = run(location, given, operation="explain")
    assert isinstance(result, Success)
    assert [column["type"] for column in result.data["columns"]] == ["date", "null", "integer"]  # type: ignore[index,call-overload,union-attr]
    assert isinstance(plan, Success)  # whose columns are others


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        *[("BIGINT", "integer"), ("CHARINT", "integer"), ("NVARCHAR(100)", "text"), ("double precision", "real")],
        *[("Decimal(10,2)", "decimal(10,2)"), ("BOOLEAN", "boolean"), ("", "")],
    ],
)
def test_declared_types_have_the_affinity_of_their_words(declared: str, kind: str) -> None:
    assert declared_type(declared) == kind
