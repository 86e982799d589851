"""Statements that change a table: what the policy opens runs as narrowly as it says, and everything else is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.connectors.sql.guard.engines import TRANSACTIONAL
from tests.connectors.sql.guard.lab import ATTRIBUTES, database, write
from toolgen.connectors.sql.guard.changes import guard_change
from toolgen.model.call import Statement
from toolgen.model.database import Column, Database, Table
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.verdict import Deny

ALL = frozenset({"insert", "update", "delete"})
SCOPE = SqlScope(
    tables={
        "customers": TableScope(columns=("id", "name", "country"), writes=frozenset({"update"}), writable=("name",)),
        "orders": TableScope(writes=ALL),
        "tickets": TableScope(rows="tenant = :tenant", writes=ALL),
        "germans": TableScope(writes=ALL),
        "users_secret": TableScope(),
    },
    max_changes=2,
)


def judge(sql: str, *parameters: object, dialect: str = "sqlite", scope: SqlScope = SCOPE) -> Statement | Deny:
    return guard_change(
        sql,
        list(parameters),  # type: ignore[arg-type]
        database=database(dialect),
        scope=scope,
        attributes=ATTRIBUTES,
    )


def allowed(sql: str, *parameters: object, dialect: str = "sqlite") -> Statement:
    verdict = judge(sql, *parameters, dialect=dialect)
    assert isinstance(verdict, Statement), f"{sql}: {verdict}"
    return verdict


REWRITTEN = [
    (
        "sqlite",
        "update orders set status = ?, total = total * 2 where id = ?",
        ["paid", 3],
        'UPDATE "main"."orders" SET status = ?, total = total * 2 WHERE id = ?',
        ["paid", 3],
    ),
    ("postgres", "DELETE FROM orders WHERE id = $1;", [3], 'DELETE FROM "public"."orders" WHERE id = $1', [3]),
    ("mysql", "DELETE FROM orders WHERE orders.id = %s", [3], "DELETE FROM `orders` WHERE orders.id = ?", [3]),
    (
        "duckdb",
        "INSERT INTO orders (id, status) VALUES (1, 'new'), (2, upper('new'))",
        [],
        'INSERT INTO "main"."orders" ("id", "status") VALUES (1, \'new\'), (2, upper(\'new\'))',
        [],
    ),
    (
        "sqlite",
        "DELETE FROM tickets WHERE id = 1 OR 1 = 1",
        [],
        'DELETE FROM "main"."tickets" WHERE (tenant = ?1) AND CASE WHEN (tenant = ?1) THEN id = 1 OR 1 = 1 END',
        ["acme"],
    ),
    (
        "postgres",
        "UPDATE tickets SET body = $2 WHERE id = $1",
        [1, "x"],
        'UPDATE "public"."tickets" SET body = $1 WHERE (tenant = $2) AND CASE WHEN (tenant = $2) THEN id = $3 END',
        ["x", "acme", 1],
    ),
    (
        "sqlite",
        "INSERT INTO tickets (id, body) VALUES (?, ?)",
        [9, "help"],
        'INSERT INTO "main"."tickets" ("id", "body", "tenant") VALUES (?, ?, ?)',
        [9, "help", "acme"],
    ),
    (
        "postgres",
        "INSERT INTO tickets (id, body) VALUES ($1, 'a'), ($2, 'b')",
        [8, 9],
        'INSERT INTO "public"."tickets" ("id", "body", "tenant") VALUES ($1, \'a\', $2), ($3, \'b\', $2)',
        [8, "acme", 9],
    ),
    (
        "postgres",
        "UPDATE customers SET name = 'x' WHERE country = 'DE'",
        [],
        "UPDATE \"public\".\"customers\" SET name = 'x' WHERE country = 'DE'",
        [],
    ),
]


@pytest.mark.parametrize(("dialect", "sql", "sent", "rendered", "bound"), REWRITTEN)
def test_what_runs_is_written_out_from_the_tree(
    dialect: str, sql: str, sent: list[object], rendered: str, bound: list[object]
) -> None:
    statement = allowed(sql, *sent, dialect=dialect)

    assert statement.sql == rendered
    assert list(statement.parameters) == bound
    assert statement.writes == sql.split(maxsplit=1)[0].lower()
    assert statement.max_changes == 2
    assert len(statement.tables) == 1


REFUSED = [
    ("UPDATE orders SET total = 0", "where"),
    ("DELETE FROM orders", "where"),
    ("DELETE FROM users_secret WHERE id = 1", "table"),
    ("DELETE FROM canary WHERE id = 1", "table"),
    ("DELETE FROM customers WHERE id = 1", "table"),
    ("INSERT INTO customers (id) VALUES (1)", "table"),
    ("DELETE FROM germans WHERE id = 1", "table"),
    ("UPDATE customers SET country = 'x' WHERE id = 1", "column"),
    ("UPDATE customers SET ssn = 'x' WHERE id = 1", "column"),
    ("UPDATE customers SET name = ssn WHERE id = 1", "column"),
    ("UPDATE customers SET name = 'x' WHERE ssn LIKE '1%'", "column"),
    ("UPDATE tickets SET tenant = 'other' WHERE id = 1", "column"),
    ("UPDATE tickets SET id = 1, id = 2 WHERE id = 1", "column"),
    ("INSERT INTO tickets (id, tenant) VALUES (1, 'other')", "column"),
    ("INSERT INTO orders VALUES (1, 2, 'new', 3, 4, 5)", "syntax"),
    ("INSERT INTO orders (id) SELECT id FROM orders", "syntax"),
    ("INSERT INTO orders (id) VALUES ((SELECT max(id) FROM users_secret))", "syntax"),
    ("INSERT INTO orders (id) VALUES (id)", "column"),
    ("INSERT INTO orders (id, status) VALUES (1)", "syntax"),
    ("INSERT INTO orders (id, id) VALUES (1, 2)", "column"),
    ("INSERT INTO orders (id) VALUES (1), (2), (3)", "changes"),
    ("INSERT INTO orders (id) VALUES (1) RETURNING *", "syntax"),
    ("INSERT INTO orders (id) VALUES (1) ON CONFLICT DO NOTHING", "syntax"),
    ("INSERT OR REPLACE INTO orders (id) VALUES (1)", "syntax"),
    ("INSERT INTO orders AS o (id) VALUES (1)", "syntax"),
    ("UPDATE orders SET total = (SELECT password FROM users_secret) WHERE id = 1", "syntax"),
    ("UPDATE orders SET total = 1 WHERE id IN (SELECT id FROM users_secret)", "syntax"),
    ("UPDATE orders SET total = 1 WHERE EXISTS (SELECT 1 FROM users_secret)", "syntax"),
    ("UPDATE orders SET total = 1 FROM users_secret WHERE orders.id = users_secret.id", "syntax"),
    ("UPDATE orders AS o SET total = 1 WHERE o.id = 1", "syntax"),
    ("UPDATE orders SET (total, status) = (1, 2) WHERE id = 1", "syntax"),
    ("UPDATE orders SET main.orders.total = 1 WHERE id = 1", "syntax"),
    ("UPDATE orders SET total = 1 WHERE id = 1 RETURNING *", "syntax"),
    ("UPDATE orders SET total = load_extension('x') WHERE id = 1", "function"),
    ("WITH x AS (SELECT 1) DELETE FROM orders WHERE id = 1", "not-a-change"),
    ("DELETE FROM orders WHERE id = 1; DELETE FROM orders WHERE id = 2", "one-statement"),
    ("DROP TABLE orders", "not-a-change"),
    ("SELECT 1", "not-a-change"),
    ("REPLACE INTO orders (id) VALUES (1)", "not-a-change"),
    ("MERGE INTO orders USING customers ON 1 WHEN MATCHED THEN DELETE", "not-a-change"),
    ("TRUNCATE orders", "not-a-change"),
    ("UPDATE main.canary SET n = 1 WHERE id = 1", "table"),
    ("UPDATE temp.orders SET total = 1 WHERE id = 1", "table"),
    ("", "one-statement"),
]


@pytest.mark.parametrize(("sql", "rule"), REFUSED)
def test_what_the_policy_does_not_open_is_refused(sql: str, rule: str) -> None:
    verdict = judge(sql)

    assert isinstance(verdict, Deny), verdict
    assert verdict.rule == f"sql:{rule}", verdict
    assert verdict.suggestion


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("mysql", "INSERT IGNORE INTO orders (id) VALUES (1)"),
        ("mysql", "INSERT INTO orders (id) VALUES (1) ON DUPLICATE KEY UPDATE status = 'x'"),
        ("mysql", "DELETE orders FROM orders JOIN users_secret ON 1 WHERE orders.id = 1"),
        ("mysql", "UPDATE orders, users_secret SET orders.total = 1 WHERE orders.id = 1"),
        ("mysql", "UPDATE orders SET total = 1 WHERE id = 1 ORDER BY id LIMIT 1"),
        ("mysql", "UPDATE orders SET total = 1 WHERE id = @x := 1"),
        ("postgres", "UPDATE ONLY orders SET total = 1 WHERE id = 1"),
        ("postgres", "DELETE FROM orders USING users_secret WHERE orders.id = users_secret.id"),
        ("postgres", "DELETE FROM hr.orders WHERE iban = 'x'"),
        ("postgres", "UPDATE orders SET total = pg_sleep(1) WHERE id = 1"),
        ("postgres", "UPDATE orders SET detail['a'] = '1' WHERE id = 1"),
        ("postgres", "DELETE FROM orders WHERE orders IS NOT NULL"),
        ("postgres", "INSERT INTO orders (id) OVERRIDING SYSTEM VALUE VALUES (1)"),
        ("postgres", "INSERT INTO orders (id) TABLE users_secret"),
        ("duckdb", "INSERT INTO orders BY NAME SELECT 1 AS id"),
        ("duckdb", "DELETE FROM orders WHERE id IN (FROM read_csv('/etc/passwd'))"),
    ],
)
def test_what_only_one_dialect_has_is_refused(dialect: str, sql: str) -> None:
    assert isinstance(judge(sql, dialect=dialect), Deny)


@pytest.mark.parametrize("dialect", TRANSACTIONAL)
def test_a_filter_that_says_no_value_allows_no_new_row(dialect: str) -> None:
    for rows in ("tenant = :tenant OR body = 'x'", "tenant <> :tenant", "tenant = lower(:tenant)", "tenant LIKE 'a%'"):
        scope = SqlScope(tables={"tickets": TableScope(rows=rows, writes=ALL)})
        verdict = judge("INSERT INTO tickets (id) VALUES (1)", dialect=dialect, scope=scope)
        assert isinstance(verdict, Deny)
        assert verdict.rule == "sql:row-filter"


def test_a_filter_of_two_values_sets_both() -> None:
    scope = SqlScope(tables={"tickets": TableScope(rows="tenant = :tenant AND body = 'draft'", writes=ALL)})

    verdict = judge("INSERT INTO tickets (id) VALUES (?)", 7, scope=scope)

    assert isinstance(verdict, Statement)
    assert verdict.sql == 'INSERT INTO "main"."tickets" ("id", "tenant", "body") VALUES (?, ?, \'draft\')'
    assert verdict.parameters == (7, "acme")


def test_a_masked_column_is_neither_asked_nor_set() -> None:
    scope = SqlScope(tables={"customers": TableScope(writes=ALL, masks={"ssn": "***"})})

    for sql in ("UPDATE customers SET name = 'x' WHERE ssn = '1'", "UPDATE customers SET ssn = 'x' WHERE id = 1"):
        assert isinstance(judge(sql, scope=scope), Deny)


@pytest.mark.parametrize("dialect", TRANSACTIONAL)
def test_a_filter_by_a_column_that_is_computed_lets_rows_be_deleted_alone(dialect: str) -> None:
    columns = (
        Column(name="id", type="int"),
        Column(name="who", type="text", computed=True),
        Column(name="n", type="int"),
    )
    made = Database(dialect=dialect, tables=(Table(name="t", columns=columns, primary_key=("id",)),))

    def rule(sql: str, rows: str) -> str:
        scope = SqlScope(tables={"t": TableScope(rows=rows, writes=ALL)})
        verdict = guard_change(sql, [], database=made, scope=scope, attributes=ATTRIBUTES)
        return verdict.rule if isinstance(verdict, Deny) else ""

    for change in ("UPDATE t SET n = 1 WHERE id = 1", "INSERT INTO t (id) VALUES (1)"):
        assert rule(change, "who = :tenant") == "sql:row-filter"
    assert rule("DELETE FROM t WHERE id = 1", "who = :tenant") == ""
    assert rule("UPDATE t SET n = 1 WHERE id = 1", "id = 1") == ""
    assert rule("INSERT INTO t (n) VALUES (1)", "id = 1") == ""


KEYED = Database(
    dialect="mysql",
    tables=(
        Table(
            name="t",
            columns=(
                Column(name="id", type="int(11)"),
                Column(name="n", type="int(11)"),
                Column(name="who", type="text"),
            ),
            primary_key=("id",),
        ),
    ),
)


@pytest.mark.parametrize(
    ("where", "rendered"),
    [
        ("id = 1", "(id = 1) AND (who = ?)"),
        ("id = ? AND 1 / n > 2", "(id = ?) AND (who = ?) AND CASE WHEN (who = ?) THEN 1 / n > 2 END"),
        ("id IN (1, ?) AND n = 2", "(id IN (1, ?)) AND (who = ?) AND CASE WHEN (who = ?) THEN n = 2 END"),
        ("id IN (1, n)", "(who = ?) AND CASE WHEN (who = ?) THEN id IN (1, n) END"),
        ("id = 1 OR n = 2", "(who = ?) AND CASE WHEN (who = ?) THEN id = 1 OR n = 2 END"),
        ("NOT id = 1", "(who = ?) AND CASE WHEN (who = ?) THEN NOT id = 1 END"),
        ("id = 1.0", "(who = ?) AND CASE WHEN (who = ?) THEN id = 1.0 END"),
        ("id = '1'", "(who = ?) AND CASE WHEN (who = ?) THEN id = '1' END"),
        ("n = 1", "(who = ?) AND CASE WHEN (who = ?) THEN n = 1 END"),
    ],
)
def test_only_a_key_compared_with_values_is_asked_before_the_row_filter(where: str, rendered: str) -> None:
    scope = SqlScope(tables={"t": TableScope(rows="who = :tenant", writes=ALL)})

    verdict = guard_change(
        f"DELETE FROM t WHERE {where}",
        [7] * where.count("?"),
        database=KEYED,
        scope=scope,
        attributes=ATTRIBUTES,
    )

    assert isinstance(verdict, Statement), verdict
    assert verdict.sql == f"DELETE FROM `t` WHERE {rendered}"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(write(tmp_path / "lab.db"))) as connection:
        yield connection


def test_what_was_rendered_changes_the_rows_it_means_and_no_other(lab: sqlite3.Connection) -> None:
    before = dict(lab.execute("SELECT id, body FROM tickets WHERE tenant <> 'acme'"))
    for sql, sent in (
        ("UPDATE tickets SET body = 'seen' WHERE id > ?", [0]),
        ("INSERT INTO tickets (id, body) VALUES (?, 'new')", [900]),
    ):
        statement = allowed(sql, *sent)
        lab.execute(statement.sql, statement.parameters)

    assert dict(lab.execute("SELECT id, body FROM tickets WHERE tenant <> 'acme'")) == before
    assert {body for (body,) in lab.execute("SELECT body FROM tickets WHERE tenant = 'acme'")} == {"seen", "new"}


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("postgres", "UPDATE orders SET status = replace(repeat(status, 1000), $1, 'x') WHERE id = 1"),
        ("postgres", "DELETE FROM orders WHERE repeat(detail, 1000) LIKE '%' || $1"),
        ("mysql", "UPDATE orders SET status = 'x' WHERE LOCATE(?, repeat(detail, 1000)) > 0"),
    ],
)
def test_what_a_change_searches_for_costs_what_it_does_in_a_query(dialect: str, sql: str) -> None:
    refused = judge(sql, "a" * 1_001, dialect=dialect)

    assert isinstance(refused, Deny)
    assert refused.rule == "sql:size"
    assert isinstance(judge(sql, "a", dialect=dialect), Statement)
