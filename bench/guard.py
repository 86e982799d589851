"""Cost of the SQL guard: CPU of one verdict on a new statement, and on a known one.

`python -m bench.guard` prints medians by dialect, for a simple query, one with a join, groups and a row filter, and one with common table
expressions and window functions. Every statement of a round is different, so that none is cached; then each is judged again.
"""

from __future__ import annotations

import argparse
import statistics
import time

from tests.connectors.sql.guard.lab import SCOPE_IN_CAPITALS, database
from toolgen.connectors.sql.guard.cross_check import AVAILABLE
from toolgen.connectors.sql.guard.guard import DIALECTS, guard
from toolgen.model.call import Statement
from toolgen.model.sql_scope import SqlScope, TableScope

QUERIES = {
    "simple": "SELECT id, name FROM customers WHERE id = {n} ORDER BY name LIMIT 10",
    "joined": "SELECT c.country, count(*) AS n, sum(o.total) AS total FROM customers c JOIN orders o ON o.customer_id = c.id"
    " JOIN tickets t ON t.id = o.id WHERE o.total > {n} GROUP BY c.country HAVING count(*) > 1 ORDER BY total DESC",
    "layered": "WITH a AS (SELECT customer_id, sum(total) AS s FROM orders WHERE id > {n} GROUP BY customer_id),"
    " b AS (SELECT customer_id, s, rank() OVER (ORDER BY s DESC) AS r FROM a)"
    " SELECT c.name, b.s, b.r FROM b JOIN customers c ON c.id = b.customer_id WHERE b.r <= 10 ORDER BY b.r",
}
SCOPE = SqlScope(
    tables={
        "customers": TableScope(columns=("id", "name", "country")),
        "orders": TableScope(),
        "tickets": TableScope(rows="tenant = :tenant"),
    }
)


def cost(template: str, dialect: str, rounds: int) -> tuple[float, float]:
    """Median microseconds of CPU for a statement nobody has asked before, and for one that was just asked."""
    known, scope = database(dialect), SCOPE_IN_CAPITALS if dialect == "snowflake" else SCOPE
    unseen, seen = [], []
    for number in range(rounds):
        sql = template.format(n=number)
        for times in (unseen, seen):
            began = time.process_time_ns()
            verdict = guard(sql, [], database=known, scope=scope, attributes={"tenant": "acme"})
            times.append((time.process_time_ns() - began) / 1000)
            if not isinstance(verdict, Statement):
                raise SystemExit(f"{dialect}: {sql}: {verdict.reason}")
    return statistics.median(unseen), statistics.median(seen)


def main() -> None:
    """Prints one line a dialect and query. The budget: 700 us for a simple one unseen, 8 us for one seen."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=300)
    rounds = parser.parse_args().rounds
    print(f"cross-check of PostgreSQL with pglast: {'on' if AVAILABLE else 'off, it is not installed'}")
    print(f"{'dialect':10}{'query':10}{'unseen us':>12}{'seen us':>10}")
    for dialect in sorted(DIALECTS):
        for name, template in QUERIES.items():
            unseen, seen = cost(template, dialect, rounds)
            print(f"{dialect:10}{name:10}{unseen:12.0f}{seen:10.1f}")


if __name__ == "__main__":
    main()
