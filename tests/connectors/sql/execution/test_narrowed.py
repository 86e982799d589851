"""A table read through a subquery of what may be seen answers as the table itself does: groups by a key, samples, joins, orders, plans."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.connectors.sql.execution.guarded import ENGINES, asked, built, database, rows, run
from toolgen.model.call import Statement
from toolgen.model.database import Database
from toolgen.model.result import Success
from toolgen.model.sql_scope import TableScope

pytestmark = pytest.mark.usefixtures("sql_processes")

SCRIPT = """
CREATE TABLE people (id INT PRIMARY KEY, nick VARCHAR(20), city VARCHAR(20), extra INT, ssn VARCHAR(20));
INSERT INTO people VALUES (1, 'ann', 'Rome', 5, 's1'), (2, 'bob', 'Oslo', NULL, 's2'), (3, 'cid', 'Rome', 7, 's3');
CREATE TABLE orders (id INT PRIMARY KEY, person INT, total INT);
INSERT INTO orders VALUES (10, 1, 4), (11, 1, 6), (12, 3, 1), (13, 9, 2);
"""
SEEN = "id, nick, city, extra,"  # in place of `*,`, for whom nothing is hidden
PEOPLE = TableScope(columns=("id", "nick", "city", "extra"))

EVERYWHERE = [
    "SELECT p.nick, o.total FROM people p JOIN orders o ON o.person = p.id ORDER BY o.total",
    "SELECT p.nick, o.total FROM orders o LEFT JOIN people p ON o.person = p.id ORDER BY o.id",
    "SELECT o.id, p.nick FROM (people p JOIN orders o ON o.person = p.id) ORDER BY o.id",
    "SELECT people.nick FROM people WHERE EXISTS (SELECT 1 FROM orders WHERE person = people.id) ORDER BY 1",
    "SELECT count(*) FROM people",
    "SELECT count(*) FROM people, orders",
    "SELECT a.nick, b.nick FROM people a JOIN people b ON a.city = b.city AND a.id < b.id",
    "SELECT nick FROM people WHERE id IN (SELECT person FROM orders) ORDER BY nick",
    "SELECT city, count(*) AS n FROM people GROUP BY city ORDER BY n DESC, city",
    "SELECT nick, (SELECT sum(total) FROM orders WHERE person = people.id) AS s FROM people ORDER BY id",
    "SELECT id FROM people UNION SELECT id FROM orders ORDER BY 1",
    "WITH p AS (SELECT * FROM people) SELECT max(nick) FROM p",
    "SELECT *, 1 AS one FROM people ORDER BY id",
    "SELECT nick, rank() OVER (PARTITION BY city ORDER BY id DESC) AS r FROM people ORDER BY nick",
    "SELECT max(extra) FROM people",
]
ONE = {
    "postgres": [
        "SELECT id, nick, upper(city) FROM people GROUP BY id ORDER BY city, id",
        "SELECT p.nick, sum(o.total) AS s FROM people p JOIN orders o ON o.person = p.id GROUP BY p.id HAVING max(p.extra) > 1 ORDER BY s",
        "SELECT p.nick, count(o.id) AS n FROM people p LEFT JOIN orders o ON o.person = p.id GROUP BY p.id, p.city ORDER BY n, p.nick",
        "SELECT id, nick, (SELECT count(*) FROM orders WHERE person = people.id AND people.extra > 1) FROM people GROUP BY 1 ORDER BY 1",
        "SELECT p.nick FROM people p GROUP BY (p.id) ORDER BY p.extra NULLS LAST",
        "SELECT count(*) FROM people TABLESAMPLE BERNOULLI (100)",
        "SELECT DISTINCT ON (city) city, nick FROM people ORDER BY city, id DESC",
    ],
    "mysql": [
        "SELECT nick FROM people USE INDEX (PRIMARY) WHERE id > 1 ORDER BY id",
        "SELECT p.nick, sum(o.total) AS s FROM people p JOIN orders o ON o.person = p.id GROUP BY p.id ORDER BY s",
        "SELECT STRAIGHT_JOIN p.nick FROM people p FORCE INDEX (PRIMARY) JOIN orders o ON o.person = p.id ORDER BY o.id",
    ],
    "sqlite": [
        "SELECT city, nick, max(id) FROM people GROUP BY city ORDER BY city",
        "SELECT rowid, nick FROM people WHERE rowid > 1 ORDER BY rowid",
        "SELECT DISTINCT o.total, p.nick FROM orders o LEFT JOIN people p ON p.id = o.person ORDER BY o.total",
    ],
    "duckdb": [
        "SELECT city, list(nick ORDER BY id) FROM people GROUP BY ALL ORDER BY ALL",
        "FROM people SELECT nick ORDER BY nick",
        "SELECT * EXCLUDE (extra, ssn) FROM people ORDER BY id",
    ],
}  # fmt: skip


@pytest.fixture(scope="module", params=ENGINES)
def lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, Database]]:
    with database(request.param, SCRIPT, tmp_path_factory.mktemp("narrowed")) as location:
        yield request.param, location, built(location)


def test_a_table_with_hidden_columns_answers_as_itself(lab: tuple[str, str, Database]) -> None:
    engine, location, found = lab
    for sql in (*EVERYWHERE, *ONE[engine]):
        verdict = asked(found, sql, people=PEOPLE, orders=TableScope())
        assert isinstance(verdict, Statement), f"{sql}: {verdict}"
        (result,) = run(location, verdict, operation="query")
        assert isinstance(result, Success), f"{sql}: {result}"
        assert isinstance(result.data, dict)
        given = [[str(cell) for cell in row] for row in result.data["rows"]]
        assert given == [[str(cell) for cell in row] for row in rows(location, sql.replace("*,", SEEN))], sql
