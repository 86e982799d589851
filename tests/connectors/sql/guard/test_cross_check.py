"""The second reader of PostgreSQL: it agrees with the guard about what is honest, and a difference of any kind is a refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connectors.sql.guard.lab import allowed, database, judge, refused
from tests.projects import POLICY, make_project
from toolgen.config.policies import load_policy
from toolgen.connectors.sql import policy_section
from toolgen.connectors.sql.guard import cross_check as module
from toolgen.connectors.sql.guard import guard as guarding
from toolgen.connectors.sql.guard.changes import guard_change
from toolgen.connectors.sql.guard.cross_check import cross_check
from toolgen.connectors.sql.guard.refusal import StatementRefusal
from toolgen.core.errors import PolicyError
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.call import Statement
from toolgen.model.manifest import SourceInfo, assemble
from toolgen.model.sql_scope import SqlScope, TableScope

needs_pglast = pytest.mark.skipif(not module.AVAILABLE, reason="pglast is not installed: pip install 'toolgen[pglast]'")

HONEST = [
    "SELECT trim(leading FROM name), trim(trailing FROM name), btrim(name) FROM customers WHERE ROW(id, name) <> ROW(1, 'Ann')",
    "SELECT CURRENT_DATE, CURRENT_TIME, CURRENT_TIMESTAMP",
    "SELECT * FROM customers c JOIN orders o ON o.customer_id = c.id",
    "WITH big AS (SELECT customer_id, sum(total) AS s FROM orders GROUP BY 1)"
    " SELECT c.name, b.s FROM big b JOIN customers c ON c.id = b.customer_id",
    "SELECT extract(year FROM date '2024-01-31'), position('a' IN 'cat'), trim(' x '), substring('abc' FROM 2 FOR 1)",
    "SELECT coalesce(status, 'x'), nullif(status, ''), greatest(id, 1), count(*) FILTER (WHERE id > 1) OVER () FROM orders",
    "SELECT 2 ^ 3, now() AT TIME ZONE 'UTC', status LIKE 'a!%' ESCAPE '!' FROM orders",
    "SELECT unnest(array_agg(id)) FROM orders",
    "SELECT g FROM generate_series(1, 3) AS g",
    "SELECT body FROM tickets WHERE id IN (SELECT id FROM orders) ORDER BY id LIMIT 5",
    "SELECT id FROM orders WHERE id <> ALL (ARRAY[7])",
    "VALUES (1), (2)",
]


NAMES = {"gone", "id", "orders", "status"}


@needs_pglast
@pytest.mark.parametrize("sql", HONEST)
def test_honest_statements_are_read_alike(sql: str) -> None:
    allowed(sql, dialect="postgres")


@needs_pglast
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1; SELECT 2",
        "SELECT id FROM public.orders, public.users_secret",
        "SELECT id FROM hr.orders",
        "SELECT id FROM orders",
        "SELECT id FROM other.public.orders",
        "SELECT id FROM public.customers",
        "SELECT pg_sleep(1), lower(status) FROM public.orders",
        "SELECT status FROM public.orders",
        "SELECT evil.lower(status) FROM public.orders",
        "SELECT pg_catalog.pg_read_file('x'), lower(status) FROM public.orders",
        "SELECT lower(status) INTO made FROM public.orders",
        "SELECT lower(status) FROM public.orders FOR UPDATE",
        "WITH gone AS (DELETE FROM public.orders RETURNING status) SELECT lower(status) FROM gone",
        "DELETE FROM public.orders WHERE lower(status) = 'x'",
        "SELECT lower(status), password FROM public.orders",
        "SELECT lower(o.status) FROM public.orders o",
        f"SELECT lower(status) AS {'x' * 63}y FROM public.orders",
        'SELECT lower("Status") FROM public.orders',
        "SELECT lower(status FROM",
        "",
    ],
)
def test_a_difference_is_a_refusal(sql: str) -> None:
    with pytest.raises(StatementRefusal) as refusal:
        cross_check(sql, tables={"orders"}, functions={"lower"}, names=NAMES)

    assert refusal.value.rule == "cross-check"


@needs_pglast
def test_what_agrees_is_no_refusal() -> None:
    cross_check("SELECT lower(status) FROM public.orders", tables={"orders"}, functions={"lower"}, names=NAMES)


@needs_pglast
@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("INSERT INTO orders (status) VALUES (upper('x'))", "insert"),
        ("UPDATE orders SET status = 'x' WHERE id = 1", "update"),
        ("DELETE FROM orders WHERE id = 1", "delete"),
    ],
)
def test_changes_are_read_alike(sql: str, kind: str) -> None:
    scope = SqlScope(tables={"orders": TableScope(writes=frozenset({"insert", "update", "delete"}))})

    verdict = guard_change(sql, [], database=database("postgres"), scope=scope, attributes={})

    assert isinstance(verdict, Statement), verdict
    assert verdict.writes == kind


def test_the_guard_asks_the_second_reader_about_every_statement_of_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    def disagree(sql: str, **_: object) -> None:
        raise StatementRefusal("cross-check", "no", "no")

    monkeypatch.setattr(guarding, "cross_check", disagree)

    assert refused("SELECT id, 1 AS asked FROM orders", dialect="postgres").rule == "sql:cross-check"
    assert isinstance(judge("SELECT id, 1 AS asked FROM orders", dialect="mysql"), Statement)


def test_the_time_of_day_is_written_as_postgresql_reads_it() -> None:
    assert allowed("SELECT CURRENT_TIME", dialect="postgres").sql == "SELECT CURRENT_TIME LIMIT 100"


def test_a_policy_may_demand_the_second_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the database is SQLite, which has none, so such a policy is never loaded."""
    demanding = {**POLICY, "sql": {"shop": {**POLICY["sql"]["shop"], "cross_check": "required"}}}
    make_project(tmp_path / "p", policy=demanding)
    monkeypatch.setenv("TEST_PETS_KEY", "x")

    with pytest.raises(PolicyError, match="PostgreSQL"):
        Gateway.load(tmp_path / "p" / "toolgen.yaml")


@pytest.mark.parametrize("available", [True, False])
def test_a_policy_that_demands_it_is_loaded_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, available: bool
) -> None:
    known = assemble(
        {"lab": SourceInfo(kind="sql", digest="", title="", version="", database=database("postgres"))}, [], []
    )
    (tmp_path / "p.yaml").write_text("sql: {lab: {tables: {orders: {}}, cross_check: required}}", encoding="utf-8")
    monkeypatch.setattr(policy_section, "CROSS_CHECKED", available)

    if available:
        assert "lab" in load_policy(tmp_path, known).sql
    else:
        with pytest.raises(PolicyError, match="pglast"):
            load_policy(tmp_path, known)
