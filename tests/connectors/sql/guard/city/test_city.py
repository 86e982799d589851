"""Statements about an airport, a library, sensors, payrolls and parcels are accepted, and answered as by the engine, filtered or not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.connectors.sql.guard.analysts import open_scope
from tests.connectors.sql.guard.city.city import ENGINES, city_statements, open_city
from tests.connectors.sql.guard.honest import Engine, faults_of
from tests.exhaustive import part

_AT_LEAST = 600
_EVERY = 8  # statement is tried through a row filter in the default run
_WITHOUT_FILTER = ("TABLESAMPLE", "AGAINST")


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with open_city(request.param) as opened:
        yield opened


@pytest.mark.sweep
@pytest.mark.parametrize("rows", [None, "1 = 1"])
def test_a_statement_is_accepted_and_answered_like_the_engine(engine: Engine, rows: str | None) -> None:
    statements = city_statements(engine.dialect)
    assert len({honest.sql for honest in statements}) == len(statements) > _AT_LEAST
    if rows is not None:
        statements = [
            honest for honest in part(statements, _EVERY) if not any(word in honest.sql for word in _WITHOUT_FILTER)
        ]
    faults = faults_of(engine, statements, open_scope(engine.database, rows))
    assert not faults, "\n".join(faults)
