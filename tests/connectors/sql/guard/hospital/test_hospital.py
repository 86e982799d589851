"""Statements to the database of a hospital are accepted, and answered as by the engine, with and without a row filter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.connectors.sql.guard.analysts import open_scope
from tests.connectors.sql.guard.honest import Engine, faults_of
from tests.connectors.sql.guard.hospital.hospital import hospital_statements, open_hospital
from tests.exhaustive import part
from toolgen.connectors.sql.guard.guard import DIALECTS

_AT_LEAST = 280
_EVERY = 8  # statement is tried through a row filter in the default run
# A sample of a subquery is not one of the table, numbers of rows would count hidden ones, and so would scores of a search.
_WITHOUT_FILTER = ("SAMPLE", "rowid", "ROWID", "oid", "AGAINST")


@pytest.fixture(scope="module", params=sorted(DIALECTS))
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with open_hospital(request.param, tmp_path_factory.mktemp(request.param)) as opened:
        yield opened


@pytest.mark.sweep
@pytest.mark.parametrize("rows", [None, "1 = 1"])
def test_a_statement_is_accepted_and_answered_like_the_engine(engine: Engine, rows: str | None) -> None:
    statements = hospital_statements(engine.dialect)
    assert len({honest.sql for honest in statements}) == len(statements) > _AT_LEAST
    if rows is not None:
        statements = [
            honest for honest in part(statements, _EVERY) if not any(word in honest.sql for word in _WITHOUT_FILTER)
        ]
    faults = faults_of(engine, statements, open_scope(engine.database, rows))
    assert not faults, "\n".join(faults)
