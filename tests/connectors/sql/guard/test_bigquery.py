"""BigQuery against the guard: what runs in place of a statement, and texts that both parsers could read differently.

No Google account takes part.
"""

from __future__ import annotations

import pytest

from tests.connectors.sql.guard.bigquery_lab import HONEST, judged
from toolgen.model.call import Statement
from toolgen.model.database import Column, Database, Table
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.verdict import Deny

_RUN: tuple[tuple[str, str], ...] = (
    ("SELECT * FROM customers", "SELECT `customers`.`id`, `customers`.`name`, `customers`.`country` FROM (SELECT `id`, `name`, `country` "
     "FROM `customers`) AS `customers` LIMIT 100"),
    ("SELECT `customers`.`id` FROM `shop.customers`",
     "SELECT `customers`.`id` FROM (SELECT `id` FROM `customers`) AS `customers` LIMIT 100"),
    ("SELECT body FROM tickets", "SELECT `body` FROM (SELECT `body` FROM `tickets` WHERE (`tenant` = ?)) AS `tickets` LIMIT 100"),
    ("SELECT o.id, t FROM orders o, o.tags AS t",
     "SELECT `o`.`id`, `t` FROM `orders` AS `o` CROSS JOIN UNNEST(`o`.`tags`) AS `t` LIMIT 100"),
    ("SELECT total FROM orders AS shop, shop.orders", ""),
    ("SELECT 'it\\'s', \"a'b\", 'a\\\\b'", "SELECT 'it\\'s', 'a\\'b', 'a\\\\b' LIMIT 100"),
    ("SELECT DATE_TRUNC(made, MONTH), DATE_ADD(made, INTERVAL 1 DAY) FROM orders",
     "SELECT DATE_TRUNC(`made`, MONTH), DATE_ADD(`made`, INTERVAL 1 DAY) FROM `orders` LIMIT 100"),
    ("SELECT id FROM orders UNION ALL SELECT id FROM customers LIMIT 500",
     "SELECT `id` FROM `orders` UNION ALL SELECT `id` FROM (SELECT `id` FROM `customers`) AS `customers` LIMIT 100"),
)  # fmt: skip


@pytest.mark.parametrize(("sql", "wanted"), _RUN)
def test_what_runs_names_only_what_is_open(sql: str, wanted: str) -> None:
    verdict = judged(sql)
    if not wanted:  # the alias has the name of the dataset
        assert isinstance(verdict, Deny)
        return
    assert isinstance(verdict, Statement), verdict
    assert verdict.sql == wanted


REFUSED: tuple[tuple[str, str], ...] = (
    # texts
    ("SELECT 'a''b'", "sql:literal"),
    ("SELECT '''a'''", "sql:literal"),
    ('SELECT """, ssn, """ FROM customers', "sql:literal"),
    ("SELECT r'a\\' , ssn FROM customers -- '", "sql:literal"),
    ("SELECT R'a'", "sql:literal"),
    ("SELECT b'a'", "sql:literal"),
    ("SELECT rb'a'", "sql:literal"),
    ("SELECT 'a\\x27, ssn, \\x27' FROM customers", "sql:literal"),
    ("SELECT 'a\\\nb'", "sql:literal"),
    ("SELECT 'a\nb'", "sql:literal"),
    ("SELECT `id\\`, ssn, `b` FROM customers", "sql:literal"),
    ("SELECT `id``b` FROM customers", "sql:literal"),
    ("SELECT 1 # , ssn\nFROM customers", "sql:character"),
    ("SELECT 1 -- a\r, ssn FROM customers", "sql:character"),
    ("SELECT 1 /* , ssn FROM customers", "sql:comment"),
    ("SELECT @name", "sql:character"),
    ("SELECT @@project_id", "sql:character"),
    ("SELECT @{x = 1} id FROM orders", "sql:character"),
    ("FROM customers |> SELECT id", "sql:character"),
    ("SELECT id FROM orders |> SELECT id", "sql:character"),
    ("SELECT total | 1 FROM orders", "sql:character"),
    ("SELECT é FROM orders", "sql:character"),
    # tables
    ("SELECT * FROM `vault`", "sql:table"),
    ("SELECT * FROM shop.vault", "sql:table"),
    ("SELECT * FROM `shop.vault`", "sql:table"),
    ("SELECT * FROM `lab-project.shop.vault`", "sql:table"),
    ("SELECT * FROM lab-project.shop.vault", "sql:table"),
    ("SELECT * FROM other.orders", "sql:table"),
    ("SELECT * FROM Orders", "sql:table"),
    ("SELECT * FROM `ord*`", "sql:table"),
    ("SELECT * FROM `shop.*`", "sql:table"),
    ("SELECT * FROM `orders$20240101`", "sql:table"),
    ("SELECT * FROM INFORMATION_SCHEMA.TABLES", "sql:table"),
    ("SELECT * FROM `region-eu`.INFORMATION_SCHEMA.JOBS", "sql:table"),
    ("SELECT * FROM `shop.INFORMATION_SCHEMA.COLUMNS`", "sql:table"),
    ("SELECT * FROM [lab-project:shop.vault]", "sql:syntax"),
    ("SELECT * FROM orders@-3600000", "sql:character"),
    ("SELECT * FROM orders FOR SYSTEM_TIME AS OF TIMESTAMP '2024-01-01'", "sql:syntax"),
    ("SELECT * FROM orders TABLESAMPLE SYSTEM (10 PERCENT)", "sql:syntax"),
    ("WITH Orders AS (SELECT 1 AS id) SELECT id FROM orders", "sql:ambiguous"),
    ("SELECT o.id, O.total FROM orders AS o, tickets AS O", "sql:ambiguous"),
    # columns
    ("SELECT ssn FROM customers", "sql:column"),
    ("SELECT SSN FROM customers", "sql:column"),
    ("SELECT `customers.ssn` FROM customers", "sql:column"),
    ("SELECT c.ssn.x FROM customers AS c", "sql:column"),
    ("SELECT id FROM customers JOIN vault USING (id)", "sql:table"),
    ("SELECT id FROM customers ORDER BY ssn", "sql:column"),
    ("SELECT * REPLACE (ssn AS name) FROM customers", "sql:column"),
    ("SELECT _TABLE_SUFFIX FROM customers", "sql:column"),
    ("SELECT _PARTITIONTIME FROM orders", "sql:column"),
    ("SELECT c FROM customers AS c", "sql:whole-row"),
    ("SELECT TO_JSON_STRING(c) FROM customers AS c", "sql:whole-row"),
    ("SELECT c FROM customers AS c, UNNEST([c])", "sql:whole-row"),
    ("SELECT x.ssn FROM (SELECT c FROM customers AS c) AS x", "sql:whole-row"),
    # functions
    ("SELECT SESSION_USER()", "sql:syntax"),
    ("SELECT shop.leak(1)", "sql:function"),
    ("SELECT `shop.leak`(1)", "sql:function"),
    ("SELECT leak(1)", "sql:function"),
    ("SELECT NET.HOST('http://example.com')", "sql:syntax"),
    ("SELECT KEYS.NEW_KEYSET('AEAD_AES_GCM_256')", "sql:function"),
    ("SELECT AEAD.ENCRYPT(b, name, name) FROM customers", "sql:function"),
    ("SELECT SAFE.SUBSTR(name, 1) FROM customers", "sql:syntax"),
    ("SELECT * FROM ML.PREDICT(MODEL shop.m, TABLE customers)", "sql:syntax"),
    ("SELECT * FROM ML.GENERATE_TEXT(MODEL shop.m, (SELECT 1))", "sql:syntax"),
    ("SELECT * FROM EXTERNAL_QUERY('eu.pg', 'SELECT 1')", "sql:function"),
    ("SELECT * FROM APPENDS(TABLE orders)", "sql:syntax"),
    ("SELECT * FROM VECTOR_SEARCH(TABLE orders, 'x', TABLE orders)", "sql:syntax"),
    ("SELECT REPEAT('a', 1000000000)", "sql:syntax"),
    ("SELECT LPAD('a', 1000000000)", "sql:size"),
    ("SELECT GENERATE_ARRAY(1, 1000000000)", "sql:size"),
    ("SELECT x FROM UNNEST(GENERATE_ARRAY(1, 1000 * 1000 * 1000)) AS x", "sql:size"),
    ("SELECT GENERATE_TIMESTAMP_ARRAY(at, at, INTERVAL 1 SECOND) FROM orders", "sql:function"),
    ("SELECT ERROR(name) FROM customers", "sql:function"),
    # forms
    ("SELECT AS STRUCT id FROM orders", "sql:syntax"),
    ("SELECT AS VALUE id FROM orders", "sql:syntax"),
    ("SELECT * FROM orders PIVOT(COUNT(*) FOR status IN ('a'))", "sql:syntax"),
    ("SELECT * FROM orders UNPIVOT(v FOR n IN (status))", "sql:syntax"),
    ("SELECT * FROM orders NATURAL JOIN tickets", "sql:syntax"),
    ("SELECT * FROM orders MATCH_RECOGNIZE (PATTERN (a) DEFINE a AS TRUE)", "sql:syntax"),
    # statements
    ("SELECT 1; SELECT 2", "sql:one-statement"),
    ("CREATE TEMP FUNCTION f(x INT64) AS (x); SELECT f(1)", "sql:one-statement"),
    ("CREATE TEMP FUNCTION f(x INT64) RETURNS INT64 LANGUAGE js AS 'return x'", "sql:not-a-query"),
    ("DECLARE x INT64 DEFAULT 1", "sql:not-a-query"),
    ("BEGIN SELECT 1; END", "sql:one-statement"),
    ("EXECUTE IMMEDIATE 'SELECT 1'", "sql:not-a-query"),
    ("EXPORT DATA OPTIONS(uri='gs://b/*') AS SELECT 1", "sql:not-a-query"),
    ("LOAD DATA INTO shop.t FROM FILES (uris = ['gs://b/x'])", "sql:not-a-query"),
    ("CALL BQ.ABORT_SESSION()", "sql:not-a-query"),
    ("ASSERT 1 = 1", "sql:not-a-query"),
    ("GRANT `roles/bigquery.dataOwner` ON SCHEMA shop TO 'user:a@example.com'", "sql:not-a-query"),
    ("MERGE orders USING tickets ON FALSE WHEN NOT MATCHED THEN INSERT ROW", "sql:not-a-query"),
    ("DELETE FROM orders WHERE TRUE", "sql:not-a-query"),
)  # fmt: skip


@pytest.mark.parametrize(("sql", "rule"), REFUSED)
def test_what_is_hidden_or_could_be_read_differently_is_refused(sql: str, rule: str) -> None:
    verdict = judged(sql)
    assert isinstance(verdict, Deny), verdict.sql
    assert verdict.rule == rule
    assert verdict.suggestion


def test_honest_statements_run() -> None:
    refused = {sql: verdict.reason for sql, _ in HONEST if isinstance(verdict := judged(sql), Deny)}
    assert refused == {}


def test_a_name_of_a_column_is_compared_without_its_case_and_a_table_with_it() -> None:
    assert isinstance(judged("SELECT ID, Name FROM customers"), Statement)
    assert isinstance(judged("SELECT id FROM CUSTOMERS"), Deny)


def test_a_function_of_the_dataset_is_not_taken_for_one_of_the_engine() -> None:
    table = Table(name="t", columns=(Column(name="a", type="STRING"),))
    known = Database(dialect="bigquery", name="shop", tables=(table,), functions=("upper",))
    verdict = judged("SELECT UPPER(a) FROM t", database=known, scope=SqlScope(tables={"t": TableScope()}))
    assert isinstance(verdict, Deny)
    assert verdict.rule == "sql:function"


@pytest.mark.parametrize("name", ["a`b", "a\\b", "a.b"])
def test_a_name_that_would_end_its_quotes_is_not_written(name: str) -> None:
    table = Table(name="t", columns=(Column(name=name, type="STRING"), Column(name="id", type="INT64")))
    known = Database(dialect="bigquery", name="shop", tables=(table,))
    assert isinstance(judged("SELECT * FROM t", database=known, scope=SqlScope(tables={"t": TableScope()})), Deny)
