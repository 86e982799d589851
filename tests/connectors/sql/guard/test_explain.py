"""A plan is shown of what a principal sees whole, and of nothing else: it would tell of rows, filters and what views are made of."""

from __future__ import annotations

import pytest

from tests.connectors.sql.guard.lab import DATABASE, SCOPE, judge
from toolgen.connectors.sql.guard.plan_disclosure import explainable
from toolgen.model.call import Statement
from toolgen.model.verdict import Deny

SHOWN = [
    "SELECT id FROM orders WHERE total > 5",
    "SELECT c.name, o.total FROM customers c JOIN orders o ON o.customer_id = c.id",
    "SELECT 1",
]
WITHHELD = [
    ("SELECT id FROM tickets", "tickets is seen in part"),
    ("SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM tickets)", "tickets is seen in part"),
    ("WITH t AS (SELECT id FROM TICKETS) SELECT * FROM t", "tickets is seen in part"),
    ("SELECT name FROM germans", "germans is a view"),
]


@pytest.mark.parametrize("sql", SHOWN)
def test_the_plan_of_whole_tables_is_shown(sql: str) -> None:
    assert isinstance(explainable(judge(sql), database=DATABASE, scope=SCOPE), Statement)


@pytest.mark.parametrize(("sql", "reason"), WITHHELD)
def test_the_plan_of_a_view_or_a_filtered_table_is_refused(sql: str, reason: str) -> None:
    verdict = explainable(judge(sql), database=DATABASE, scope=SCOPE)

    assert isinstance(verdict, Deny)
    assert (verdict.rule, verdict.code) == ("sql:explain", "sql_refused")
    assert verdict.reason.startswith(reason)
    assert verdict.suggestion


def test_what_the_guard_refuses_has_no_plan_either() -> None:
    verdict = explainable(judge("SELECT ssn FROM customers"), database=DATABASE, scope=SCOPE)

    assert isinstance(verdict, Deny)
    assert verdict.rule == "sql:column"
