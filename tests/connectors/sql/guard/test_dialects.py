"""Where the dialects differ: how names fold, what a placeholder is, what only one of them has."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.connectors.sql.guard.lab import allowed, refused
from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.guard.changes import guard_change
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement
from toolgen.model.database import Column, Database, DialectName, Table
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.verdict import Deny

# What a policy shows of a table of which it hides columns, as a row.
_SEEN = (
    '(SELECT c."id", c."name", c."country" FROM (SELECT "id", "name", "country" FROM "public"."customers") AS c) AS c'
)
ALLOWED = [
    (
        "postgres",
        "SELECT pg_catalog.lower(status) FROM orders",
        'SELECT lower(status) FROM "public"."orders" LIMIT 100',
    ),
    (
        "postgres",  # of what is grouped by its key, and of nothing else
        "SELECT c.country, g.name FROM customers c JOIN germans g ON g.id = c.id GROUP BY c.id, g.name",
        'SELECT c.country, g.name FROM (SELECT "id", "country" FROM "public"."customers") AS c'
        ' JOIN "public"."germans" AS g ON g.id = c.id GROUP BY c.id, g.name, c."country" LIMIT 100',
    ),
    (
        "postgres",  # here the alias comes first
        "SELECT id AS ctid FROM orders ORDER BY ctid",
        'SELECT id AS ctid FROM "public"."orders" ORDER BY ctid LIMIT 100',
    ),
    ("postgres", r"SELECT U&'d\0061t\+000061'", "SELECT 'data' LIMIT 100"),
    ("postgres", "SELECT U&'d!0061t' UESCAPE '!'", "SELECT 'dat' LIMIT 100"),
    ("duckdb", "SELECT o.detail.a.b FROM orders o", 'SELECT o.detail.a.b FROM "main"."orders" AS o LIMIT 100'),
    ("duckdb", "SELECT * FROM generate_series(5)", "SELECT * FROM generate_series(5) LIMIT 100"),
    (
        "duckdb",
        "SELECT DISTINCT ON (status) upper(status), id FROM orders ORDER BY status",
        'SELECT DISTINCT ON (status) upper(status), id FROM "main"."orders" ORDER BY status, 1, 2 LIMIT 100',
    ),
    (
        "duckdb",
        "WITH m AS (SELECT 1 AS a, 2 AS b) PIVOT m ON a IN (1) USING sum(b) AS s GROUP BY b",
        "WITH m AS (SELECT 1 AS a, 2 AS b) SELECT * FROM (SELECT b, sum(b) FILTER(WHERE CAST(a AS VARCHAR) = '1') AS \"1_s\""
        ' FROM m GROUP BY b) AS "unnamed_subquery" LIMIT 100',
    ),
    ("postgres", "SELECT id <<= id FROM orders", 'SELECT id <<= id FROM "public"."orders" LIMIT 100'),
    ("duckdb", "SELECT NULL::INT[100][100]", "SELECT CAST(NULL AS INT[100][100]) LIMIT 100"),
    ("duckdb", "SELECT DISTINCT .25, -.5, 1 + .5e3", "SELECT DISTINCT .25, -.5, 1 + .5e3 LIMIT 100"),
    ("sqlite", "SELECT DISTINCT .25 AS x", "SELECT DISTINCT .25 AS x LIMIT 100"),
    ("mysql", "SELECT DISTINCT .25 AS x", "SELECT DISTINCT .25 AS x LIMIT 100"),
    ("postgres", "SELECT 1 WHERE .5 = SOME (ARRAY[.5])", "SELECT 1 WHERE .5 = ANY(ARRAY[.5]) LIMIT 100"),
    ("mysql", "SELECT SQL_CALC_FOUND_ROWS id FROM orders", "SELECT id FROM `orders` LIMIT 100"),
    (
        "mysql",
        "SELECT DISTINCT SQL_CALC_FOUND_ROWS SQL_NO_CACHE 1 AS x",
        "SELECT DISTINCT SQL_NO_CACHE 1 AS x LIMIT 100",
    ),
    (
        "mysql",
        "SELECT GROUP_CONCAT(id, ' ', status ORDER BY id DESC LIMIT 2) AS x FROM orders",
        "SELECT GROUP_CONCAT(concat(id, ' ', status) ORDER BY id DESC SEPARATOR ',' LIMIT 2) AS x FROM `orders` LIMIT 100",
    ),
    (
        "sqlite",
        "SELECT printf('%*d', id, 1) AS x FROM orders",
        'SELECT printf(\'%*d\', id, 1) AS x FROM "main"."orders" LIMIT 100',
    ),
    ("postgres", "SELECT ID FROM Orders", 'SELECT ID FROM "public"."orders" LIMIT 100'),
    (
        "postgres",
        "SELECT id FROM orders WHERE id = $2 AND total = $1",
        'SELECT id FROM "public"."orders" WHERE id = $1 AND total = $2 LIMIT 100',
    ),
    ("postgres", "SELECT id FROM orders FETCH FIRST 5 ROWS ONLY", 'SELECT id FROM "public"."orders" LIMIT 5'),
    (
        "postgres",
        "SELECT id FROM orders ORDER BY total FETCH FIRST 5 ROWS WITH TIES",
        'SELECT id FROM "public"."orders" ORDER BY total FETCH FIRST 5 ROWS WITH TIES',
    ),
    (
        "mysql",
        "SELECT id FROM orders ORDER BY total OFFSET 1 ROW FETCH FIRST 5 ROWS WITH TIES",
        "SELECT id FROM `orders` ORDER BY total OFFSET 1 ROWS FETCH FIRST 5 ROWS WITH TIES",
    ),
    (
        "mysql",
        "SELECT id FROM (SELECT id FROM orders ORDER BY id FETCH FIRST ROW ONLY) q",
        "SELECT id FROM (SELECT id FROM `orders` ORDER BY id FETCH FIRST ROWS ONLY) AS q LIMIT 100",
    ),
    ("postgres", "VALUES (2), (1) ORDER BY 1", 'SELECT * FROM (VALUES (2), (1)) AS "values" ORDER BY 1 LIMIT 100'),
    (
        "postgres",
        "SELECT t.a FROM ROWS FROM (generate_series(1, 2), unnest(ARRAY['x'])) AS t(a, b)",
        "SELECT t.a FROM ROWS FROM (generate_series(1, 2), UNNEST(ARRAY['x'])) AS t(a, b) LIMIT 100",
    ),
    (
        "postgres",
        "SELECT id FROM ONLY tickets",
        'SELECT id FROM (SELECT "id" FROM ONLY "public"."tickets" WHERE (tenant = $1)) AS "tickets" LIMIT 100',
    ),
    (
        "postgres",
        "SELECT jsonb_agg(detail -> 'a' ORDER BY id), detail -> 'b' FROM orders ORDER BY id",
        """SELECT jsonb_agg((detail -> 'a') ORDER BY id), detail -> 'b' FROM "public"."orders" ORDER BY id LIMIT 100""",
    ),
    (
        "postgres",
        "SELECT jsonb_object_agg(id, detail -> 'a' -> 'b' ORDER BY id) FROM orders",
        """SELECT jsonb_object_agg(id, (detail -> 'a' -> 'b') ORDER BY id) FROM "public"."orders" LIMIT 100""",
    ),
    (
        "duckdb",
        "SELECT list(detail -> 'a' ORDER BY id) FROM orders",
        """SELECT list((detail -> 'a') ORDER BY id) FROM "main"."orders" LIMIT 100""",
    ),
    (
        "postgres",
        "SELECT id AS c, row_to_json(c) FROM customers c",
        f"SELECT id AS c, row_to_json(c) FROM {_SEEN} LIMIT 100",
    ),
    ("postgres", "SELECT to_jsonb(c.*) FROM customers c", f"SELECT to_jsonb(c.*) FROM {_SEEN} LIMIT 100"),
    (
        "postgres",
        "SELECT json_agg(c ORDER BY c.id) FROM orders o JOIN customers c ON c.id = o.customer_id",
        f'SELECT json_agg(c ORDER BY c.id) FROM "public"."orders" AS o JOIN {_SEEN} ON c.id = o.customer_id LIMIT 100',
    ),
    (
        "postgres",
        "SELECT to_jsonb(c) FROM orders o LEFT JOIN customers c ON c.id = o.customer_id WHERE o.id = 1",
        f'SELECT to_jsonb(c) FROM "public"."orders" AS o LEFT JOIN {_SEEN} ON c.id = o.customer_id WHERE o.id = 1 LIMIT 100',
    ),
    ("postgres", "SELECT count(o.*) FROM orders o", 'SELECT count(o."id") FROM "public"."orders" AS o LIMIT 100'),
    ("postgres", "SELECT json_object('a': 1, 'b': (2))", "SELECT JSON_OBJECT('a': 1, 'b': (2)) LIMIT 100"),
    ("postgres", "SELECT json_object(ARRAY['a'], ARRAY['b'])", "SELECT json_object(ARRAY['a'], ARRAY['b']) LIMIT 100"),
    ("postgres", "SELECT json_object('{a,b}')", "SELECT json_object('{a,b}') LIMIT 100"),
    (
        "mysql",
        "SELECT CHAR(65, 66 USING utf8mb4), CHAR(67)",
        "SELECT CAST(CHAR(65, 66) AS CHAR CHARACTER SET utf8mb4) AS `CHAR(65, 66 USING utf8mb4)`, CHAR(67) LIMIT 100",
    ),
    (
        "mysql",
        "SELECT SUBSTR(status FROM 2 FOR 1) AS a, MID(status FROM 2) AS b, SUBSTR(status, 2) AS c FROM orders",
        "SELECT SUBSTRING(status, 2, 1) AS a, SUBSTRING(status, 2) AS b, SUBSTR(status, 2) AS c FROM `orders` LIMIT 100",
    ),
    (
        "duckdb",
        "SELECT apply([1], lambda x: x + 1), filter([1], lambda x: x > 1), count(*) FILTER (WHERE id > 1) FROM orders",
        "SELECT list_apply([1], LAMBDA x : x + 1), list_filter([1], LAMBDA x : x > 1), count(*) FILTER(WHERE id > 1)"
        ' FROM "main"."orders" LIMIT 100',
    ),
    (
        "duckdb",
        "SELECT [upper(x) FOR x IN string_split(status, ',')] FROM orders",
        """SELECT [upper(x) FOR x IN string_split(status, ',')] FROM "main"."orders" LIMIT 100""",
    ),
    ("sqlite", "SELECT hex(randomblob(8))", "SELECT hex(randomblob(8)) LIMIT 100"),
    ("mysql", "SELECT seq FROM seq_1_to_5", "SELECT seq FROM seq_1_to_5 LIMIT 100"),
    ("postgres", "SELECT id FROM orders LIMIT ALL", 'SELECT id FROM "public"."orders" LIMIT 100'),
    (
        "postgres",
        "SELECT DISTINCT ON (status) status FROM orders",
        'SELECT DISTINCT ON (status) status FROM "public"."orders" LIMIT 100',
    ),
    (
        "postgres",
        "SELECT to_jsonb(q) FROM (SELECT id FROM orders) q",
        'SELECT to_jsonb(q) FROM (SELECT id FROM "public"."orders") AS q LIMIT 100',
    ),
    ("postgres", "SELECT $$it's$$", "SELECT 'it''s' LIMIT 100"),
    ("mysql", 'SELECT id FROM orders WHERE status = "new"', "SELECT id FROM `orders` WHERE status = 'new' LIMIT 100"),
    (
        "mysql",
        "SELECT timestampdiff(HOUR, status, status) FROM orders",
        "SELECT timestampdiff(HOUR, status, status) FROM `orders` LIMIT 100",
    ),
    (
        "duckdb",
        "FROM customers LIMIT 2",
        'SELECT "customers"."id", "customers"."name", "customers"."country"'
        ' FROM (SELECT "id", "name", "country" FROM "main"."customers") AS "customers" LIMIT 2',
    ),
    (
        "postgres",
        "SELECT customer_id, count(*) AS orders FROM orders GROUP BY customer_id ORDER BY orders DESC",
        'SELECT customer_id, count(*) AS orders FROM "public"."orders" GROUP BY customer_id ORDER BY orders DESC, 1, 2 LIMIT 100',
    ),
    (
        "duckdb",
        "SELECT id FROM orders USING SAMPLE 5",
        'SELECT id FROM "main"."orders" USING SAMPLE RESERVOIR (5 ROWS) LIMIT 100',
    ),
    (
        "duckdb",
        "SELECT * REPLACE (upper(name) AS name) FROM germans",
        'SELECT "germans"."id", upper(name) AS name FROM "main"."germans" LIMIT 100',
    ),
    ("duckdb", "SELECT x FROM (VALUES (1), (2)) t(x)", "SELECT x FROM (VALUES (1), (2)) AS t(x) LIMIT 100"),
    ("duckdb", "SELECT i FROM range(5) t(i)", "SELECT i FROM range(5) AS t(i) LIMIT 100"),
    ("duckdb", "SELECT 'a'.upper()", "SELECT upper('a') LIMIT 100"),
    (
        "duckdb",
        "SELECT o.status.lower().upper() FROM orders o",
        'SELECT upper(lower(o.status)) FROM "main"."orders" AS o LIMIT 100',
    ),
    ("duckdb", "SELECT [1].list_transform(x -> x + 1)", "SELECT list_transform([1], LAMBDA x : x + 1) LIMIT 100"),
    ("duckdb", "SELECT unnest([1, 2])", "SELECT UNNEST([1, 2]) LIMIT 100"),
    (
        "duckdb",
        "SELECT o.id FROM orders o ASOF JOIN orders p ON o.id >= p.id",
        'SELECT o.id FROM "main"."orders" AS o ASOF JOIN "main"."orders" AS p ON o.id >= p.id LIMIT 100',
    ),
    (
        "postgres",
        "SELECT jsonb_typeof(detail->'a'->>'b'), coalesce(detail->'x' = detail->$1, false) FROM orders",
        "SELECT jsonb_typeof(detail -> 'a' ->> 'b'), coalesce(detail -> 'x' = detail -> $1, FALSE) FROM \"public\".\"orders\" LIMIT 100",
    ),
    (
        "mysql",
        "SELECT json_length(detail->'$.a') FROM orders",
        "SELECT json_length(JSON_EXTRACT(detail, '$.a')) AS `json_length(detail->'$.a')` FROM `orders` LIMIT 100",
    ),
    (
        "postgres",
        "SELECT t.n, t.i FROM unnest(ARRAY[7, 8]) WITH ORDINALITY AS t(n, i)",
        "SELECT t.n, t.i FROM UNNEST(ARRAY[7, 8]) WITH ORDINALITY AS t(n, i) LIMIT 100",
    ),
    (
        "postgres",
        "SELECT id FROM orders WHERE id <> ALL (ARRAY[7]) AND detail ? 'a' AND detail ?| ARRAY['a']",
        "SELECT id FROM \"public\".\"orders\" WHERE id <> ALL(ARRAY[7]) AND detail ? 'a' AND detail ?| ARRAY['a'] LIMIT 100",
    ),
    (
        "postgres",
        "SELECT to_tsvector('english', status) @@ to_tsquery('english', 'new'), unnest(ARRAY[1]) FROM orders",
        "SELECT to_tsvector('english', status) @@ to_tsquery('english', 'new'), UNNEST(ARRAY[1]) FROM \"public\".\"orders\" LIMIT 100",
    ),
    (
        "mysql",
        "SELECT TIMESTAMP '2024-01-02 03:04:05.6', DATE '2024-01-02'",
        "SELECT CAST('2024-01-02 03:04:05.6' AS DATETIME(1)) AS `TIMESTAMP '2024-01-02 03:04:05.6'`,"
        " CAST('2024-01-02' AS DATE) AS `DATE '2024-01-02'` LIMIT 100",
    ),
    (
        "mysql",
        "SELECT SQL_NO_CACHE id FROM orders FORCE INDEX (PRIMARY) WHERE status NOT RLIKE 'x'",
        "SELECT SQL_NO_CACHE id FROM `orders` FORCE INDEX (`PRIMARY`) WHERE NOT status RLIKE 'x' LIMIT 100",
    ),
    (
        "mysql",
        "SELECT CONVERT(status USING utf8mb4) FROM orders",
        "SELECT CAST(status AS CHAR CHARACTER SET utf8mb4) AS `CONVERT(status USING utf8mb4)` FROM `orders` LIMIT 100",
    ),
    ("duckdb", "SELECT * EXCLUDE (id) FROM germans", 'SELECT "germans"."name" FROM "main"."germans" LIMIT 100'),
]


@pytest.mark.parametrize(("dialect", "sql", "rendered"), ALLOWED)
def test_a_dialect_is_read_and_written_as_its_own(dialect: str, sql: str, rendered: str) -> None:
    statement = allowed(sql, *["x"] * (2 if "$2" in sql else 1 if "$1" in sql else 0), dialect=dialect)
    assert _COUNTED.sub("", statement.sql) == rendered


# What counts gathered values in PostgreSQL (test_gathered.py).
_COUNTED = re.compile(r" FILTER\(WHERE CASE WHEN CAST\(set_config\(.*? ELSE TRUE END\)")


REFUSED = [
    ("postgres", "SELECT id OPERATOR(pg_catalog.+) 1 FROM orders", "sql:syntax"),
    ("duckdb", "SELECT NULL::INT[10000][10000]", "sql:type"),
    ("duckdb", "SELECT NULL::STRUCT(a INT[100])[101]", "sql:type"),
    ("postgres", "SELECT to_jsonb(c) FROM customers c GROUP BY c.id", "sql:whole-row"),
    ("postgres", "SELECT (SELECT to_jsonb(c)) FROM customers c", "sql:whole-row"),
    ("postgres", "SELECT json_agg(c::text) FROM customers c", "sql:whole-row"),
    ("postgres", "SELECT to_jsonb(c.ssn) FROM customers c", "sql:column"),
    ("postgres", "SELECT to_jsonb(c) FROM customers c WHERE c.ssn = '1'", "sql:column"),
    ("postgres", "SELECT sum(o.*) FROM orders o", "sql:whole-row"),
    ("postgres", "SELECT count(DISTINCT o.*) FROM orders o", "sql:whole-row"),
    ("sqlite", "SELECT randomblob(1001)", "sql:size"),
    ("sqlite", "SELECT randomblob(id) FROM orders", "sql:size"),
    ("duckdb", "SELECT [repeat(x, 1000) FOR x IN string_split(status, ',')] FROM orders", "sql:size"),
    ("duckdb", "SELECT [repeat('x', 1000) FOR x IN range(100000)]", "sql:size"),
    ("postgres", "SELECT id FROM orders ORDER BY id FETCH FIRST 101 ROWS WITH TIES", "sql:limit"),
    ("postgres", "SELECT * FROM ROWS FROM (pg_ls_dir('.')) AS t(a)", "sql:function"),
    ("postgres", "SELECT * FROM ROWS FROM (jsonb_to_record('{}') AS (a int)) AS t", "sql:syntax"),
    ("postgres", "SELECT * FROM ONLY users_secret", "sql:table"),
    ("mysql", "SELECT seq FROM seq_1_to_500000", "sql:table"),
    ("mysql", "SELECT id FROM seq_1_to_5", "sql:column"),
    ("mysql", "SELECT seq FROM other.seq_1_to_5", "sql:table"),
    ("mysql", "SELECT @@version", "sql:parameters"),
    ("postgres", "SELECT pg_catalog.upper(status), other.lower(status) FROM orders", "sql:syntax"),
    ("postgres", "SELECT id AS xmin FROM orders GROUP BY xmin", "sql:column"),  # the column that every table has
    ("postgres", "SELECT U&'d!!0061t' UESCAPE '!!'", "sql:literal"),
    ("mysql", "SELECT 0X1F", "sql:literal"),
    ("mysql", "SELECT 0B1", "sql:literal"),
    ("mysql", "SELECT $ 1", "sql:syntax"),
    ("sqlite", "SELECT $ 1", "sql:syntax"),
    ("duckdb", "SELECT * FROM generate_series(500000)", "sql:size"),
    ("duckdb", "SELECT o.ssn.a.b FROM customers o", "sql:column"),
    ("postgres", "SELECT jsonb_typeof(ssn->'a') FROM customers", "sql:column"),
    ("postgres", "SELECT 1 AS customers, customers::text FROM customers", "sql:whole-row"),
    ("postgres", "SELECT 1 AS c, max(c::text) OVER () FROM customers c", "sql:whole-row"),
    ("postgres", "SELECT id AS c FROM customers c WHERE c::text LIKE '%1%'", "sql:whole-row"),
    ("postgres", "SELECT id, rank() OVER (ORDER BY c) AS c FROM customers c", "sql:whole-row"),
    (
        "postgres",
        "SELECT 1 FROM customers c JOIN orders o ON c::text LIKE '%1%' JOIN (SELECT 1 AS c) t ON true",
        "sql:whole-row",
    ),
    ("postgres", "SELECT length(repeat(repeat('a', 1000), 1000))", "sql:size"),
    *(
        (dialect, "SELECT " + "DECIMAL(" * 19 + "1" + ")" * 19, "sql:too-deep")
        for dialect in ("postgres", "mysql", "duckdb", "sqlite")
    ),
    *((dialect, "SELECT " + "TIMESTAMP(" * 19 + "1" + ")" * 19, "sql:too-deep") for dialect in ("mysql", "duckdb")),
    *((dialect, "SELECT " + "ARRAY[" * 19 + "1" + "]" * 19, "sql:too-deep") for dialect in ("postgres", "duckdb")),
    ("postgres", "SELECT lpad(upper(repeat('a', 1000)), 900)", "sql:size"),
    ("postgres", "SELECT translate(status, status, 'x') FROM orders", "sql:size"),
    ("postgres", "SELECT btrim(status, repeat('b', 1000)) FROM orders", "sql:size"),
    ("postgres", "SELECT btrim(status, status || 'a') FROM orders", "sql:size"),
    ("duckdb", "SELECT repeat(repeat('a', 1000), 400)", "sql:size"),
    ("postgres", "SELECT 1 FROM customers c WHERE EXISTS (SELECT c::text AS c FROM orders)", "sql:whole-row"),
    ("postgres", "SELECT id FROM customers NATURAL JOIN (SELECT (t.ssn) FROM (SELECT 'x' AS ssn) t) u", "sql:column"),
    ("sqlite", "SELECT id FROM customers NATURAL JOIN (SELECT (t.ssn) FROM (SELECT 'x' AS ssn) t) u", "sql:column"),
    ("mysql", "SELECT id FROM customers NATURAL JOIN (SELECT (t.ssn) FROM (SELECT 'x' AS ssn) t) u", "sql:column"),
    ("duckdb", "SELECT 1 AS c, id FROM customers c WHERE c['ssn'] = '1'", "sql:whole-row"),
    ("duckdb", "SELECT to_json(*) FROM customers", "sql:syntax"),
    ("postgres", "SELECT id FROM tickets TABLESAMPLE BERNOULLI (10)", "sql:syntax"),
    ("postgres", "SELECT jsonb_typeof(status->ssn) FROM customers, orders", "sql:column"),
    ("postgres", "SELECT detail->'a'::text FROM orders", "sql:syntax"),
    ("postgres", "SELECT x FROM unnest(ARRAY[1]) WITH ORDINALITY AS t(n, i)", "sql:column"),
    ("postgres", "SELECT ROW(c.*) FROM customers c", "sql:whole-row"),
    ("duckdb", "SELECT * REPLACE (ssn AS name) FROM customers", "sql:column"),
    ("duckdb", "SELECT c.* REPLACE ((SELECT password FROM users_secret) AS name) FROM customers c", "sql:table"),
    ("mysql", "SELECT CONVERT(status USING evil) FROM orders", "sql:type"),
    ("postgres", 'SELECT secret FROM "Customers"', "sql:table"),
    ("postgres", "SELECT iban FROM hr.orders", "sql:table"),
    ("postgres", "SELECT * FROM information_schema.tables", "sql:table"),
    ("postgres", "SELECT * FROM pg_catalog.pg_user", "sql:table"),
    ("postgres", "SELECT (c).ssn FROM customers c", "sql:column"),
    ("postgres", "SELECT c.*::text FROM customers c", "sql:whole-row"),
    ("postgres", "SELECT x FROM customers AS c(a, b, d, x)", "sql:syntax"),
    ("postgres", "SELECT pg_sleep(20)", "sql:function"),
    ("postgres", "SELECT pg_read_file('x')", "sql:function"),
    ("postgres", "SELECT set_config('a', 'b', false)", "sql:function"),
    ("postgres", "SELECT util.lower('x')", "sql:syntax"),
    ("postgres", "SELECT 5::evil", "sql:type"),
    ("postgres", "SELECT 'users_secret'::regclass", "sql:syntax"),
    ("mysql", "SELECT status FROM orders ORDER BY id FETCH FIRST 101 ROWS WITH TIES", "sql:limit"),
    ("postgres", "SELECT * INTO t FROM orders", "sql:syntax"),
    ("postgres", "SELECT id FROM orders FOR UPDATE", "sql:syntax"),
    ("postgres", "TABLE users_secret", "sql:table"),
    ("postgres", "SELECT session_user", "sql:syntax"),
    ("postgres", "COPY orders TO STDOUT", "sql:not-a-query"),
    ("mysql", "SELECT id INTO OUTFILE 'x' FROM orders", "sql:syntax"),
    ("mysql", "SELECT @x := 5", "sql:syntax"),
    ("mysql", "SELECT @@version", "sql:parameters"),
    ("mysql", "SELECT sleep(20)", "sql:function"),
    ("mysql", "SELECT benchmark(1, 1)", "sql:function"),
    ("mysql", "SELECT load_file('x')", "sql:function"),
    ("mysql", "SELECT * FROM mysql.user", "sql:table"),
    ("duckdb", "SELECT * FROM 'x.csv'", "sql:table"),
    ("duckdb", "FROM read_csv('x')", "sql:function"),
    ("duckdb", "SELECT COLUMNS('s.n') FROM customers", "sql:column"),
    ("duckdb", "SELECT COLUMNS(['ssn']) FROM customers", "sql:column"),
    ("duckdb", "SELECT COLUMNS(lambda c: c LIKE 's%') FROM customers", "sql:column"),
    ("duckdb", "SELECT max(COLUMNS('ssn')) FROM customers", "sql:column"),
    ("duckdb", "SELECT id FROM customers WHERE COLUMNS('ssn') > 3", "sql:column"),
    ("duckdb", "SELECT id FROM customers ORDER BY COLUMNS(*)", "sql:syntax"),
    ("duckdb", "SELECT COLUMNS('(a*)*') FROM customers", "sql:size"),
    ("duckdb", "SELECT COLUMNS('(.*)(.*)(.*)(.*)x') FROM customers", "sql:size"),
    ("duckdb", "SELECT * LIKE 'ss%' FROM customers", "sql:column"),
    ("duckdb", "SELECT * RENAME (ssn AS id) FROM customers", "sql:column"),
    ("duckdb", "SUMMARIZE users_secret", "sql:table"),
    ("duckdb", "SUMMARIZE SELECT ssn FROM customers", "sql:column"),
    ("duckdb", "SELECT * FROM (SUMMARIZE 'x.csv')", "sql:not-a-query"),
    ("duckdb", "UNPIVOT customers ON ssn, name INTO NAME n VALUE v", "sql:column"),
    ("duckdb", "UNPIVOT users_secret ON id INTO NAME n VALUE v", "sql:table"),
    ("duckdb", "FROM customers PIVOT (max(ssn) FOR id IN (1))", "sql:column"),
    (
        "mysql",
        "SELECT j.x FROM JSON_TABLE((SELECT password FROM users_secret), '$' COLUMNS (x INT PATH '$')) j",
        "sql:table",
    ),
    ("mysql", "SELECT j.y FROM JSON_TABLE('[]', '$' COLUMNS (x INT PATH '$')) j", "sql:column"),
    ("postgres", "SELECT ssn FROM customers c, jsonb_to_record('{}') AS x(ssn text)", "sql:column"),
    ("postgres", "SELECT * FROM jsonb_to_recordset('[]') AS x(a regclass)", "sql:syntax"),
    ("postgres", "SELECT lower(name => name) FROM customers", "sql:syntax"),
    ("postgres", "SELECT repeat(name, least(id, 5000)) FROM customers", "sql:size"),
    ("postgres", "SELECT 'pg_class'::regclass", "sql:syntax"),
    ("duckdb", "SELECT getenv('HOME')", "sql:function"),
    ("duckdb", "SELECT 'HOME'.getenv()", "sql:function"),
    ("duckdb", "SELECT 'x'.\"read_text\"()", "sql:function"),
    ("duckdb", "SELECT 'x'.\"upper(1), getenv\"()", "sql:function"),
    ("duckdb", "SELECT ssn.upper() FROM customers", "sql:column"),
    ("duckdb", "SELECT customers.ssn.upper() FROM customers", "sql:column"),
    ("duckdb", "SELECT customers.to_json() FROM customers", "sql:whole-row"),
    ("duckdb", "SELECT main.getenv('HOME')", "sql:function"),
    ("duckdb", "SELECT 'a'.repeat(100000).repeat(100000)", "sql:size"),
    ("mysql", "SELECT _gbk'a'", "sql:type"),
    ("mysql", "SELECT 1 /*! , (SELECT password FROM users_secret) */", "sql:comment"),
    ("mysql", "SELECT CONVERT(name USING gbk) FROM customers", "sql:type"),
    ("mysql", "SET NAMES gbk", "sql:not-a-query"),
    ("duckdb", "SELECT id FROM orders LIMIT (SELECT 50)%", "sql:limit"),
    ("duckdb", "FROM customers POSITIONAL JOIN orders", "sql:column"),
    ("duckdb", "SELECT c.id FROM customers c ORDER BY c", "sql:whole-row"),
]


@pytest.mark.parametrize(
    ("dialect", "sql", "tool"),
    [
        ("mysql", "SHOW TABLES", "list_tables"),
        ("mysql", "DESC customers", "describe_table"),
        ("sqlite", "PRAGMA table_info(customers)", "describe_table"),
        ("sqlite", ".tables", "list_tables"),
        ("sqlite", ".schema customers", "describe_table"),
        ("postgres", "\\dt", "list_tables"),
        ("postgres", "\\d customers", "describe_table"),
        ("postgres", "EXPLAIN SELECT 1", "explain"),
        ("duckdb", "DESCRIBE customers", "describe_table"),
        ("duckdb", "FROM duckdb_tables()", "list_tables"),
    ],
)
def test_commands_about_a_database_are_refused_with_the_tool_to_call(dialect: str, sql: str, tool: str) -> None:
    assert f"the tool {tool}" in refused(sql, dialect=dialect).suggestion


@pytest.mark.parametrize(("dialect", "sql", "rule"), REFUSED)
def test_what_a_dialect_adds_is_refused_unless_it_is_listed(dialect: str, sql: str, rule: str) -> None:
    assert refused(sql, dialect=dialect).rule == rule


SHARED = Path(__file__).parents[4].parent / "shared" / "corpus" / "sql" / "corpus" / "dev"
COLUMNS = {
    "customers": "id name email country created_at update_time deleted credit_limit limit tags profile ssn api_token",
    "products": "id sku name category price attrs active description",
    "orders": "id customer_id status placed_at shipped_at total note order",
    "order_items": "order_id line_no product_id qty unit_price",
    "events": "id user_id kind ts payload amount",
    "v_active_customers": "id name country created_at",
    "v_country_sales": "country month revenue n",
}


@pytest.mark.skipif(not SHARED.exists(), reason="the SQL corpus is not here")
@pytest.mark.parametrize("dialect", ["sqlite", "postgres", "mysql", "duckdb"])
def test_hardly_an_honest_question_of_the_corpus_is_refused(dialect: str) -> None:
    tables = tuple(
        Table(
            name=name,
            columns=tuple(Column(name=column, type="TEXT") for column in columns.split()),
            view=name.startswith("v_"),
        )
        for name, columns in COLUMNS.items()
    )
    granted = {name: TableScope() for name in COLUMNS} | {
        "customers": TableScope(columns=tuple(COLUMNS["customers"].split()[:11]))
    }
    counts: Counter[bool] = Counter()
    for line in (SHARED / "benign.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["dialect"] == dialect:
            sql = row["sql"].replace("%s", "?") if row.get("params") and dialect == "mysql" else row["sql"]
            scope = SqlScope(tables=granted)
            verdict = guard(
                sql,
                row.get("params") or [],
                database=Database(dialect=dialect, tables=tables),
                scope=scope,
                attributes={},
            )
            counts[isinstance(verdict, Statement)] += 1
    assert counts[True] > 0
    assert counts[False] == 0


@pytest.mark.parametrize("dialect", sorted(name for name, record in RECORDS.items() if not record.changes))
@pytest.mark.parametrize(
    "sql", ["INSERT INTO T (ID) VALUES (1)", "UPDATE T SET ID = 2 WHERE ID = 1", "DELETE FROM T WHERE ID = 1"]
)
def test_rows_of_an_engine_that_is_only_read_are_not_changed(dialect: DialectName, sql: str) -> None:
    known = Database(dialect=dialect, tables=(Table(name="T", columns=(Column(name="ID", type="INT"),)),))
    every = frozenset({"insert", "update", "delete"})
    scope = SqlScope(tables={"T": TableScope(writes=every)})
    verdict = guard_change(sql, [], database=known, scope=scope, attributes={})
    assert isinstance(verdict, Deny)
    assert verdict.rule == "sql:not-a-change"
