"""What the guard writes is planned like the statement that was asked: it reads the same tables by the same indexes in the same order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connectors.sql.guard.analysts import open_scope
from tests.connectors.sql.guard.honest import honest_statements, open_engine
from tests.connectors.sql.guard.plans import plan
from tests.exhaustive import part
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement

_EVERY = 4
# What bounds a value stands in the plan too, and IS UNKNOWN is written as IS NULL.
_OTHER_WORDS = ("toolgen.gathered", "AS SMALLINT) / 32", "(paid > due) IS NULL")


@pytest.mark.sweep
@pytest.mark.parametrize("dialect", ["mysql", "postgres", "sqlite"])
def test_a_statement_is_planned_as_it_was_asked(dialect: str, tmp_path: Path) -> None:
    faults = []
    compared = 0
    with open_engine(dialect, tmp_path) as engine:
        scope = open_scope(engine.database)
        for honest in part(honest_statements(dialect), _EVERY):
            verdict = guard(honest.sql, [], database=engine.database, scope=scope, attributes={})
            assert isinstance(verdict, Statement)
            if verdict.page or "VALUES" in honest.sql or not verdict.sql.endswith(f"LIMIT {scope.max_rows}"):
                continue  # pages need a longer ORDER BY; rows of VALUES have several forms; a LIMIT of its own may have another form
            if any(words in verdict.sql for words in _OTHER_WORDS):
                continue
            bare = f"{honest.sql} LIMIT {scope.max_rows}"
            try:
                wanted = plan(engine, bare)
            except Exception:
                continue
            compared += 1
            if (found := plan(engine, verdict.sql)) != wanted:
                faults.append(f"{honest.sql}\n  {verdict.sql}\n  {found}\n  {wanted}")
    assert not faults, "\n".join(faults)
    assert compared > 20
