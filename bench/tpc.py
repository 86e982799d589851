"""Times of TPC-H and TPC-DS with and without the guard, on each engine: `python -m bench.tpc [DIALECT …]`.

Each query runs three times as it is and three times as the guard writes it, in turn, and the shortest of each counts. One that is slower
with the guard runs nine times more. `make tpc` generates the data and the queries.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.connectors.sql.guard.analysts import open_scope
from tests.connectors.sql.guard.honest import Engine
from tests.connectors.sql.guard.tpc.benchmarks import BENCHMARKS, is_generated, open_benchmark, queries
from toolgen.connectors.sql.guard.guard import DIALECTS, guard
from toolgen.model.call import Statement

_ROUNDS: Final = 3
_MORE_ROUNDS: Final = 9
_SLOWER: Final = 1.1
_NOISE_S: Final = 0.01  # differences of so little are not told


def main(dialects: list[str]) -> None:
    """Prints for each engine and benchmark the sum of the times, and the queries that take longer with the guard."""
    if not is_generated():
        print("the benchmarks were not generated: make tpc")
        return
    for dialect in dialects:
        for benchmark in BENCHMARKS:
            with tempfile.TemporaryDirectory() as folder, open_benchmark(benchmark, dialect, Path(folder)) as engine:
                _compare(engine, benchmark)


def _compare(engine: Engine, benchmark: str) -> None:
    bare_s = guarded_s = 0.0
    compared = 0
    slower: list[str] = []
    for query in queries(benchmark, engine.dialect):
        verdict = guard(query.sql, [], database=engine.database, scope=open_scope(engine.database), attributes={})
        try:
            engine.rows(query.sql)
        except Exception:  # noqa: BLE001  an engine without words for the query has an error of its own class
            continue
        if not isinstance(verdict, Statement):
            continue
        bare, guarded = _shortest(engine, [query.sql, verdict.sql], _ROUNDS)
        if guarded > _SLOWER * bare:  # other work of the machine counts less in more rounds
            again = _shortest(engine, [query.sql, verdict.sql], _MORE_ROUNDS)
            bare, guarded = min(bare, again[0]), min(guarded, again[1])
        bare_s, guarded_s, compared = bare_s + bare, guarded_s + guarded, compared + 1
        if guarded > _SLOWER * bare + _NOISE_S:
            slower.append(f"{query.number} ({bare:.3f} s, {guarded:.3f} s)")
    print(f"{benchmark} {engine.dialect}: {compared} queries, {bare_s:.2f} s, {guarded_s:.2f} s with the guard", end="")
    print(f" ({guarded_s / bare_s:.3f}); slower: {', '.join(slower) or 'none'}", flush=True)


def _shortest(engine: Engine, statements: list[str], rounds: int) -> list[float]:
    taken = [float("inf")] * len(statements)
    for _ in range(rounds):
        for place, sql in enumerate(statements):
            begun = time.perf_counter()
            engine.rows(sql)
            taken[place] = min(taken[place], time.perf_counter() - begun)
    return taken


if __name__ == "__main__":
    main(sys.argv[1:] or sorted(DIALECTS))
