"""Tests behind tests in MySQL (`a LIKE b NOT IN (c)`), which it reads from the right and the parser from the left: refused."""

from __future__ import annotations

import pytest

from tests.connectors.sql.guard.lab import allowed, refused

CHAINED = [
    "SELECT 'a' LIKE 'a' NOT IN (0, 2)",
    "SELECT 'a' NOT LIKE 'a' NOT IN (0, 2)",
    "SELECT 'a' LIKE 'a' IN (0, 2)",
    "SELECT 'a' REGEXP 'a' IN (0, 2)",
    "SELECT 'a' LIKE 'a' NOT BETWEEN 0 AND 2",
    "SELECT id IN (1) LIKE '1' FROM orders",
    "SELECT id FROM orders WHERE id BETWEEN 1 AND 2 IN (1)",
    "SELECT id FROM orders WHERE (status LIKE 'a' RLIKE 'b')",
]
PLAIN = [
    "SELECT id FROM orders WHERE status LIKE 'a' AND id IN (1, 2) AND id BETWEEN 1 AND 2 AND status NOT LIKE 'b'",
    "SELECT CASE WHEN status LIKE 'a' THEN 1 WHEN id IN (1) THEN 2 ELSE id IN (3) END FROM orders",
    "SELECT id BETWEEN 1 AND 2 OR id IN (3), status LIKE 'a' FROM orders",
    "SELECT id FROM orders WHERE (status LIKE 'a') IN (0) AND id IN (SELECT id FROM orders WHERE id BETWEEN 1 AND 3)",
    "SELECT id FROM orders WHERE status LIKE 'a%' ESCAPE '!' OR id IN (1)",
    "SELECT id FROM orders WHERE status LIKE 'a' = (id IN (1)) ORDER BY id IN (2), status LIKE 'b'",
]


@pytest.mark.parametrize("statement", CHAINED)
def test_a_test_behind_a_test_is_refused_with_what_to_write(statement: str) -> None:
    verdict = refused(statement, dialect="mysql")
    assert (verdict.rule, verdict.suggestion.partition(": ")[2]) == ("sql:syntax", "(a LIKE b) NOT IN (0, 1)")


@pytest.mark.parametrize("statement", PLAIN)
def test_tests_that_stand_apart_are_taken(statement: str) -> None:
    allowed(statement, dialect="mysql")
