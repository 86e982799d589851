"""DuckDB's PIVOT with its values written out answers as in the engine, of what may be seen alone; other forms say what to write."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.connectors.sql.execution.guarded import asked, built, database, rows, run
from toolgen.model.database import Database
from toolgen.model.result import Success
from toolgen.model.sql_scope import TableScope
from toolgen.model.verdict import Deny

pytestmark = pytest.mark.usefixtures("sql_processes")

SCRIPT = """
CREATE TABLE sales (city VARCHAR, year INTEGER, total INTEGER, kind VARCHAR, ssn VARCHAR);
INSERT INTO sales VALUES ('Rome', 2000, 5, 'a', 's1'), ('Rome', 2010, 7, 'b', 's2'), ('Oslo', 2000, 1, 'a', 's3');
INSERT INTO sales VALUES ('Oslo', 2010, NULL, 'b', 's4');
INSERT INTO sales VALUES ('Oslo', 2020, 9, NULL, 's5'), (NULL, 2000, 2, 'a', 's6'), ('Rome', 2000, 4, 'b', 's7');
CREATE VIEW seen AS SELECT city, year, total, kind FROM sales;
"""
SEEN = TableScope(columns=("city", "year", "total", "kind"))

PLAIN = [
    "PIVOT sales ON year IN (2000, 2010) USING sum(total) GROUP BY city ORDER BY city",
    "PIVOT sales ON year IN ('2000', '2010') USING count(total) GROUP BY city ORDER BY city DESC LIMIT 2 OFFSET 1",
    "PIVOT sales ON year IN (2000, 2010) GROUP BY city ORDER BY ALL",
    "PIVOT sales ON year IN (2000, 2010) USING sum(total) ORDER BY ALL",
    "PIVOT sales ON kind IN ('a', 'it''s', 'B') USING sum(total) AS s, count(*) AS n GROUP BY city, year ORDER BY ALL",
    "PIVOT sales ON year IN (-1, 2000) USING count(DISTINCT kind) AS n GROUP BY city ORDER BY \"2000_n\", city",
    "PIVOT sales ON Year IN (2000) USING max(Total + 1) GROUP BY CITY ORDER BY \"2000\", city",
    "PIVOT (SELECT city, year, total FROM sales WHERE total > 1) ON year IN (2000) USING sum(total) ORDER BY ALL",
    "SELECT p.city, p.\"2000\" + 1 AS more FROM (PIVOT sales ON year IN (2000) USING sum(total) GROUP BY city) p ORDER BY ALL",
    "WITH p AS (PIVOT sales ON kind IN ('a') USING min(total) GROUP BY city) SELECT * FROM p ORDER BY ALL",
    "SELECT * FROM sales PIVOT (sum(total) FOR year IN (2000, 2010) GROUP BY city) ORDER BY ALL",
    "SELECT p.* FROM sales PIVOT (sum(total) AS s, count(*) AS n FOR kind IN ('a' AS x, 'b' AS y) GROUP BY city) AS p ORDER BY ALL",
    "FROM (SELECT city, year, total FROM sales) PIVOT (sum(total) FOR year IN (2000)) ORDER BY ALL",
    "UNPIVOT (SELECT city, year, total FROM sales) ON year, total INTO NAME what VALUE n ORDER BY ALL",
    "UNPIVOT sales ON year, total INTO NAME what VALUE n ORDER BY ALL",
    "SELECT * FROM sales UNPIVOT INCLUDE NULLS (n FOR what IN (year AS y, total)) ORDER BY ALL",
    "SELECT u.city, sum(u.value) FROM (UNPIVOT sales ON year, total) u GROUP BY u.city ORDER BY ALL",
    "SUMMARIZE sales",
    "SELECT column_name, max, null_percentage FROM (SUMMARIZE sales) ORDER BY column_name",
    "SUMMARIZE SELECT city, total FROM sales WHERE total > 1",
]  # fmt: skip
REFUSED = [
    "PIVOT sales ON year USING sum(total) GROUP BY city",
    "PIVOT sales ON year IN (SELECT year FROM sales) USING sum(total) GROUP BY city",
    "PIVOT sales ON year IN (2000, NULL) USING sum(total) GROUP BY city",
    "PIVOT sales ON year IN (2000, 2000) USING sum(total) GROUP BY city",
    "PIVOT sales ON kind IN ('city') USING sum(total) GROUP BY city",
    "PIVOT sales ON year IN (2000) USING sum(total), count(*) GROUP BY city",
    "UNPIVOT sales ON total + 1 INTO NAME n VALUE v",
    "SELECT * FROM sales PIVOT (sum(total) FOR year IN (SELECT year FROM sales))",
]
HIDDEN = [
    "PIVOT sales ON ssn IN ('s1') USING count(*) GROUP BY city",
    "PIVOT sales ON year IN (2000) USING max(ssn) GROUP BY city",
    "PIVOT sales ON year IN (2000) USING count(*) GROUP BY ssn",
    "PIVOT seen ON year IN (2000) USING count(*) GROUP BY city",
    "UNPIVOT sales ON ssn, kind INTO NAME n VALUE v",
    "SELECT v FROM sales UNPIVOT (v FOR n IN (ssn, kind))",
    "SUMMARIZE seen",
    "SUMMARIZE SELECT ssn FROM sales",
    "SELECT * FROM (SUMMARIZE read_csv('/etc/passwd'))",
    "SELECT COLUMNS('ssn') FROM sales",
    "SELECT COLUMNS(['ssn', 'city']) FROM sales",
    "PIVOT read_csv('/etc/passwd') ON a IN ('b') USING count(*)",
    "PIVOT sales ON year IN (2000) USING getenv('HOME') GROUP BY city",
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Database]:
    with database("duckdb", SCRIPT, tmp_path_factory.mktemp("pivots")) as location:
        return location, built(location)


@pytest.mark.parametrize("sql", PLAIN)
def test_a_plain_pivot_answers_as_the_engine_does(lab: tuple[str, Database], sql: str) -> None:
    location, found = lab
    result = run(location, asked(found, sql, sales=SEEN), operation="query")[0]
    assert isinstance(result, Success), result
    wanted = [
        tuple(float(value) if isinstance(value, Decimal) else value for value in row)
        for row in rows(location, sql.replace("sales", "seen"))
    ]
    assert [tuple(row) for row in result.data["rows"]] == wanted


@pytest.mark.parametrize("sql", REFUSED)
def test_a_pivot_whose_columns_depend_on_rows_is_refused_with_what_to_write(
    lab: tuple[str, Database], sql: str
) -> None:
    verdict = asked(lab[1], sql, sales=SEEN)
    assert isinstance(verdict, Deny)
    assert "PIVOT t ON name IN" in verdict.suggestion or "ON year IN ('…', '…')" in verdict.suggestion


@pytest.mark.parametrize("sql", HIDDEN)
def test_a_pivot_tells_nothing_of_what_is_hidden(lab: tuple[str, Database], sql: str) -> None:
    assert isinstance(asked(lab[1], sql, sales=SEEN), Deny)


def test_rows_of_a_pivot_have_the_columns_that_are_open(lab: tuple[str, Database]) -> None:
    sql = "PIVOT sales ON year IN (2000) USING list(sales) GROUP BY city ORDER BY city"
    result = run(lab[0], asked(lab[1], sql, sales=SEEN), operation="query")[0]
    assert isinstance(result, Success), result
    assert result.data["rows"][0] == ["Oslo", [{"city": "Oslo", "year": 2000, "total": 1, "kind": "a"}]]


def test_a_pivot_without_groups_gives_no_hidden_column(lab: tuple[str, Database]) -> None:
    location, found = lab
    sql = "PIVOT sales ON year IN (2000) USING sum(total)"
    result = run(location, asked(found, sql, sales=SEEN), operation="query")[0]
    assert isinstance(result, Success), result
    assert [column["name"] for column in result.data["columns"]] == ["city", "kind", "2000"]
