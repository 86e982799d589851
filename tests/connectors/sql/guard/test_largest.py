"""Statements with the largest arguments that the guard lets through leave their server idle and small, on private engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connectors.sql.guard.engines import TRANSACTIONAL
from tests.connectors.sql.guard.largest import TIMEOUT_S, Asked, Taken, engine, largest
from tests.exhaustive import size
from toolgen.connectors.sql.dialects import RECORDS

pytestmark = pytest.mark.usefixtures("sql_processes")

_CPU_S = 1.0  # beyond the time of the statement: CPU and not time, which goes on where others run
_MEMORY = 256 * 2**20


@pytest.mark.sweep
@pytest.mark.parametrize("dialect", TRANSACTIONAL)
def test_the_largest_statements_leave_the_server_idle_and_small(dialect: str, tmp_path: Path) -> None:
    count = size("TOOLGEN_LARGEST", 300 if RECORDS[dialect].uninterruptible else 100, 10_000)
    asked = {seed: found for seed in range(count) if (found := largest(dialect, seed)) is not None}
    seeds = {id(found): seed for seed, found in asked.items()}
    faults: list[str] = []
    answers = 0

    def judge(one: Asked, taken: Taken) -> None:
        nonlocal answers
        answers += taken.answer == "ok"
        if taken.cpu_s > TIMEOUT_S + _CPU_S or taken.memory > _MEMORY:
            faults.append(f"seed {seeds[id(one)]}: {taken.cpu_s:.1f} s, {taken.memory >> 20} MB: {one.sql[:500]}")

    with engine(dialect, tmp_path) as private:
        private.run(list(asked.values()), judge)
    assert not faults, "\n".join(faults)
    assert len(asked) > 0.9 * count
    assert answers > 0.15 * count
