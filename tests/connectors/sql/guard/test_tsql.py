"""SQL Server against the guard: attacks and honest statements in T-SQL, and where parser and engine would read a text differently.

No SQL Server took part. What the guard lets through is translated by sqlglot and runs on DuckDB, which shows its filters and columns, and
nothing about how a SQL Server reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import duckdb
import pytest
import sqlglot

from tests.connectors.sql.guard.attack_forms import HIDDEN_NAMES, attack_forms
from tests.connectors.sql.guard.lab import ATTRIBUTES, allowed, database, judge
from tests.exhaustive import part
from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.dialects.record import words
from toolgen.connectors.sql.guard.guard import guard
from toolgen.connectors.sql.guard.text import parse
from toolgen.model.call import Statement
from toolgen.model.database import Column, Database, Table
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.verdict import Deny

_CANARY: Final = "CANARY-7"
_EVERY: Final = 9  # attack in the default run
_SCRIPT: Final = f"""
CREATE SCHEMA dbo; USE dbo;
CREATE TABLE customers (id INT, name TEXT, country TEXT, ssn TEXT);
INSERT INTO customers VALUES (1, 'Ann', 'DE', '{_CANARY}'), (2, 'Bo', 'FR', '{_CANARY}');
CREATE TABLE orders (id INT, customer_id INT, status TEXT, total INT, "order" INT, detail TEXT);
INSERT INTO orders VALUES (1, 1, 'open', 5, 1, '{{"a": 1}}'), (2, 2, 'paid', 7, 2, '{{"a": 2}}');
CREATE TABLE tickets (id INT, tenant TEXT, body TEXT);
INSERT INTO tickets VALUES (1, 'acme', 'ours'), (2, 'other', '{_CANARY}');
CREATE TABLE users_secret (id INT, password TEXT);
INSERT INTO users_secret VALUES (1, '{_CANARY}');
CREATE TABLE canary (id INT, n INT);
INSERT INTO canary VALUES (1, 0);
CREATE VIEW germans AS SELECT id, name FROM customers WHERE country = 'DE';
CREATE VIEW all_secrets AS SELECT id, password FROM users_secret;
"""

# By the rule that refuses them.
_ATTACKS: Final = {
    # two statements without a semicolon, and words that begin one
    "SELECT 1 SELECT 2": "syntax",
    "SELECT id FROM orders SELECT password FROM users_secret": "syntax",
    "SELECT id FROM orders; DROP TABLE orders": "one-statement",
    "SELECT id FROM orders\nGO\nSELECT 1": "one-statement",
    "SELECT id FROM orders GO": "one-statement",
    "SELECT id FROM orders o EXEC xp_cmdshell 'dir'": "one-statement",
    "SELECT id FROM orders DELETE": "one-statement",
    "SELECT id FROM orders WHERE 1 = 1 IF 1 = 1 SELECT 2": "one-statement",
    "SELECT id x WAITFOR DELAY '0:0:10'": "one-statement",
    "SELECT id FROM orders ORDER BY id SHUTDOWN": "one-statement",
    "EXEC sp_who": "not-a-query",
    "EXECUTE ('SELECT 1')": "not-a-query",
    "sp_who": "not-a-query",
    "WAITFOR DELAY '0:0:10'": "not-a-query",
    "BEGIN TRAN": "not-a-query",
    "DBCC INPUTBUFFER(1)": "not-a-query",
    "WITH c AS (SELECT 1 AS a) DELETE FROM c": "one-statement",
    "SELECT * FROM (DELETE FROM orders OUTPUT deleted.id) AS d": "one-statement",
    # writing, other servers, files
    "SELECT id INTO x FROM orders": "syntax",
    "SELECT id INTO #x FROM orders": "character",
    "SELECT * FROM OPENROWSET('SQLNCLI', 'x', 'SELECT 1') AS a": "function",
    "SELECT * FROM OPENROWSET(BULK 'C:\\x', SINGLE_CLOB) AS a": "one-statement",
    "SELECT * FROM OPENQUERY(srv, 'SELECT 1')": "function",
    "SELECT * FROM OPENDATASOURCE('a', 'b').db.dbo.t": "syntax",
    "SELECT * FROM OPENXML(1, 'a')": "function",
    "SELECT * FROM OPENJSON('[1]')": "function",
    "SELECT * FROM STRING_SPLIT('a,b', ',')": "function",
    "SELECT * FROM CHANGETABLE(CHANGES orders, 0) AS c": "syntax",
    "SELECT name FROM master.dbo.customers": "syntax",
    "SELECT name FROM srv.master.dbo.customers": "syntax",
    "SELECT name FROM master..customers": "syntax",
    "SELECT master.dbo.customers.name FROM customers": "syntax",
    "SELECT NEXT VALUE FOR s": "syntax",
    # the server, its users and its session
    "SELECT @@VERSION": "character",
    "SELECT @x = 1": "character",
    "SELECT DB_NAME()": "function",
    "SELECT OBJECT_DEFINITION(1)": "function",
    "SELECT HOST_NAME()": "function",
    "SELECT SUSER_SNAME()": "function",
    "SELECT SESSION_CONTEXT(N'a')": "function",
    "SELECT HAS_PERMS_BY_NAME('a', 'b', 'c')": "function",
    "SELECT SERVERPROPERTY('Edition')": "function",
    "SELECT CURRENT_USER": "syntax",
    "SELECT SYSTEM_USER": "syntax",
    "SELECT USER": "column",
    "SELECT * FROM sys.tables": "table",
    "SELECT * FROM INFORMATION_SCHEMA.COLUMNS": "table",
    "SELECT * FROM sysobjects": "table",
    # syntax with a meaning of its own
    "SELECT name FROM customers FOR XML AUTO": "syntax",
    "SELECT name FROM customers FOR JSON PATH": "syntax",
    "SELECT name FROM customers WITH (NOLOCK)": "syntax",
    "SELECT name FROM customers (NOLOCK)": "syntax",
    "SELECT name FROM customers OPTION (QUERYTRACEON 8649)": "syntax",
    "SELECT c.id FROM customers c INNER HASH JOIN orders o ON o.id = c.id": "syntax",
    "SELECT * FROM customers CROSS APPLY (SELECT password FROM users_secret) s": "syntax",
    "SELECT * FROM customers OUTER APPLY users_secret": "syntax",
    "SELECT * FROM orders PIVOT (SUM(total) FOR status IN ([a], [b])) AS p": "syntax",
    "SELECT * FROM orders UNPIVOT (v FOR c IN (id, total)) AS p": "syntax",
    "SELECT * FROM orders TABLESAMPLE (10 PERCENT)": "syntax",
    "SELECT * FROM orders FOR SYSTEM_TIME ALL": "syntax",
    "SELECT detail.value('(/a)[1]', 'int') FROM orders": "syntax",
    "SELECT o.detail.query('a') FROM orders o": "syntax",
    "SELECT detail.ToString() FROM orders": "syntax",
    "SELECT geography::Point(1, 2, 3)": "character",
    "SELECT dbo.f(id) FROM orders": "syntax",
    "SELECT * FROM dbo.f(1)": "syntax",
    "SELECT CAST(detail AS dbo.mytype) FROM orders": "type",
    "SELECT TOP 5 PERCENT id FROM orders": "syntax",
    "SELECT TOP 5 WITH TIES id FROM orders ORDER BY id": "syntax",
    "SELECT id FROM orders ORDER BY id OFFSET 1 ROWS FETCH NEXT 5 ROWS WITH TIES": "limit",
    "SELECT TOP (SELECT COUNT(*) FROM users_secret) id FROM orders": "limit",
    "SELECT TOP (5 + 5) id FROM orders": "limit",
    "SELECT 'x' = name FROM customers": "syntax",
    "SELECT name = ssn FROM customers": "column",
    "SELECT $IDENTITY FROM orders": "character",
    "SELECT $1": "character",
    "SELECT %%physloc%% FROM orders": "syntax",
    "SELECT {fn USER()}": "character",
    "WITH XMLNAMESPACES ('u' AS n) SELECT id FROM orders": "syntax",
    "SELECT id FROM orders WHERE total !< 3": "character",
    "SELECT id | 1 FROM orders": "character",
    "SELECT ~id FROM orders": "character",
    "SELECT 0x41 FROM orders": "literal",
    "SELECT name COLLATE ssn FROM customers": "literal",
    "SELECT name COLLATE [a b] FROM customers": "literal",
    "SELECT name COLLATE 'x' FROM customers": "literal",
    "SELECT DATEADD(ssn, 1, GETDATE()) FROM customers": "literal",
    "SELECT DATEDIFF(name, 1, 2) FROM customers": "literal",
    "SELECT FORMAT(1, name) FROM customers": "size",
    "SELECT FORMAT(1, 'D999999') FROM customers": "size",
    "SELECT CONVERT(varchar(10), name, ssn) FROM customers": "literal",
    "SELECT REPLICATE('x', 100000)": "size",
    "SELECT REPLICATE(REPLICATE('x', 1000), 1000)": "size",
    "SELECT id FROM (SELECT id FROM orders WHERE id IN (SELECT 1)) AS q WHERE EXISTS (WITH a AS (SELECT 1 AS b) SELECT b FROM a)": "syntax",
    # quotes, comments and letters
    "SELECT 1 /* /* */ , ssn FROM customers -- */": "comment",
    "SELECT 1 /* a /* b */ */ FROM customers": "comment",
    "SELECT 1 /* , ssn FROM customers": "comment",
    "SELECT id -- a\r, ssn FROM customers": "comment",
    "SELECT [id]], ssn, [b] FROM customers": "literal",
    'SELECT "id"", ssn, ""b" FROM customers': "literal",
    "SELECT [a[b] FROM customers": "literal",
    "SELECT 'a\\\nb' FROM customers": "literal",
    "SELECT ‘a’ FROM customers": "character",
    "SELECT id FROM customers WHERE name = ＇a＇": "character",
    "SELECT ｓｓｎ FROM customers": "character",
    "SELECT [ｓｓｎ] FROM customers": "literal",
    "SELECT [śsn] FROM customers": "literal",
    "SELECT id\u00a0FROM customers": "character",
    "SELECT [ssn ] FROM customers": "name",
    "SELECT SSN FROM customers": "column",
    "SELECT [Ssn] FROM customers": "column",
}  # fmt: skip


@pytest.mark.parametrize("sql", _ATTACKS)
def test_an_attack_in_t_sql_is_refused_with_advice(sql: str) -> None:
    verdict = judge(sql, dialect="tsql")
    assert isinstance(verdict, Deny)
    assert verdict.rule == f"sql:{_ATTACKS[sql]}"
    assert verdict.suggestion


# What runs, with the rows that DuckDB gives for the same data.
_HONEST: Final[tuple[tuple[str, list[object], list[tuple[object, ...]]], ...]] = (
    ("SELECT id, name FROM customers ORDER BY id", [], [(1, "Ann"), (2, "Bo")]),
    ("SELECT TOP 1 id FROM customers ORDER BY name DESC", [], [(2,)]),
    ("SELECT TOP (1) * FROM customers ORDER BY id", [], [(1, "Ann", "DE")]),
    ("SELECT DISTINCT TOP 5 country FROM dbo.customers ORDER BY country", [], [("DE",), ("FR",)]),
    ("SELECT id FROM orders ORDER BY id OFFSET 1 ROWS FETCH NEXT 3 ROWS ONLY", [], [(2,)]),
    ("SELECT * FROM tickets", [], [(1, "acme", "ours")]),
    ("SELECT COUNT(*) AS n, MAX(body) AS m FROM tickets t WHERE t.body LIKE '%'", [], [(1, "ours")]),
    ("SELECT id FROM customers UNION ALL SELECT total FROM orders ORDER BY id", [], [(1,), (2,), (5,), (7,)]),
    (";WITH c AS (SELECT id, total FROM orders WHERE total > 6) SELECT id FROM c ORDER BY total DESC", [], [(2,)]),
    ("WITH a AS (SELECT id FROM orders), b AS (SELECT id FROM a) SELECT id FROM a UNION SELECT id FROM b ORDER BY 1", [], [(1,), (2,)]),
    ("SELECT YEAR('2024-05-01') AS y, DATEDIFF(month, '2024-01-01', '2024-03-01') AS m", [], [(2024, 2)]),
    ("SELECT ISNULL(NULLIF(name, 'Bo'), N'none') AS n, LEN(name) AS l FROM customers ORDER BY id", [], [("Ann", 3), ("none", 2)]),
    ("SELECT LEFT(name, 1) AS a, IIF(id > 1, 'b', 'a') AS b FROM customers ORDER BY id", [], [("A", "a"), ("B", "b")]),
    ("SELECT CAST(id AS nvarchar(10)) AS a, TRY_CAST(name AS int) AS b FROM customers ORDER BY id", [], [("1", None), ("2", None)]),
    ("SELECT CONVERT(date, '2024-05-01') AS d, name FROM customers WHERE id = 1", [], []),
    ("SELECT status, COUNT(*) AS n FROM orders GROUP BY status HAVING COUNT(*) > 0 ORDER BY n DESC, status", [],
     [("open", 1), ("paid", 1)]),
    ("SELECT id, ROW_NUMBER() OVER (ORDER BY total DESC) AS r FROM orders ORDER BY r", [], [(2, 1), (1, 2)]),
    ("SELECT c.name, o.total FROM customers c LEFT JOIN orders AS o ON o.customer_id = c.id WHERE o.[order] IS NOT NULL"
     " AND c.id NOT IN (7, 8) AND c.country <> 'IT' AND c.id != 3 ORDER BY c.name", [], [("Ann", 5), ("Bo", 7)]),
    ("SELECT name FROM customers WHERE name = 'é' OR country = N'DE'", [], [("Ann",)]),
    ("SELECT name n, total = id FROM customers ORDER BY n", [], [("Ann", 1), ("Bo", 2)]),
    ("SELECT CASE WHEN total > 6 THEN 'big' ELSE 'small' END AS size FROM orders ORDER BY id", [], [("small",), ("big",)]),
    ("SELECT name FROM customers WHERE id IN (SELECT customer_id FROM orders WHERE total BETWEEN 5 AND 6)", [], [("Ann",)]),
    ("SELECT id FROM customers WHERE EXISTS (SELECT * FROM orders WHERE customer_id = customers.id AND total > 6)", [], [(2,)]),
    ("SELECT id % 2 AS a, -id AS b, id * 2 + 1 AS c FROM customers ORDER BY id", [], [(1, -1, 3), (0, -2, 5)]),
    ("SELECT id AS [a b], id AS \"c\" FROM orders WHERE detail LIKE '[{]%' ESCAPE '!' OR id = 1 ORDER BY id", [], []),
    ("SELECT name FROM customers WHERE name = ? AND id = ?", ["Bo", 2], [("Bo",)]),
    ("SELECT COUNT_BIG(*) AS n, N'no\u00a0break' AS t FROM tickets", [], [(1, "no\u00a0break")]),
    ("SELECT -id AS a FROM customers ORDER BY a", [], [(-2,), (-1,)]),
    ("SELECT AVG(total * 1.0) AS a, SUM(total) AS s FROM orders", [], [(6.0, 12)]),
    ("SELECT q.id FROM (SELECT TOP 1 id FROM customers ORDER BY id DESC) AS q", [], [(2,)]),
    ("WITH r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT SUM(n) AS s FROM r", [], []),
    ("SELECT STRING_AGG(name, ', ') WITHIN GROUP (ORDER BY name) AS s FROM customers", [], []),
    ("SELECT status, SUM(total) AS s FROM orders GROUP BY ROLLUP (status)", [], []),
    ("SELECT name COLLATE Latin1_General_BIN AS n FROM customers", [], []),
    ("SELECT GETDATE() AS a, DATEADD(day, -1, GETDATE()) AS b, CONVERT(varchar(10), GETDATE(), 120) AS c", [], []),
    ("SELECT FORMAT(id, 'N2') AS f, CHARINDEX('n', name) AS c, JSON_VALUE(detail, '$.a') AS j FROM customers, orders", [], []),
)  # fmt: skip


@pytest.fixture(scope="module", name="engine")
def _engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(_SCRIPT)
        yield connection


def _rows(engine: Any, statement: Statement) -> list[tuple[object, ...]]:
    text = re.sub(
        r"TOP \(4611686018427387904\) ", "", statement.sql
    )  # the fence of a row filter, which DuckDB does not need
    (translated,) = sqlglot.transpile(text, read="tsql", write="duckdb")
    rows: list[tuple[object, ...]] = engine.execute(translated, list(statement.parameters)).fetchall()
    return rows


@pytest.mark.parametrize(("sql", "sent", "wanted"), _HONEST)
def test_an_honest_statement_runs(engine: Any, sql: str, sent: list[object], wanted: list[tuple[object, ...]]) -> None:
    statement = allowed(sql, *sent, dialect="tsql")
    if wanted:
        assert _rows(engine, statement) == wanted


@pytest.mark.sweep
def test_nothing_hidden_stands_in_what_runs(engine: Any) -> None:
    ran = 0
    for sql in part([*dict.fromkeys(attack_forms("tsql"))], _EVERY):
        verdict = judge(sql, dialect="tsql")
        if not isinstance(verdict, Statement):
            assert verdict.rule != "sql:internal", sql
            assert verdict.suggestion, sql
            continue
        ran += 1
        parse(verdict.sql, "tsql")
        assert not any(name in verdict.sql.lower() for name in HIDDEN_NAMES), f"{sql}\n  {verdict.sql}"
        try:
            rows = _rows(engine, verdict)
        except duckdb.Error:
            continue
        assert _CANARY not in repr(rows), f"{sql}\n  {verdict.sql}"
    assert ran > 5


def test_names_are_quoted_and_tables_have_their_schemas() -> None:
    statement = allowed("SELECT c.ID, Name FROM Customers AS c ORDER BY c.id", dialect="tsql")
    assert statement.sql == (
        "SELECT TOP (100) [c].[ID], [Name] FROM (SELECT [id], [name] FROM [dbo].[customers]) AS [c] ORDER BY [c].[id]"
    )


def test_a_word_of_the_engine_is_a_name_in_brackets() -> None:
    assert "AS [exec]" in allowed("SELECT id AS [exec], 'DROP' AS b FROM orders", dialect="tsql").sql


def test_texts_beyond_ascii_are_national_ones() -> None:
    assert "N'é'" in allowed("SELECT id FROM orders WHERE status = 'é'", dialect="tsql").sql


@pytest.mark.parametrize(
    ("sql", "order"),
    [
        ("SELECT status, total FROM orders ORDER BY total", "[total], 1"),
        ("SELECT status AS s, total FROM orders ORDER BY s", "[s], 2"),
        ("SELECT id, total FROM orders ORDER BY 1", "1"),
        ("SELECT o.status, c.name FROM orders o JOIN customers c ON c.id = o.id ORDER BY c.name", "[c].[name], 1"),
        ("SELECT id, status FROM orders UNION SELECT 1, 'a' ORDER BY status", "[status], 1"),
        ("SELECT * FROM (SELECT id, status FROM orders) AS q ORDER BY status", "[status], 1"),
    ],
)
def test_an_order_has_each_column_once(sql: str, order: str) -> None:
    statement = allowed(sql, dialect="tsql")
    assert statement.sql.endswith(f"ORDER BY {order}")
    assert statement.page


def test_a_limit_holds_for_all_of_a_union(engine: Any) -> None:
    statement = allowed("SELECT id FROM customers UNION ALL SELECT id FROM orders", dialect="tsql", max_rows=3)
    assert len(_rows(engine, statement)) == 3
    assert statement.limited


def test_a_parameter_of_top_is_lowered() -> None:
    statement = allowed("SELECT TOP (?) id FROM orders", 1000, dialect="tsql")
    assert statement.sql == "SELECT TOP (?) [id] FROM [dbo].[orders]"
    assert statement.parameters == (100,)


def test_a_row_filter_reads_the_column_and_not_its_mask(engine: Any) -> None:
    masked = SqlScope(
        tables={"tickets": TableScope(rows="body <> 'ours' AND tenant = :tenant", masks={"body": "***", "tenant": "x"})}
    )
    verdict = guard("SELECT id, body FROM tickets", [], database=database("tsql"), scope=masked, attributes=ATTRIBUTES)
    assert isinstance(verdict, Statement)
    assert _rows(engine, verdict) == []


@pytest.mark.parametrize("name", ["a]b", 'a"b', "a[b", "a\\b", "a'b"])
def test_a_name_that_would_end_its_quotes_is_not_written(name: str) -> None:
    known = Database(dialect="tsql", tables=(Table(name="t", columns=(Column(name=name, type="int"),)),))
    verdict = guard("SELECT * FROM t", [], database=known, scope=SqlScope(tables={"t": TableScope()}), attributes={})
    assert isinstance(verdict, Deny)


def test_no_listed_function_tells_of_the_server() -> None:
    telling = re.compile(
        r"(name|user|session|server|object|perms|context|host|app_|db_|schema|login|trancount|crypt|sid)"
    )
    told = {name for name in RECORDS["tsql"].functions if telling.search(name)}
    assert told == {"datename", "quotename"}


# Parts of a rendered text, by the rules of SQL Server: a name in brackets, a text, a number, a word, a sign.
_LEXICAL: Final = re.compile(
    r"\[[^\[\]\"']+\]|N?'(?:[^']|'')*'|[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+|[A-Za-z_][A-Za-z0-9_]*|<>|<=|>=|[-+*/%=<>(),.?]"
)
_WORDS: Final = words(
    """
    ALL AND AS ASC AT BETWEEN BY CASE CAST COLLATE CONVERT CROSS CUBE CURRENT DESC DISTINCT ELSE END ESCAPE EXCEPT EXISTS FETCH FIRST
    FOLLOWING FROM FULL GROUP GROUPING HAVING IN INNER INTERSECT IS JOIN LEFT LIKE NEXT NOT NULL OFFSET ON ONLY OR ORDER OUTER OVER
    PARTITION PRECEDING RANGE RIGHT ROLLUP ROW ROWS SELECT SETS THEN TIME TOP TRY_CAST UNBOUNDED UNION WHEN WHERE WINDOW WITH WITHIN ZONE
    BIGINT BIT CHAR DATE DATETIME DATETIME2 DATETIMEOFFSET DECIMAL FLOAT INTEGER MAX MONEY NCHAR NUMERIC NVARCHAR SMALLDATETIME SMALLINT
    TINYINT UNIQUEIDENTIFIER VARBINARY VARCHAR LATIN1_GENERAL_BIN
    YEAR MONTH DAY
    """
)


def _foreign(sql: str) -> set[str]:
    """Words of a text that are neither in the list, nor allowed functions; and what is no part of a text at all."""
    found: set[str] = set()
    place = 0
    while place < len(sql):
        if sql[place] == " ":
            place += 1
            continue
        part_of = _LEXICAL.match(sql, place)
        if part_of is None:
            return {sql[place:]}
        word = part_of[0]
        called = word.lower() in RECORDS["tsql"].functions and sql[part_of.end() :][:1] == "("
        if word[0].isalpha() and "'" not in word and word.upper() not in _WORDS and not called:
            found.add(word)
        place = part_of.end()
    return found


@pytest.mark.sweep
def test_what_runs_has_no_other_words_than_queries_have() -> None:
    """Read by another lexer than the parser's, so that no word of a rendered text can begin a second statement."""
    given = [*dict.fromkeys(attack_forms("tsql"))]
    asked = [(sql, []) for sql in (*part(given, _EVERY), *_ATTACKS)] + [(sql, sent) for sql, sent, _ in _HONEST]
    ran = 0
    for sql, sent in asked:
        verdict = judge(sql, *sent, dialect="tsql")
        if isinstance(verdict, Statement):
            ran += 1
            assert not _foreign(verdict.sql), f"{sql}\n  {verdict.sql}"
    assert ran > len(_HONEST)


@pytest.mark.parametrize("sql", ["SELECT 1 EXEC", "SELECT 1; SELECT 2", "SELECT a FROM [b]", "SELECT [a]] FROM [b]"])
def test_the_other_lexer_finds_what_does_not_belong(sql: str) -> None:
    assert _foreign(sql)
