"""Snowflake against the guard: texts that the engine and the parser could read differently, and what runs on the emulator.

No account of Snowflake took part: the emulator parses with SQLGlot too, so it proves values and rows, and not how Snowflake reads a text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from typing import Any, Final

import pytest

from tests.connectors.sql.guard.attack_forms import attack_forms
from tests.connectors.sql.guard.lab import ATTRIBUTES, database, judge
from tests.databases import SnowflakeLab, snowflake_database
from tests.exhaustive import part
from toolgen.connectors.secrets import Secret, SecretResolver
from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.engines import location_of
from toolgen.connectors.sql.execution.server_address import Reach
from toolgen.connectors.sql.execution.snowflake import statement_of
from toolgen.connectors.sql.execution.snowflake_api import ApiConnection, FailedStatementError, connect
from toolgen.connectors.sql.execution.snowflake_values import cell
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement
from toolgen.model.database import Column, Database, Table
from toolgen.model.database_url import ServerLocation
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.verdict import Deny

_EVERY: Final = 97  # attack in the default run on the emulator
_CANARY: Final = "CANARY-7"
_TABLES: Final = (
    "CREATE TABLE customers (id INTEGER, name VARCHAR, country VARCHAR, ssn VARCHAR)",
    'CREATE TABLE orders (id INTEGER, customer_id INTEGER, status VARCHAR, total INTEGER, "ORDER" INTEGER, detail VARCHAR)',
    "CREATE TABLE tickets (id INTEGER, tenant VARCHAR, body VARCHAR)",
    "CREATE TABLE users_secret (id INTEGER, password VARCHAR)",
    "CREATE TABLE canary (id INTEGER, n INTEGER)",
)
_ROWS: Final = (
    f"INSERT INTO customers VALUES (1, 'Ann', 'DE', '{_CANARY}'), (2, 'Bo', 'FR', '{_CANARY}'), (3, 'Cy', NULL, '{_CANARY}')",
    "INSERT INTO orders VALUES (1, 1, 'open', 5, 1, 'x'), (2, 2, 'paid', 7, 2, 'y'), (3, 1, 'paid', 9, 3, NULL)",
    f"INSERT INTO tickets VALUES (1, 'acme', 'ours'), (2, 'other', '{_CANARY}')",
    f"INSERT INTO users_secret VALUES (1, '{_CANARY}')",
    "INSERT INTO canary VALUES (1, 0)",
)
_VIEWS: Final = (
    "CREATE VIEW germans AS SELECT id, name FROM customers WHERE country = 'DE'",
    "CREATE VIEW all_secrets AS SELECT id, password FROM users_secret",
)


@pytest.fixture(scope="module", name="lab")
def _lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SnowflakeLab]:
    with snowflake_database(tmp_path_factory.mktemp("snow"), *_TABLES, *_ROWS, *_VIEWS) as lab:
        yield lab


async def _with_connection(lab: SnowflakeLab, work: Callable[[ApiConnection], Any]) -> Any:
    location = location_of(lab.location)
    assert isinstance(location, ServerLocation)
    reach = Reach(password=None, secrets=SecretResolver(), permit=None)
    connection = await connect(location, reach, Secret(lab.key))
    try:
        return await work(connection)
    finally:
        await connection.close()


async def _rows(connection: ApiConnection, statement: Statement) -> list[list[object]]:
    columns, rows = await connection.execute(statement_of(statement))
    return [[_plain(cell(text, column)) for text, column in zip(row, columns, strict=True)] async for row in rows]


def _plain(value: object) -> object:
    return float(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("SELECT $$a$$ FROM customers", "sql:character"),
        ("SELECT $1 FROM customers", "sql:character"),
        ("SELECT customers.$4 FROM customers", "sql:character"),
        ("SELECT $secret", "sql:character"),
        ("SELECT SYSTEM$WAIT(10)", "sql:character"),
        ("SELECT METADATA$FILENAME FROM customers", "sql:character"),
        ("SELECT * FROM @stage", "sql:character"),
        ("SELECT * FROM @~/file.csv", "sql:character"),
        ("SELECT detail:a FROM orders", "sql:character"),
        ("SELECT detail:a.b::VARCHAR FROM orders", "sql:character"),
        ('SELECT "DETAIL":a FROM orders', "sql:character"),
        ("SELECT (detail):a FROM orders", "sql:character"),
        ("SELECT detail['a'] FROM orders", "sql:character"),
        ("SELECT [1, 2]", "sql:character"),
        ("SELECT {'a': 1}", "sql:character"),
        ("SELECT {* EXCLUDE id} FROM orders", "sql:character"),
        ("SELECT 1 ->> SELECT 2", "sql:character"),
        ("SHOW TABLES ->> SELECT * FROM $1", "sql:character"),
        ("SELECT FILTER(x, y -> y > 1)", "sql:character"),
        ("SELECT id # ssn\nFROM customers", "sql:character"),
        ("SELECT id ^ 2 FROM customers", "sql:character"),
        ("SELECT id & 2 FROM customers", "sql:character"),
        ("SELECT `id` FROM customers", "sql:character"),
        ("SELECT “id” FROM customers", "sql:character"),
        ("SELECT caf\u00e9 FROM customers", "sql:character"),
        ("SELECT id\\ FROM customers", "sql:character"),
        ("SELECT 'a\\', ssn, 'b' FROM customers", "sql:literal"),
        ("SELECT 'a\\'' || ssn || '' FROM customers", "sql:literal"),
        ("SELECT 'a\\x27' FROM customers", "sql:literal"),
        ("SELECT 'a\\\\' FROM customers", "sql:literal"),
        ("SELECT 'a", "sql:literal"),
        ('SELECT "ID""X" FROM customers', "sql:literal"),
        ('SELECT "ID\\" FROM customers', "sql:literal"),
        ("SELECT id // , ssn\nFROM customers", "sql:comment"),
        ("SELECT id FROM customers //", "sql:comment"),
        ("SELECT 1 /* /* */ , ssn FROM customers -- */", "sql:comment"),
        ("SELECT 1 /* , ssn FROM customers", "sql:comment"),
    ],
)
def test_a_text_that_both_could_read_differently_is_refused(sql: str, rule: str) -> None:
    verdict = judge(sql, dialect="snowflake")
    assert isinstance(verdict, Deny)
    assert verdict.rule == rule


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT detail :a FROM orders",
        "SELECT * FROM TABLE(RESULT_SCAN(LAST_QUERY_ID()))",
        "SELECT * FROM TABLE(FLATTEN(INPUT => detail))",
        "SELECT * FROM TABLE(GENERATOR(ROWCOUNT => 1000000))",
        "SELECT * FROM TABLE('users_secret')",
        "SELECT * FROM 'users_secret'",
        "SELECT * FROM IDENTIFIER('users_secret')",
        "SELECT IDENTIFIER('ssn') FROM customers",
        "SELECT f.value FROM orders, LATERAL FLATTEN(INPUT => detail) AS f",
        "SELECT * FROM orders AT (OFFSET => -60)",
        "SELECT * FROM orders BEFORE (STATEMENT => 'x')",
        "SELECT * FROM orders CHANGES (INFORMATION => DEFAULT) AT (OFFSET => -60)",
        "SELECT * FROM orders SAMPLE (10)",
        "SELECT * FROM orders PIVOT (SUM(total) FOR status IN ('open'))",
        "SELECT id FROM orders START WITH id = 1 CONNECT BY PRIOR id = total",
        "SELECT * FROM INFORMATION_SCHEMA.TABLES",
        "SELECT * FROM SNOWFLAKE.ACCOUNT_USAGE.USERS",
        "SELECT * FROM LAB.PUBLIC.ORDERS",
        "SELECT * FROM LAB..ORDERS",
        "SELECT CURRENT_USER()",
        "SELECT CURRENT_ROLE()",
        "SELECT LAST_QUERY_ID()",
        "SELECT GETVARIABLE('x')",
        "SELECT GET_DDL('table', 'customers')",
        "SELECT SNOWFLAKE.CORTEX.COMPLETE('m', name) FROM customers",
        "SELECT AI_COMPLETE('m', name) FROM customers",
        "SELECT PUBLIC.MY_FUNCTION(name) FROM customers",
        "SELECT OBJECT_CONSTRUCT(*) FROM customers",
        "SELECT HASH(*) FROM customers",
        "SELECT s.NEXTVAL FROM orders s",
        "SELECT * ILIKE '%s%' FROM customers",
        "SELECT * RENAME (id AS x) FROM customers",
        "EXECUTE IMMEDIATE 'SELECT 1'",
        "CALL p()",
        "BEGIN SELECT 1; END",
        "DECLARE x INT; BEGIN RETURN 1; END",
        "WITH p AS PROCEDURE () RETURNS INT LANGUAGE SQL AS 'x' CALL p()",
        "COPY INTO orders FROM (SELECT 1)",
        "SHOW GRANTS",
        "DESCRIBE TABLE customers",
        "USE ROLE ACCOUNTADMIN",
        "SET x = 1",
        "SELECT id INTO x FROM orders",
        "VALUES (1)",
        "SELECT id FROM orders WHERE id = ANY (total)",
        "SELECT id FROM orders WHERE id <> ALL (detail)",
    ],
)
def test_syntax_of_the_engine_that_reads_something_else_is_refused(sql: str) -> None:
    assert isinstance(judge(sql, dialect="snowflake"), Deny)


def test_names_are_folded_to_capital_letters_and_quoted_ones_are_exact() -> None:
    plain = judge("SELECT id, Name FROM Customers AS c", dialect="snowflake")
    assert isinstance(plain, Statement)
    assert plain.sql == 'SELECT "ID", "NAME" FROM (SELECT "ID", "NAME" FROM "PUBLIC"."CUSTOMERS") AS "C" LIMIT 100'
    for sql in ('SELECT "id" FROM customers', 'SELECT id FROM "customers"', 'SELECT id FROM "public".customers'):
        assert isinstance(judge(sql, dialect="snowflake"), Deny)


def test_tables_that_differ_only_in_case_are_two_tables() -> None:
    known = Database(
        dialect="snowflake",
        tables=(
            Table(name="T", columns=(Column(name="ID", type="INT"),)),
            Table(name="t", columns=(Column(name="ID", type="INT"), Column(name="id", type="INT"))),
        ),
    )
    opened = SqlScope(tables={"T": TableScope()}, max_rows=10)
    assert isinstance(guard("SELECT id FROM t", [], database=known, scope=opened, attributes={}), Statement)
    assert isinstance(guard('SELECT id FROM "t"', [], database=known, scope=opened, attributes={}), Deny)
    narrow = SqlScope(tables={"t": TableScope(columns=("ID",))}, max_rows=10)
    assert isinstance(guard('SELECT id FROM "t"', [], database=known, scope=narrow, attributes={}), Statement)
    assert isinstance(guard('SELECT "id" FROM "t"', [], database=known, scope=narrow, attributes={}), Deny)


def test_a_quote_in_a_text_is_doubled_and_a_backslash_of_a_policy_too() -> None:
    verdict = judge("SELECT 'it''s' AS x FROM customers", dialect="snowflake")
    assert isinstance(verdict, Statement)
    assert "'it''s'" in verdict.sql


@pytest.mark.parametrize(
    ("sql", "written"),
    [
        ("SELECT -total::INT AS n FROM orders", '-CAST("TOTAL" AS INT)'),
        ("SELECT total::STRING AS n FROM orders", 'CAST("TOTAL" AS VARCHAR)'),
        ("SELECT DATEADD(day, -7, CURRENT_DATE) AS n FROM orders", "DATEADD('day', -7, CURRENT_DATE)"),
        ("SELECT id FROM orders WHERE id NOT IN (SELECT id FROM customers)", '"ID" <> ALL (SELECT "ID"'),
        ("SELECT id FROM orders WHERE status LIKE ANY ('a%', 'b%')", "\"STATUS\" LIKE ANY ('a%', 'b%')"),
        ("SELECT id FROM orders LIMIT 1000", "LIMIT 100"),
        ("SELECT TOP 5 id FROM orders", "LIMIT 5"),
        ("SELECT id FROM orders FETCH FIRST 3 ROWS ONLY", "LIMIT 3"),
        ("SELECT id FROM orders LIMIT NULL", "LIMIT 100"),
    ],
)
def test_a_statement_is_written_in_one_form(sql: str, written: str) -> None:
    verdict = judge(sql, dialect="snowflake")
    assert isinstance(verdict, Statement)
    assert written in verdict.sql


@pytest.mark.parametrize("name", ['A"B', "A\\B"])
def test_a_name_that_would_end_its_quotes_is_not_written(name: str) -> None:
    known = Database(dialect="snowflake", tables=(Table(name="T", columns=(Column(name=name, type="INT"),)),))
    verdict = guard("SELECT * FROM t", [], database=known, scope=SqlScope(tables={"T": TableScope()}), attributes={})
    assert isinstance(verdict, Deny)


def test_no_function_calls_another_service_or_reads_the_session() -> None:
    listed = RECORDS["snowflake"].functions
    assert not [
        name for name in listed if name.startswith(("ai_", "system", "current_u", "current_r", "get", "last_q", "seq"))
    ]


# The same in SQLite.
_HONEST: Final = (
    "SELECT id, name FROM customers ORDER BY id",
    "SELECT * FROM orders ORDER BY id",
    "SELECT country, count(*) AS n FROM customers WHERE country IS NOT NULL GROUP BY country ORDER BY n DESC, country",
    "SELECT c.name, sum(o.total) AS s FROM customers AS c JOIN orders AS o ON o.customer_id = c.id GROUP BY c.name ORDER BY s",
    "SELECT c.name, o.id FROM customers c LEFT JOIN orders o ON o.customer_id = c.id AND o.status = 'paid' ORDER BY c.id, o.id",
    "WITH big AS (SELECT id, total FROM orders WHERE total > 6) SELECT id FROM big ORDER BY total DESC",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT sum(n) FROM r",
    "SELECT id FROM customers UNION ALL SELECT id FROM orders ORDER BY 1",
    "SELECT id FROM customers UNION SELECT id FROM orders ORDER BY 1",
    "SELECT id FROM customers EXCEPT SELECT id FROM orders WHERE total > 6",
    "SELECT id, row_number() OVER (PARTITION BY status ORDER BY total DESC) AS r FROM orders ORDER BY id",
    "SELECT id, sum(total) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS s FROM orders ORDER BY id",
    "SELECT id, lag(total) OVER (ORDER BY id) AS p FROM orders ORDER BY id",
    "SELECT name FROM customers WHERE country NOT IN ('IT', 'DE') AND id NOT IN (SELECT total FROM orders) ORDER BY id",
    "SELECT name FROM customers WHERE name LIKE 'A%' OR country LIKE '%R' ORDER BY id",
    "SELECT name FROM customers WHERE id IN (SELECT customer_id FROM orders WHERE total BETWEEN 5 AND 6)",
    "SELECT name FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id AND o.total > 6) ORDER BY id",
    "SELECT upper(name), lower(name), length(name), substr(name, 1, 2), trim(name), name || '-' || id FROM customers ORDER BY id",
    "SELECT replace(name, 'A', 'x'), coalesce(country, 'none'), nullif(name, 'Bo') FROM customers ORDER BY id",
    "SELECT CASE WHEN total > 6 THEN 'big' ELSE 'small' END AS size, count(*) FROM orders GROUP BY size ORDER BY size",
    "SELECT CASE status WHEN 'open' THEN 1 ELSE 0 END AS x FROM orders ORDER BY id",
    "SELECT 'it''s', total + 1, total - 1, total * 2, -total, abs(-total), total % 4 FROM orders ORDER BY id",
    "SELECT status, sum(total) AS s FROM orders GROUP BY status HAVING sum(total) > 5 ORDER BY s",
    "SELECT id FROM orders ORDER BY total DESC LIMIT 1 OFFSET 1",
    "SELECT DISTINCT status FROM orders ORDER BY 1",
    "SELECT count(DISTINCT status), min(total), max(total), sum(total), avg(total) FROM orders",
    "SELECT o.id FROM orders o CROSS JOIN customers c WHERE c.id = 1 ORDER BY o.id",
    "SELECT a.id FROM (SELECT id, total FROM orders WHERE total > 5) AS a WHERE a.total < 9 ORDER BY a.id",
    'SELECT "ORDER", "STATUS" FROM orders ORDER BY "ORDER"',
    "SELECT id FROM orders WHERE total = (SELECT max(total) FROM orders)",
    "SELECT id FROM orders WHERE detail IS NULL OR NOT (status = 'open' AND total > 4) ORDER BY id",
    "SELECT country FROM customers ORDER BY country NULLS LAST, id",
    "SELECT CAST(total AS VARCHAR) || 'x', CAST('12' AS INTEGER) + 1 FROM orders ORDER BY id",
    "SELECT round(total / 2.0, 1) FROM orders ORDER BY id",
    "SELECT id, name FROM germans",
    "SELECT count(*), max(body) FROM tickets WHERE tenant = 'acme'",
)
# Of Snowflake alone, with the rows.
_OWN: Final = (
    ("SELECT iff(total > 6, 'big', 'small') AS s FROM orders ORDER BY id", [["small"], ["big"], ["big"]]),
    ("SELECT nvl(country, 'none') AS c FROM customers ORDER BY id", [["DE"], ["FR"], ["none"]]),
    ("SELECT count_if(total > 6) AS n, median(total) AS m FROM orders", [[2, 7.0]]),
    ("SELECT id FROM orders QUALIFY row_number() OVER (PARTITION BY status ORDER BY total DESC) = 1 ORDER BY id", [[1], [3]]),
    ("SELECT id, row_number() OVER (ORDER BY total DESC) AS r FROM orders QUALIFY r = 1", [[3, 1]]),
    ("SELECT listagg(name, ',') WITHIN GROUP (ORDER BY name) AS l FROM customers", [["Ann,Bo,Cy"]]),
    ("SELECT datediff(day, '2024-01-01'::DATE, '2024-02-01'::DATE) AS d", [[31]]),
    ("SELECT to_varchar(date_trunc('month', '2024-05-17'::DATE)::DATE) AS m", [["2024-05-01"]]),
    ("SELECT to_varchar(dateadd(month, 1, '2024-01-31'::DATE)::DATE) AS m", [["2024-02-29"]]),
    ("SELECT year('2024-05-17'::DATE) AS y, extract(month FROM '2024-05-17'::DATE) AS m", [[2024, 5]]),
    ("SELECT name FROM customers WHERE name ILIKE 'a%' AND contains(name, 'nn') AND startswith(name, 'A')", [["Ann"]]),
    ("SELECT try_cast('x' AS INT) AS a, '12'::INT AS b, try_to_number('7') AS c", [[None, 12, 7]]),
    ("SELECT status, sum(total) AS s FROM orders GROUP BY ALL ORDER BY s", [["open", 5], ["paid", 16]]),
    ("SELECT * EXCLUDE (name) FROM customers ORDER BY id LIMIT 1", [[1, "DE"]]),
    ("SELECT split_part('a-b', '-', 2) AS p, left(name, 1) AS l FROM customers ORDER BY id LIMIT 1", [["b", "A"]]),
    ("SELECT id FROM customers MINUS SELECT id FROM orders WHERE total > 6", [[1]]),
)  # fmt: skip


@pytest.mark.parametrize("sql", [*_HONEST, *(sql for sql, _ in _OWN)])
def test_an_honest_statement_is_let_through(sql: str) -> None:
    assert isinstance(judge(sql, dialect="snowflake"), Statement)


async def test_honest_statements_have_the_rows_of_another_engine(lab: SnowflakeLab) -> None:
    with closing(sqlite3.connect(":memory:")) as other:
        for line in (*_TABLES, *_ROWS, *_VIEWS):
            other.execute(line)

        async def compare(connection: ApiConnection) -> list[str]:
            faults = []
            for sql in _HONEST:
                verdict = judge(sql, dialect="snowflake")
                assert isinstance(verdict, Statement)
                found = await _rows(connection, verdict)
                wanted = [list(row) for row in other.execute(sql).fetchall()]
                if found != wanted:
                    faults.append(f"{sql}\n  {verdict.sql}\n  {found} for {wanted}")
            return faults

        faults = await _with_connection(lab, compare)
    assert not faults, "\n".join(faults)


async def test_functions_of_the_engine_have_their_values(lab: SnowflakeLab) -> None:
    async def compare(connection: ApiConnection) -> list[str]:
        faults = []
        for sql, wanted in _OWN:
            verdict = judge(sql, dialect="snowflake")
            assert isinstance(verdict, Statement)
            found = await _rows(connection, verdict)
            if found != wanted:
                faults.append(f"{sql}\n  {verdict.sql}\n  {found} for {wanted}")
        return faults

    faults = await _with_connection(lab, compare)
    assert not faults, "\n".join(faults)


@pytest.mark.sweep
async def test_no_attack_that_runs_answers_a_hidden_value(lab: SnowflakeLab) -> None:
    async def attack(connection: ApiConnection) -> tuple[int, list[str]]:
        ran, faults = 0, []
        for sql in part([*dict.fromkeys(attack_forms("snowflake"))], _EVERY):
            verdict = judge(sql, dialect="snowflake")
            if not isinstance(verdict, Statement):
                continue
            try:
                rows = await _rows(connection, verdict)
            except FailedStatementError:
                continue
            ran += 1
            if _CANARY in repr(rows):
                faults.append(f"{sql}\n  {verdict.sql}\n  {rows}")
        return ran, faults

    ran, faults = await _with_connection(lab, attack)
    assert not faults, "\n".join(faults)
    assert ran


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*), max(body) FROM tickets",
        "SELECT count(*), max(t.body) FROM tickets AS t WHERE tenant <> 'acme' OR TRUE",
        "SELECT count(*), max(body) FROM (SELECT * FROM tickets UNION ALL SELECT * FROM tickets WHERE FALSE)",
    ],
)
async def test_rows_of_another_tenant_are_not_read(lab: SnowflakeLab, sql: str) -> None:
    verdict = judge(sql, dialect="snowflake")
    assert isinstance(verdict, Statement)
    assert verdict.parameters
    assert set(verdict.parameters) == {"acme"}
    assert await _with_connection(lab, lambda connection: _rows(connection, verdict)) == [[1, "ours"]]


async def test_a_row_filter_reads_the_column_and_not_its_mask(lab: SnowflakeLab) -> None:
    masked = SqlScope(
        tables={"TICKETS": TableScope(rows="body <> 'ours' AND tenant = :tenant", masks={"BODY": "***", "TENANT": "x"})}
    )
    verdict = guard(
        "SELECT id, body FROM tickets", [], database=database("snowflake"), scope=masked, attributes=ATTRIBUTES
    )
    assert isinstance(verdict, Statement)
    assert await _with_connection(lab, lambda connection: _rows(connection, verdict)) == []


async def test_a_limit_holds_for_all_of_a_union(lab: SnowflakeLab) -> None:
    verdict = judge("SELECT id FROM customers UNION ALL SELECT id FROM orders", dialect="snowflake", max_rows=3)
    assert isinstance(verdict, Statement)
    assert len(await _with_connection(lab, lambda connection: _rows(connection, verdict))) == 3
