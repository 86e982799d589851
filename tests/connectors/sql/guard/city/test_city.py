"""Statements about an airport, a library, sensors, payrolls and parcels are accepted, and answered as by the engine, filtered or not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.connectors.sql.guard.city.city import ENGINES, city_statements, open_city
from tests.connectors.sql.guard.honest import Engine, check_statements

_AT_LEAST = 600
_WITHOUT_FILTER = ("TABLESAMPLE", "AGAINST")


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with open_city(request.param) as opened:
        yield opened


@pytest.mark.sweep
@pytest.mark.parametrize("rows", [None, "1 = 1"])
def test_a_statement_is_accepted_and_answered_like_the_engine(engine: Engine, rows: str | None) -> None:
    statements = city_statements(engine.dialect)
    check_statements(engine, statements, rows, at_least=_AT_LEAST, without_filter=_WITHOUT_FILTER)
