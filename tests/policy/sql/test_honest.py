"""Honest statements are accepted, and what runs in their place gives the answer of the engine, with and without a row filter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.exhaustive import part
from tests.policy.sql.analysts import open_scope
from tests.policy.sql.honest import honest_statements, open_engine, same_rows
from toolgen.model.call import Statement
from toolgen.policy.sql.guard import DIALECTS, guard

_AT_LEAST = 600
_EVERY = 5  # statement is tried with a row filter in the default run
# A sample of a subquery is not one of the table.
_WITHOUT_FILTER = ("TABLESAMPLE",)


def test_no_statement_is_listed_twice() -> None:
    for dialect in DIALECTS:
        written = [honest.sql for honest in honest_statements(dialect)]
        assert len(written) == len(set(written)) > _AT_LEAST


@pytest.mark.sweep
@pytest.mark.parametrize("rows", [None, "1 = 1"])
@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_an_honest_statement_is_accepted_and_answered_like_the_engine(
    dialect: str, rows: str | None, tmp_path: Path
) -> None:
    asked = honest_statements(dialect)
    if rows is not None:
        asked = [honest for honest in part(asked, _EVERY) if not any(word in honest.sql for word in _WITHOUT_FILTER)]
    faults = []
    with open_engine(dialect, tmp_path) as engine:
        scope = open_scope(engine.database, rows)
        for honest in asked:
            wanted = engine.rows(honest.sql)
            verdict = guard(honest.sql, [], database=engine.database, scope=scope, attributes={})
            if not isinstance(verdict, Statement):
                faults.append(f"{honest.sql}\n  refused: {verdict.reason}; {verdict.suggestion}")
                continue
            found = engine.rows(verdict.sql)
            if honest.varies:
                found, wanted = (found[0], []), (wanted[0], [])
            if not same_rows(honest.sql, found, wanted):
                faults.append(f"{honest.sql}\n  {verdict.sql}\n  {found}\n  for {wanted}")
    assert not faults, "\n".join(faults)
