"""Statements to the database of a hospital are accepted, and answered as by the engine, with and without a row filter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.connectors.sql.guard.engines import TRANSACTIONAL
from tests.connectors.sql.guard.honest import Engine, check_statements
from tests.connectors.sql.guard.hospital.hospital import hospital_statements, open_hospital

_AT_LEAST = 280
# A sample of a subquery is not one of the table, numbers of rows would count hidden ones, and so would scores of a search.
_WITHOUT_FILTER = ("SAMPLE", "rowid", "ROWID", "oid", "AGAINST")


@pytest.fixture(scope="module", params=TRANSACTIONAL)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with open_hospital(request.param, tmp_path_factory.mktemp(request.param)) as opened:
        yield opened


@pytest.mark.sweep
@pytest.mark.parametrize("rows", [None, "1 = 1"])
def test_a_statement_is_accepted_and_answered_like_the_engine(engine: Engine, rows: str | None) -> None:
    statements = hospital_statements(engine.dialect)
    check_statements(engine, statements, rows, at_least=_AT_LEAST, without_filter=_WITHOUT_FILTER)
