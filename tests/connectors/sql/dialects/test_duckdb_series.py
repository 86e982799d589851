"""Lists of numbers and dates whose bounds are worked out are bounded by the engine, and are those that were asked for."""

from __future__ import annotations

import duckdb
import pytest

from tests.connectors.sql.guard.lab import allowed, refused
from toolgen.connectors.sql.dialects.duckdb_series import MAX_ELEMENTS


def _asked(written: str) -> str:
    return allowed(f"SELECT {written} AS x FROM orders", dialect="duckdb").sql.partition(" FROM ")[0]


@pytest.mark.parametrize("first", ["", "0, ", "id - 5, ", "-id, "])
@pytest.mark.parametrize("function", ["range", "generate_series"])
def test_a_list_is_the_one_that_was_asked_for(function: str, first: str) -> None:
    with duckdb.connect() as engine:
        for number in (0, 1, 7, None):
            engine.execute("CREATE OR REPLACE TABLE orders AS SELECT ?::INTEGER AS id, 5 AS total", [number])
            written = f"{function}({first}id)"
            assert engine.execute(f"{_asked(written)} FROM orders").fetchall() == (
                engine.execute(f"SELECT {written} FROM orders").fetchall()
            )


@pytest.mark.parametrize(
    "written",
    [
        "range(id)",
        "len(generate_series(1, id))",
        "range(id, id * 3::BIGINT)",
        "range(0, id, 2)",
        "range(least(id, 9999))",
    ],
)
def test_a_large_list_fails_before_it_is_made(written: str) -> None:
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE orders AS SELECT 2000000000 AS id")
        with pytest.raises(duckdb.ConversionException):
            engine.execute(f"{_asked(written)} FROM orders")


def test_the_largest_list_is_made() -> None:
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE orders AS SELECT {MAX_ELEMENTS} AS id")
        assert engine.execute(f"{_asked('len(range(id))')} FROM orders").fetchall() == [(MAX_ELEMENTS,)]


@pytest.mark.parametrize("step", ["INTERVAL 1 DAY", "INTERVAL '1 day'", "INTERVAL 2 WEEKS", "INTERVAL 1 HOUR"])
def test_a_list_of_dates_is_bounded_in_its_own_unit(step: str) -> None:
    written = f"generate_series(status::TIMESTAMP, detail::TIMESTAMP, {step})"
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE orders AS SELECT '2024-01-01' AS status, '2024-03-01' AS detail")
        assert engine.execute(f"{_asked(written)} FROM orders").fetchall() == (
            engine.execute(f"SELECT {written} FROM orders").fetchall()
        )
        engine.execute("UPDATE orders SET detail = '4024-03-01'")
        with pytest.raises(duckdb.ConversionException):
            engine.execute(f"{_asked(written)} FROM orders")


def test_a_step_of_dates_is_written_out() -> None:
    refusal = refused("SELECT range(status::DATE, detail::DATE, to_days(id)) FROM orders", dialect="duckdb")
    assert "INTERVAL 1 DAY" in refusal.suggestion


def test_a_condition_of_its_own_is_no_bound() -> None:
    forged = "range(CASE WHEN CAST((CAST(1 AS BIGINT) * 8) AS SMALLINT) IS NOT NULL THEN id END)"
    assert allowed(f"SELECT {forged} AS x FROM orders", dialect="duckdb").sql.count("SMALLINT") == 3


@pytest.mark.parametrize("written", ["range((random() * 1e9)::INT)", "range(0, id + length(uuid()))"])
def test_a_random_bound_is_refused(written: str) -> None:
    assert "subquery" in refused(f"SELECT {written} FROM orders", dialect="duckdb").suggestion


def test_rows_of_a_series_are_not_a_list() -> None:
    assert "SMALLINT" not in allowed("SELECT x FROM orders, range(id) AS r(x)", dialect="duckdb").sql
    assert "SMALLINT" not in _asked("range(1000)")
