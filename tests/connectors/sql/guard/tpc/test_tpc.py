"""TPC-H and TPC-DS: every query that an engine can run is accepted, answered like the engine, and planned like the engine plans it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.connectors.sql.guard.analysts import open_scope
from tests.connectors.sql.guard.engines import TRANSACTIONAL
from tests.connectors.sql.guard.honest import Engine, same_rows
from tests.connectors.sql.guard.plans import plan, sqlite_steps
from tests.connectors.sql.guard.tpc.benchmarks import BENCHMARKS, Query, is_generated, open_benchmark, queries
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(not is_generated(), reason="the benchmarks were not generated: make tpc"),
]

_MOST_STEPS: Final = 1.1  # of SQLite with the guard, for each without it
_FEW_STEPS: Final = 5
# Queries that an engine has no words for.
CANNOT_RUN: Final = {
    ("tpcds", "mysql"): {70, 86},  # GROUPING
    ("tpcds", "sqlite"): {5, 14, 18, 22, 67, 70, 77, 80, 86},  # ROLLUP
}
# Plans that differ for a reason: pages need a sort; `NOT x IS NULL` is written as the condition that it is, or EXISTS reads an index alone.
OTHER_PLANS: Final = {
    ("tpcds", "mysql"): {31},
    ("tpcds", "sqlite"): {16, 51, 94},
    ("tpch", "sqlite"): {22},
}


def _judge(engine: Engine, benchmark: str, query: Query, limit: int) -> list[str]:
    verdict = guard(query.sql, [], database=engine.database, scope=open_scope(engine.database), attributes={})
    if not isinstance(verdict, Statement):
        return [f"refused: {verdict.reason}; {verdict.suggestion}"]
    bare = f"{query.sql} LIMIT {limit}" if verdict.sql.endswith(f"LIMIT {limit}") else query.sql
    wanted, found = engine.rows(bare), engine.rows(verdict.sql)
    faults = [] if same_rows(_without_ties(query.sql), found, wanted) else [f"{found} for {wanted}"]
    excused = query.number in OTHER_PLANS.get((benchmark, engine.dialect), ())
    if engine.dialect != "duckdb" and (plan(engine, verdict.sql) != plan(engine, bare)) != excused:
        faults.append(f"plan: {plan(engine, verdict.sql)} for {plan(engine, bare)}")
    if engine.dialect == "sqlite":
        steps, bare_steps = sqlite_steps(engine, verdict.sql), sqlite_steps(engine, bare)
        if steps > _MOST_STEPS * bare_steps + _FEW_STEPS:
            faults.append(f"{steps} steps for {bare_steps}")
    return faults


def _without_ties(sql: str) -> str:
    """Rows that are equal in ORDER BY stand in any order: answers are compared as sets of rows."""
    return sql.replace("ORDER BY", "")


@pytest.mark.parametrize("benchmark", BENCHMARKS)
@pytest.mark.parametrize("dialect", TRANSACTIONAL)
def test_a_query_is_accepted_and_answered_and_planned_like_the_engine_does(
    dialect: str, benchmark: str, tmp_path: Path
) -> None:
    faults = []
    with open_benchmark(benchmark, dialect, tmp_path) as engine:
        for query in queries(benchmark, dialect):
            if query.number in CANNOT_RUN.get((benchmark, dialect), ()):
                with pytest.raises(Exception, match=r"(?i)rollup|grouping"):
                    engine.rows(query.sql)
                continue
            faults += [f"{query.number}: {fault}" for fault in _judge(engine, benchmark, query, 1000)]
    assert not faults, "\n".join(faults)
