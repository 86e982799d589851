"""Values that a statement gathers from 190,000 rows of 1 KB leave their private engine below 256 MB."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import psycopg
import pytest
from msgspec.structs import replace

from tests.connectors.sql.guard.engines import TRANSACTIONAL
from tests.connectors.sql.guard.lab import allowed, refused
from tests.connectors.sql.guard.largest import SCOPE, Asked, Taken, database, engine
from tests.databases import postgres_database
from toolgen.connectors.sql.dialects.postgres_costs import POSTGRES_FUNCTIONS
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement

pytestmark = pytest.mark.usefixtures("sql_processes")

_MEMORY: Final = 256 * 2**20
_ROWS: Final = "FROM words a, words b, words c, words d"
_GATHERED: Final = {
    "postgres": (
        f"SELECT length(string_agg(a.word, ',')) {_ROWS}",
        f"SELECT cardinality(array_agg(a.word)) {_ROWS}",
        f"SELECT cardinality(array_agg(ARRAY[a.word, b.word])) {_ROWS}",
        f"SELECT json_array_length(json_agg(a.word)) {_ROWS}",
        f"SELECT upper(range_agg(int4range(3 * (a.id + 21 * b.id + 441 * c.id), 3 * (a.id + 21 * b.id + 441 * c.id) + 1))) {_ROWS}",
        f"SELECT jsonb_array_length(jsonb_agg(a.word)) {_ROWS}",
        f"SELECT length(CAST(json_object_agg(a.id, a.word) AS text)) {_ROWS}",
        f"SELECT cardinality(ARRAY(SELECT a.word {_ROWS}))",
        f"SELECT cardinality(ARRAY(SELECT a.word {_ROWS} UNION ALL SELECT a.word {_ROWS}))",
        f"SELECT cardinality(ARRAY((SELECT a.word {_ROWS})))",
        f"SELECT cardinality(ARRAY(SELECT a.word {_ROWS} LIMIT ALL))",
        f"SELECT cardinality(ARRAY((SELECT a.word {_ROWS}) UNION ALL (SELECT a.word {_ROWS})))",
        f"SELECT cardinality(array_agg(DISTINCT a.word || b.id || c.id || d.id)) {_ROWS}",
        f"SELECT length(string_agg(a.word, ',' ORDER BY b.id) FILTER (WHERE a.id >= 0)) {_ROWS}",
        f"SELECT length(string_agg(a.word, '')), length(string_agg(b.word, '')), length(string_agg(c.word, '')) {_ROWS}",
        f"SELECT count(*) FROM (SELECT a.id, array_agg(b.word) AS x, array_agg(c.word) AS y {_ROWS} GROUP BY a.id) q",
    ),
    "duckdb": (
        f"SELECT length(string_agg(a.word, ',')) {_ROWS}",
        f"SELECT len(list(a.word)) {_ROWS}",
        f"SELECT length(json_group_array(a.word)) {_ROWS}",
    ),
    "mysql": (
        f"SELECT length(group_concat(a.word)) {_ROWS}",
        f"SELECT length(json_arrayagg(a.word)) {_ROWS}",
        f"SELECT length(json_objectagg(a.id, a.word)) {_ROWS}",
    ),
    "sqlite": (
        f"SELECT length(group_concat(a.word)) {_ROWS}",
        f"SELECT length(json_group_array(a.word)) {_ROWS}",
        f"SELECT length(json_group_object(a.id, a.word)) {_ROWS}",
    ),
}


@pytest.mark.parametrize("dialect", TRANSACTIONAL)
def test_gathered_values_leave_the_server_small(dialect: str, tmp_path: Path) -> None:
    asked = []
    for sql in _GATHERED[dialect]:
        verdict = guard(sql, (), database=database(dialect), scope=replace(SCOPE, timeout_s=2.0), attributes={})
        assert isinstance(verdict, Statement), f"{sql}: {verdict}"
        asked.append(Asked(sql, (), verdict))
    faults: list[str] = []

    def judge(one: Asked, taken: Taken) -> None:
        if taken.memory > _MEMORY:
            faults.append(f"{taken.memory >> 20} MB: {one.sql}")
        if dialect == "postgres" and not taken.answer.startswith("response_too_large: the statement aggregates"):
            faults.append(f"{taken.answer}: {one.sql}")

    with engine(dialect, tmp_path) as private:
        private.run(asked, judge)
    assert not faults, "\n".join(faults)


_SORTED: Final = (
    f"SELECT {', '.join(f'count(DISTINCT a.word || b.id || c.id || d.id || {n}) AS x{n}' for n in range(40))} {_ROWS}",
    f"SELECT {', '.join(f'mode() WITHIN GROUP (ORDER BY a.id + b.id * 30 + c.id * 900 + {n}) AS x{n}' for n in range(90))} {_ROWS}",
    f"SELECT {', '.join(f'(SELECT count(*) FROM (SELECT DISTINCT a.id, b.id, c.id + {n}, d.id {_ROWS}) q)' for n in range(20))}",
)


def test_many_sorts_leave_postgresql_small(tmp_path: Path) -> None:
    asked = []
    for sql in _SORTED:
        verdict = guard(sql, (), database=database("postgres"), scope=replace(SCOPE, timeout_s=10.0), attributes={})
        assert isinstance(verdict, Statement), f"{sql}: {verdict}"
        asked.append(Asked(sql, (), verdict))
    taken: list[int] = []
    with engine("postgres", tmp_path) as private:
        private.run(asked, lambda _, one: taken.append(one.memory))
    assert len(taken) == len(_SORTED)
    assert max(taken) < _MEMORY


# Answers with the condition are those of the engine without it.
_SAME: Final = (
    "SELECT string_agg(name, ',' ORDER BY name DESC), array_agg(DISTINCT country), json_agg(id ORDER BY id) FROM customers",
    "SELECT country, string_agg(name, '-' ORDER BY id) FILTER (WHERE id > 1) AS x FROM customers GROUP BY country ORDER BY country",
    "SELECT ARRAY(SELECT name FROM customers ORDER BY id DESC) AS x",
    "SELECT id, ARRAY(SELECT o.status FROM orders o WHERE o.customer_id = c.id ORDER BY o.id LIMIT 2) AS x "
    "FROM customers c ORDER BY id",
    "SELECT ARRAY(SELECT id FROM customers UNION ALL SELECT id FROM orders ORDER BY 1) AS x",
    "SELECT ARRAY(SELECT id FROM customers UNION SELECT id FROM orders ORDER BY 1 LIMIT 2) AS x",
    "SELECT ARRAY(SELECT id FROM customers ORDER BY id OFFSET 1 ROWS FETCH FIRST 1 ROW ONLY) AS x",
    "SELECT ARRAY(SELECT id FROM customers ORDER BY id FETCH FIRST 2 ROWS ONLY) AS x",
    "SELECT ARRAY((SELECT id FROM customers ORDER BY id DESC)) AS x",
    "SELECT ARRAY(WITH q AS (SELECT id FROM customers) SELECT id FROM q ORDER BY 1 LIMIT 2) AS x",
    "SELECT ARRAY(SELECT DISTINCT country FROM customers ORDER BY 1) AS x",
    "SELECT id, array_agg(name) OVER (ORDER BY id ROWS 1 PRECEDING) AS x FROM customers ORDER BY id",
    "SELECT jsonb_object_agg(id, name) AS x, array_agg(ARRAY(SELECT o.id FROM orders o WHERE o.customer_id = c.id ORDER BY 1)) "
    "FILTER (WHERE c.id = 1) AS y FROM customers c",
    "SELECT json_agg(t ORDER BY t.id) AS x FROM (SELECT id, name FROM customers) t",
)
_SCRIPT: Final = (
    "CREATE TABLE customers (id integer PRIMARY KEY, name text, country text, ssn text);"
    "CREATE TABLE orders (id integer PRIMARY KEY, customer_id integer, status text);"
    "INSERT INTO customers VALUES (1, 'Ann', 'DE', 'x'), (2, NULL, 'FR', 'y'), (3, 'Cid', 'DE', 'z');"
    "INSERT INTO orders VALUES (1, 1, 'new'), (2, 1, 'paid'), (3, 3, NULL)"
)


def test_answers_stay_as_they_are() -> None:
    with postgres_database(_SCRIPT) as place, psycopg.connect(place, autocommit=True) as connection:
        for sql in _SAME:
            statement = allowed(sql, dialect="postgres")
            assert "toolgen.gathered" in statement.sql
            found, wanted = connection.execute(statement.sql.encode()), connection.execute(sql.encode())
            assert found.fetchall() == wanted.fetchall(), sql
            assert [c.name for c in found.description or ()] == [c.name for c in wanted.description or ()]


def test_a_statement_cannot_set_the_count_back() -> None:
    for sql in (
        "SELECT set_config('toolgen.gathered', '0', true)",
        "SELECT current_setting('toolgen.gathered')",
        "SELECT pg_catalog.set_config('toolgen.gathered', '-9', true)",
    ):
        assert refused(sql, dialect="postgres").rule == "sql:function"


def test_every_function_that_gathers_is_counted() -> None:
    gathering = [name for name, cost in POSTGRES_FUNCTIONS.items() if cost.result in {"gather", "collect"}]
    assert len(gathering) > 8
    for name in gathering:
        given = (
            "int4range(1, 2)"
            if name == "range_agg"
            else "name, name"
            if "object" in name or "string" in name
            else "name"
        )
        assert "toolgen.gathered" in allowed(f"SELECT {name}({given}) AS x FROM customers", dialect="postgres").sql


def test_values_are_gathered_in_few_levels() -> None:
    sql = "id"
    for _ in range(5):
        sql = f"(SELECT array_agg({sql}) FROM customers)"
    assert refused(f"SELECT {sql} AS x", dialect="postgres").rule == "sql:size"
