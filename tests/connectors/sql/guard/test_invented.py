"""Invented statements are refused, or leave their private server idle, small and as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.connectors.sql.guard.invented import invented
from tests.connectors.sql.guard.largest import SCOPE, TIMEOUT_S, Asked, Taken, database, engine
from tests.exhaustive import part
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement

pytestmark = pytest.mark.usefixtures("sql_processes")

_AT_LEAST: Final = 300
_EVERY: Final = 6
_CPU_S: Final = 1.0  # beyond the time of the statement
_MEMORY: Final = 256 * 2**20


@pytest.mark.sweep
@pytest.mark.parametrize("dialect", ["mysql", "postgres"])
def test_an_invented_statement_is_refused_or_leaves_the_server_idle_small_and_as_it_was(
    dialect: str, tmp_path: Path
) -> None:
    written = list(invented(dialect))
    assert len(set(written)) > _AT_LEAST
    known = database(dialect)
    verdicts = [(sql, guard(sql, (), database=known, scope=SCOPE, attributes={})) for sql in part(written, _EVERY)]
    asked = [Asked(sql, (), verdict) for sql, verdict in verdicts if isinstance(verdict, Statement)]
    faults: list[str] = []

    def judge(one: Asked, taken: Taken) -> None:
        if taken.cpu_s > TIMEOUT_S + _CPU_S or taken.memory > _MEMORY:
            faults.append(f"{taken.cpu_s:.1f} s, {taken.memory >> 20} MB: {one.sql[:500]}")

    with engine(dialect, tmp_path) as private:
        before = private.state()
        private.run(asked, judge)
        assert private.state() == before
    assert not faults, "\n".join(faults)
