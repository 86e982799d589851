"""A dataset of BigQuery with something to hide, what makes it, and honest statements on it."""

from __future__ import annotations

from typing import Final

from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement
from toolgen.model.database import Column, Database, Table
from toolgen.model.schema import Json
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.verdict import Deny

__all__ = ["CANARY", "DATABASE", "HONEST", "SCOPE", "SCRIPT", "TABLES", "judged"]

CANARY: Final = "CANARY-7"
TABLES: Final[dict[str, dict[str, str]]] = {
    "customers": {"id": "INT64", "name": "STRING", "country": "STRING", "ssn": "STRING"},
    "orders": {
        "id": "INT64",
        "customer_id": "INT64",
        "status": "STRING",
        "total": "INT64",
        "made": "DATE",
        "at": "TIMESTAMP",
        "tags": "ARRAY<STRING>",
        "place": "STRUCT<city STRING, zip STRING>",
    },
    "tickets": {"id": "INT64", "tenant": "STRING", "body": "STRING"},
    "vault": {"id": "INT64", "secret": "STRING"},
}
SCRIPT: Final = (
    *(
        f"CREATE TABLE {name} ({', '.join(f'{column} {kind}' for column, kind in columns.items())})"
        for name, columns in TABLES.items()
    ),
    f"INSERT INTO customers VALUES (1, 'Ann', 'DE', '{CANARY}'), (2, 'Bo', 'FR', '{CANARY}'), (3, 'Cy', 'DE', '{CANARY}')",
    "INSERT INTO orders VALUES"
    " (1, 1, 'open', 5, DATE '2024-01-15', TIMESTAMP '2024-01-15 10:30:00+00', ['a', 'b'], STRUCT('Bonn', '1')),"
    " (2, 1, 'paid', 7, DATE '2024-02-01', TIMESTAMP '2024-02-01 11:00:00+00', ['b'], STRUCT('Köln', '2')),"
    " (3, 2, 'open', 30, DATE '2024-02-20', TIMESTAMP '2024-02-20 12:00:00+00', ['c'], STRUCT('Lyon', '3'))",
    f"INSERT INTO tickets VALUES (1, 'acme', 'ours'), (2, 'other', '{CANARY}')",
    f"INSERT INTO vault VALUES (1, '{CANARY}')",
)
DATABASE: Final = Database(
    dialect="bigquery",
    name="shop",
    tables=tuple(
        Table(name=name, columns=tuple(Column(name=column, type=kind) for column, kind in columns.items()))
        for name, columns in TABLES.items()
    ),
)
SCOPE: Final = SqlScope(
    tables={
        "customers": TableScope(columns=("id", "name", "country")),
        "orders": TableScope(),
        "tickets": TableScope(rows="tenant = :tenant"),
    },
    max_rows=100,
    max_bytes=1_000_000,
    max_cell_bytes=10_000,
    timeout_s=30.0,
)
HONEST: Final[tuple[tuple[str, list[list[Json]]], ...]] = (
    ("SELECT id, name FROM customers ORDER BY id", [[1, "Ann"], [2, "Bo"], [3, "Cy"]]),
    ("SELECT * FROM customers WHERE id = 2", [[2, "Bo", "FR"]]),
    ("SELECT * EXCEPT (country) FROM customers ORDER BY id LIMIT 1", [[1, "Ann"]]),
    ("SELECT * REPLACE (UPPER(name) AS name) FROM customers WHERE id = 1", [[1, "ANN", "DE"]]),
    ("SELECT country, COUNT(*) AS n FROM customers GROUP BY country ORDER BY n DESC, country", [["DE", 2], ["FR", 1]]),
    ("SELECT country, COUNT(*) AS n FROM customers GROUP BY ALL ORDER BY country", [["DE", 2], ["FR", 1]]),
    ("SELECT c.name, SUM(o.total) AS s FROM customers AS c JOIN orders AS o ON o.customer_id = c.id GROUP BY c.name ORDER BY s",
     [["Ann", 12], ["Bo", 30]]),
    ("SELECT c.name, o.id FROM customers c LEFT JOIN orders o ON o.customer_id = c.id AND o.total > 6 ORDER BY c.id, o.id",
     [["Ann", 2], ["Bo", 3], ["Cy", None]]),
    ("SELECT name FROM customers WHERE id IN (SELECT customer_id FROM orders WHERE total BETWEEN 6 AND 8)", [["Ann"]]),
    ("SELECT name FROM customers AS c WHERE NOT EXISTS (SELECT 1 FROM orders AS o WHERE o.customer_id = c.id)", [["Cy"]]),
    ("WITH big AS (SELECT id, total FROM orders WHERE total > 6) SELECT id FROM big ORDER BY total DESC", [[3], [2]]),
    ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT SUM(n) AS s FROM r", [[10]]),
    ("SELECT FORMAT_DATE('%Y-%m-%d', DATE_TRUNC(made, MONTH)) AS m, COUNT(*) AS n FROM orders GROUP BY m ORDER BY m",
     [["2024-01-01", 1], ["2024-02-01", 2]]),
    ("SELECT EXTRACT(MONTH FROM made) AS m, SUM(total) AS s FROM orders GROUP BY m ORDER BY m", [[1, 5], [2, 37]]),
    ("SELECT DATE_DIFF(made, DATE '2024-01-01', DAY) AS d FROM orders ORDER BY id", [[14], [31], [50]]),
    ("SELECT DATE_ADD(made, INTERVAL 1 DAY) AS d, FORMAT_DATE('%Y-%m', made) AS m FROM orders WHERE id = 1", [["2024-01-16", "2024-01"]]),
    ("SELECT TIMESTAMP_TRUNC(at, HOUR) AS h FROM orders WHERE id = 1", [["2024-01-15 10:00:00+00:00"]]),
    ("SELECT id FROM orders WHERE at >= TIMESTAMP '2024-02-10 00:00:00+00'", [[3]]),
    ("SELECT id FROM orders WHERE made BETWEEN DATE '2024-02-01' AND DATE '2024-02-10'", [[2]]),
    ("SELECT tag, COUNT(*) AS n FROM orders, UNNEST(tags) AS tag GROUP BY tag ORDER BY n DESC, tag", [["b", 2], ["a", 1], ["c", 1]]),
    ("SELECT o.id, tag, pos FROM orders AS o CROSS JOIN UNNEST(o.tags) AS tag WITH OFFSET AS pos WHERE o.id = 1 ORDER BY pos",
     [[1, "a", 0], [1, "b", 1]]),
    ("SELECT o.id, t FROM orders o, o.tags AS t WHERE o.id = 2", [[2, "b"]]),
    ("SELECT id FROM orders WHERE 'b' IN UNNEST(tags) ORDER BY id", [[1], [2]]),
    ("SELECT tags[OFFSET(0)] AS a, tags[SAFE_OFFSET(1)] AS b, ARRAY_LENGTH(tags) AS n FROM orders ORDER BY id",
     [["a", "b", 2], ["b", None, 1], ["c", None, 1]]),
    ("SELECT place.city, o.place.zip FROM orders AS o ORDER BY id LIMIT 1", [["Bonn", "1"]]),
    ("SELECT x FROM UNNEST(GENERATE_ARRAY(1, 3)) AS x ORDER BY x DESC", [[3], [2], [1]]),
    ("SELECT id FROM orders WHERE status IN ('open', 'new') ORDER BY total DESC", [[3], [1]]),
    ("SELECT COUNTIF(total > 6) AS n, COUNT(DISTINCT status) AS d, AVG(total) AS a FROM orders", [[2, 2, 14.0]]),
    ("SELECT STRING_AGG(status, ',' ORDER BY id) AS s, ARRAY_AGG(id ORDER BY id) AS a FROM orders", [["open,paid,open", [1, 2, 3]]]),
    ("SELECT id, ROW_NUMBER() OVER (PARTITION BY status ORDER BY total DESC) AS r FROM orders WHERE total > 1 QUALIFY r = 1 ORDER BY id",
     [[2, 1], [3, 1]]),
    ("SELECT id, SUM(total) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS s FROM orders ORDER BY id",
     [[1, 5], [2, 12], [3, 42]]),
    ("SELECT IF(total > 6, 'big', 'small') AS size, IFNULL(NULLIF(status, 'open'), 'none') AS s FROM orders ORDER BY id",
     [["small", "none"], ["big", "paid"], ["big", "none"]]),
    ("SELECT CASE WHEN total > 6 THEN 'big' ELSE 'small' END AS size, COUNT(*) AS n FROM orders GROUP BY size ORDER BY size",
     [["big", 2], ["small", 1]]),
    ("SELECT SAFE_CAST(status AS INT64) AS a, CAST(total AS STRING) AS b, CAST(total AS FLOAT64) AS c FROM orders WHERE id = 1",
     [[None, "5", 5.0]]),
    ("SELECT SAFE_DIVIDE(total, 0) AS a, DIV(total, 2) AS b, MOD(total, 2) AS c, ROUND(total / 3, 2) AS d FROM orders WHERE id = 1",
     [[None, 2, 1, 1.67]]),
    ("SELECT UPPER(name) AS a, LENGTH(name) AS b, SUBSTR(name, 1, 2) AS c, CONCAT(name, '-', country) AS d, name || '!' AS e "
     "FROM customers WHERE id = 1", [["ANN", 3, "An", "Ann-DE", "Ann!"]]),
    ("SELECT name FROM customers WHERE LOWER(name) LIKE 'a%' AND country NOT LIKE 'F%'", [["Ann"]]),
    ("SELECT REGEXP_CONTAINS(name, 'n+$') AS a, REGEXP_REPLACE(name, 'n', 'm') AS b, STARTS_WITH(name, 'A') AS c "
     "FROM customers WHERE id = 1",
     [[True, "Amm", True]]),
    ("SELECT id FROM customers UNION ALL SELECT id FROM orders ORDER BY id LIMIT 2", [[1], [1]]),
    ("SELECT id FROM customers EXCEPT DISTINCT SELECT customer_id FROM orders", [[3]]),
    ("SELECT `customers`.`name` FROM `shop.customers` WHERE `id` = 3", [["Cy"]]),
    ("SELECT name FROM shop.customers WHERE id = 3 -- the last one", [["Cy"]]),
    ("SELECT id, body FROM tickets", [[1, "ours"]]),
    ("SELECT COUNT(*) AS n, MAX(body) AS b FROM tickets", [[1, "ours"]]),
    ("SELECT body FROM tickets WHERE 10 / (id - 2) < 0", [["ours"]]),
    ("SELECT 'it\\'s' AS a, \"b'c\" AS b, 'd\\\\e' AS c", [["it's", "b'c", "d\\e"]]),
)  # fmt: skip


def judged(sql: str, *parameters: Json, database: Database = DATABASE, scope: SqlScope = SCOPE) -> Statement | Deny:
    """Return the guard's verdict for the principal of the tenant acme."""
    return guard(sql, list(parameters), database=database, scope=scope, attributes={"tenant": "acme"})
