"""Operators of PostgreSQL between shapes, addresses and searches: listed ones alone, on columns that may be read."""

from __future__ import annotations

import pytest

from tests.connectors.sql.guard.lab import allowed, refused


@pytest.mark.parametrize("sign", ["<->", "~=", "<<|", "|>>", "&<|", "|&>", "<^", ">^", "<<=", ">>="])
def test_a_listed_operator_is_sent_as_it_was_written(sign: str) -> None:
    for between in (f" {sign} ", sign):
        statement = allowed(f"SELECT id FROM customers WHERE name{between}country", dialect="postgres")
        assert f'."name" {sign} ' in statement.sql or f"name {sign} " in statement.sql
    refused(f"SELECT id FROM customers WHERE ssn {sign} name", dialect="postgres")
    refused(f"SELECT id FROM customers WHERE name {sign} (SELECT password FROM users_secret)", dialect="postgres")


@pytest.mark.parametrize(
    "condition",
    [
        "name < <-> country",
        "name <- > country",
        "name OPERATOR(pg_catalog.~) country",
        "name OPERATOR(@@@) country",
        "name OPERATOR(lab.<->) country",
        "name @@@ country",
        "name ## country",
        "name ?# country",
        "name <#> country",
        "name <=> country",
    ],
)
def test_another_operator_is_refused(condition: str) -> None:
    refused(f"SELECT id FROM customers WHERE {condition}", dialect="postgres")


@pytest.mark.parametrize(
    "search",
    [
        "!!to_tsquery('a')",
        "!! to_tsquery('a') && to_tsquery('b')",
        "to_tsquery('b') && !!(to_tsquery('a') || 'c'::tsquery)",
        "!!'a & b'::tsquery",
        "!!(!!plainto_tsquery('a'))",
        "!!(to_tsquery('a') <-> to_tsquery('b'))",
    ],
)
def test_a_search_is_negated(search: str) -> None:
    allowed(f"SELECT id FROM customers WHERE to_tsvector(name) @@ ({search})", dialect="postgres")


@pytest.mark.parametrize(
    "value", ["!! 100000", "!!id", "!!(id)", "!!'9'", "!!numnode(to_tsquery('a'))", "! !to_tsquery('a')", "!true"]
)
def test_a_factorial_is_no_search(value: str) -> None:
    refused(f"SELECT {value} FROM customers", dialect="postgres")


@pytest.mark.parametrize("kind", ["box", "circle", "line", "lseg", "point"])
def test_shapes_of_a_fixed_size_are_types(kind: str) -> None:
    allowed(f"SELECT {kind} '(0,0),(1,1)', '1'::{kind}, CAST(name AS {kind}) FROM customers", dialect="postgres")
    refused(f"SELECT CAST(ssn AS {kind}) FROM customers", dialect="postgres")


@pytest.mark.parametrize("kind", ["path", "polygon", "geometry", "regclass", "oidvector"])
def test_shapes_of_any_size_and_other_types_are_not(kind: str) -> None:
    refused(f"SELECT CAST(name AS {kind}) FROM customers", dialect="postgres")
    refused(f"SELECT name::{kind} FROM customers", dialect="postgres")


def test_recursion_clauses_name_columns_of_their_query_alone() -> None:
    query = "WITH RECURSIVE t(a, b) AS (SELECT id, name FROM customers UNION ALL SELECT a, b FROM t)"
    for clause in (
        "CYCLE a, b SET c USING d",
        "CYCLE a, b SET c TO 'y' DEFAULT 'n' USING d",
        "CYCLE a SET c TO true DEFAULT false USING d",
        "SEARCH DEPTH FIRST BY a, b SET c",
        "SEARCH DEPTH FIRST BY b, a SET c CYCLE b, a SET d USING e",
    ):
        assert (
            clause.replace(",", "").split()[0]
            in allowed(f"{query} {clause} SELECT a, c FROM t", dialect="postgres").sql
        )
    for clause in (
        "CYCLE a, ssn SET c USING d",
        "CYCLE a, b SET c TO (SELECT max(password) FROM users_secret) DEFAULT '' USING d",
        "CYCLE a SET c TO 'y' DEFAULT (SELECT max(password) FROM users_secret) USING d",
        "CYCLE a, (SELECT 1) SET c USING d",
        "SEARCH DEPTH FIRST BY a, ssn SET c",
        "CYCLE a, b SET c",
    ):
        refused(f"{query} {clause} SELECT a, b FROM t, users_secret", dialect="postgres")
    restricted = "WITH RECURSIVE t AS (SELECT id, name FROM customers UNION SELECT id, name FROM t) CYCLE {} RESTRICT SELECT id FROM t"
    allowed(restricted.format("id, name"), dialect="mysql")
    allowed(restricted.format("id"), dialect="mysql")
    refused(restricted.format("id, ssn"), dialect="mysql")
