"""What a server would search for longer than anybody waits is refused; what people search for is not."""

from __future__ import annotations

import pytest

from tests.connectors.sql.guard.lab import allowed, judge
from toolgen.model.call import Statement
from toolgen.model.verdict import Deny

LONG = "a" * 1_001

REFUSED: list[tuple[str, str, tuple[object, ...]]] = [
    ("duckdb", "SELECT approx_top_k(name, 100000) FROM customers", ()),
    ("duckdb", "SELECT approx_top_k(name, id) FROM customers", ()),
    ("duckdb", "SELECT max(repeat(name, 60), 1000) FROM customers", ()),
    ("duckdb", "SELECT min_by(name, id, 100000) FROM customers", ()),
    ("duckdb", "SELECT arg_max(name, id, length(name)) FROM customers", ()),
    ("duckdb", "SELECT bitstring_agg(length(name), 0, 100000000) FROM customers", ()),
    ("postgres", f"SELECT strpos(repeat(name, 1000), '{LONG}') FROM customers", ()),
    ("postgres", f"SELECT position('{LONG}' IN repeat(name, 1000)) FROM customers", ()),
    ("postgres", f"SELECT name FROM customers WHERE repeat(name, 1000) LIKE '%{LONG}'", ()),
    ("postgres", f"SELECT name FROM customers WHERE NOT repeat(name, 1000) ILIKE ('%{LONG}')", ()),
    ("postgres", "SELECT strpos(repeat(name, 1000), $1) FROM customers", (LONG,)),
    ("postgres", "SELECT name FROM customers WHERE repeat(name, 1000) LIKE '%' || $1 || '%'", (LONG,)),
    ("postgres", "SELECT replace($1, lower($2), '') FROM customers", ("a" * 40_000, "a" * 20_000)),
    ("mysql", f"SELECT LOCATE('{LONG}', repeat(name, 1000)) FROM customers", ()),
    ("mysql", "SELECT INSTR(repeat(name, 1000), ?) FROM customers", (LONG,)),
    ("mysql", "SELECT name FROM customers WHERE repeat(name, 200) LIKE ?", (LONG,)),
    ("mysql", "SELECT FIND_IN_SET(GROUP_CONCAT(name), repeat(name, 1000)) FROM customers", ()),
    ("postgres", "SELECT split_part(name, (SELECT string_agg(name, '') FROM orders o JOIN customers c ON true), 1) FROM customers", ()),
    ("postgres", "SELECT strpos(t.h, t.n) FROM (SELECT string_agg(name, '') AS h, string_agg(name, 'a') AS n FROM customers) t", ()),
    ("postgres", "WITH RECURSIVE t(x) AS (SELECT 'a' UNION ALL SELECT x || x FROM t) SELECT strpos(x, x) FROM t", ()),
    ("postgres", "SELECT array_agg(a.id) && array_agg(a.id) FROM customers a", ()),
    ("postgres", "SELECT ARRAY(SELECT id FROM customers) @> ARRAY(SELECT id FROM orders)", ()),
    ("postgres", "SELECT format('%1$900000s', name) FROM customers", ()),
    ("postgres", "SELECT format('%1$1001s', name) FROM customers", ()),
    ("postgres", "SELECT format('%1$*2$s', name, 5) FROM customers", ()),
    ("postgres", "SELECT format('%1$-900000s', name) FROM customers", ()),
    ("postgres", "SELECT $1::text, $2::text", ("a" * 40_000, "a" * 40_000)),
    ("postgres", "SELECT id FROM customers WHERE id = ANY($1)", (["a"] * 20_000,)),
    ("postgres", f"SELECT {'reverse(' * 5}string_agg(name, ''){')' * 5} FROM customers", ()),
    ("postgres", f"SELECT {', '.join(['initcap(t.x)'] * 5)} FROM (SELECT string_agg(name, '') AS x FROM customers) t", ()),
    ("postgres", f"SELECT {', '.join(['upper(y)'] * 5)} FROM (SELECT x AS y FROM (SELECT string_agg(name, '') x FROM customers) a) b", ()),
    ("postgres", f"WITH c(z) AS (SELECT string_agg(name, '') FROM customers) SELECT {', '.join(['md5(z)'] * 5)} FROM c", ()),
    ("postgres", f"SELECT {', '.join(['reverse(x)'] * 5)} FROM (SELECT json_agg(name)::text AS x FROM customers) t", ()),
    ("postgres", f"SELECT {', '.join(['reverse(t::text)'] * 5)} FROM (SELECT json_agg(name) FROM customers) t", ()),
    ("postgres", f"SELECT {', '.join(['reverse(string_agg)'] * 5)} FROM (SELECT string_agg(name, '') FROM customers) t", ()),
    ("postgres", f"WITH RECURSIVE t(x) AS (SELECT 'a' UNION ALL SELECT x || x FROM t) SELECT {', '.join(['lower(x)'] * 5)} FROM t", ()),
    ("mysql", "SELECT REPLACE(h, n, '') FROM (SELECT GROUP_CONCAT(name) AS h, REPEAT(MAX(name), 1000) AS n FROM customers) t", ()),
    ("sqlite", "SELECT ?, ?", ("a" * 40_000, "a" * 40_000)),
    ("duckdb", "SELECT ?", ("a" * 70_000,)),
]  # fmt: skip

HONEST: list[tuple[str, str, tuple[object, ...]]] = [
    ("postgres", f"SELECT strpos(name, '{LONG}') FROM customers", ()),
    ("postgres", f"SELECT position('{LONG}' IN name) FROM customers", ()),
    ("postgres", f"SELECT name FROM customers WHERE name LIKE '%{LONG}'", ()),
    ("postgres", f"SELECT name FROM customers WHERE NOT name ILIKE ('%{LONG}')", ()),
    ("postgres", "SELECT strpos(name, $1) FROM customers", (LONG,)),
    ("postgres", "SELECT name FROM customers WHERE name LIKE '%' || $1 || '%'", (LONG,)),
    ("postgres", "SELECT replace($1, lower($2), '') FROM customers", ("a", LONG)),
    ("postgres", "SELECT strpos(name, repeat('a', 900)) FROM customers", ()),
    (
        "postgres",
        "SELECT strpos(x, x) FROM (SELECT x || x || x AS x FROM (SELECT name || name AS x FROM customers) a) b",
        (),
    ),
    ("mysql", f"SELECT LOCATE('{LONG}', name) FROM customers", ()),
    ("mysql", "SELECT INSTR(name, ?) FROM customers", (LONG,)),
    ("mysql", "SELECT name FROM customers WHERE name LIKE ?", (LONG,)),
    ("mysql", "SELECT FIND_IN_SET(GROUP_CONCAT(name), 'a') FROM customers", ()),
    ("postgres", "SELECT strpos(name, '@'), position('b' IN name), replace(name, 'a', 'b') FROM customers", ()),
    ("postgres", "SELECT name FROM customers WHERE name ILIKE '%' || $1 || '%'", ("smith",)),
    ("postgres", "SELECT country, string_agg(name, ', ') FROM customers WHERE name LIKE 'A%' GROUP BY country", ()),
    ("postgres", "SELECT replace(string_agg(name, ', '), ',', ';') FROM customers", ()),
    (
        "postgres",
        "SELECT upper(trim(string_agg(upper(name), ', '))), lower(country), initcap(country), upper(country) FROM customers GROUP BY 2",
        (),
    ),
    (
        "postgres",
        "SELECT upper(c), lower(c), md5(c), trim(c), left(c, 1) FROM (SELECT country c, string_agg(id, '') n FROM orders, customers) t",
        (),
    ),
    ("postgres", "SELECT c.name FROM customers c JOIN orders o ON o.detail LIKE '%' || c.name || '%'", ()),
    ("postgres", "SELECT country FROM customers GROUP BY country HAVING array_agg(name) @> ARRAY['a', 'b']", ()),
    ("postgres", "SELECT country FROM customers GROUP BY country HAVING array_agg(id) && $1", ([1, 2],)),
    ("postgres", "SELECT format('%1$s and %2$10s, %-5s, %1$1000s', name, country, id) FROM customers", ()),
    ("postgres", "SELECT id FROM customers WHERE id = ANY($1)", ([1] * 10_000,)),
    ("postgres", "SELECT $1::text", ("a" * 60_000,)),
    ("mysql", "SELECT SUBSTRING_INDEX(name, ' ', 1), LOCATE('a', name) FROM customers WHERE name LIKE ?", ("%a%",)),
    ("mysql", "SELECT country, GROUP_CONCAT(name) FROM customers WHERE name LIKE '%a%' GROUP BY country", ()),
    ("sqlite", "SELECT instr(name, ?) FROM customers", (LONG,)),
]


@pytest.mark.parametrize(("dialect", "sql", "parameters"), REFUSED, ids=[f"{row[0]} {row[1][:70]}" for row in REFUSED])
def test_a_search_nobody_could_stop_is_refused(dialect: str, sql: str, parameters: tuple[object, ...]) -> None:
    verdict = judge(sql, *parameters, dialect=dialect)
    assert isinstance(verdict, Deny), verdict
    assert verdict.rule in {"sql:size", "sql:parameters"}, verdict
    assert verdict.suggestion


@pytest.mark.parametrize(("dialect", "sql", "parameters"), HONEST, ids=[f"{row[0]} {row[1][:70]}" for row in HONEST])
def test_what_people_search_for_is_allowed(dialect: str, sql: str, parameters: tuple[object, ...]) -> None:
    assert isinstance(allowed(sql, *parameters, dialect=dialect), Statement)
