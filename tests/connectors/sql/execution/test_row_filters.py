"""Row filters of changes, on the four engines: hidden rows are neither asked about nor changed, and no row leaves or enters the filter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connectors.sql.execution.guarded import ENGINES, WRITES, built, database, judged, rows, run
from toolgen.model.result import Success
from toolgen.model.sql_scope import TableScope
from toolgen.model.verdict import Deny

pytestmark = pytest.mark.usefixtures("sql_processes")

SCRIPT = """
CREATE TABLE ticket (id INT PRIMARY KEY, who VARCHAR(20), note VARCHAR(40), n BIGINT);
INSERT INTO ticket VALUES (1, 'acme', '10', 2), (2, 'acme', '20', 3), (3, 'other', 'hidden', -9223372036854775808);
"""
SCOPE = TableScope(rows="who = :tenant", writes=WRITES)
# Fails for the hidden row alone, where it is computed for it.
FAILS = {
    "sqlite": "abs(n) > 0",
    "postgres": "n * 2 > 0",
    "mysql": "n * 2 > 0",
    "duckdb": "CAST(note AS INTEGER) > 0",
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("beside", ["", " AND id < 9", " AND who LIKE 'a%'", " AND n > 0"])
def test_an_error_tells_nothing_of_hidden_rows(engine: str, beside: str, tmp_path: Path) -> None:
    with database(engine, SCRIPT, tmp_path) as location:
        found = built(location)
        for change in ("UPDATE ticket SET note = 'seen' WHERE {}", "DELETE FROM ticket WHERE {}"):
            (result,) = run(location, judged(found, change.format(FAILS[engine] + beside), most=2, ticket=SCOPE))

            assert isinstance(result, Success), result
            if change.startswith("UPDATE"):
                assert result.data == {"row_count": 2}
                reset = judged(found, "UPDATE ticket SET note = '5' WHERE id IN (1, 2)", most=2, ticket=SCOPE)
                assert isinstance(run(location, reset)[0], Success)
        assert rows(location, "SELECT id, note FROM ticket") == [(3, "hidden")]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_condition_does_fail_where_it_is_computed(engine: str, tmp_path: Path) -> None:
    """Or the test above would prove nothing."""
    with database(engine, SCRIPT, tmp_path) as location:
        unfiltered = TableScope(writes=WRITES)
        (result,) = run(
            location, judged(built(location), f"DELETE FROM ticket WHERE {FAILS[engine]}", most=9, ticket=unfiltered)
        )

        assert not isinstance(result, Success)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_is_found_by_its_key_and_by_nothing_hidden(engine: str, tmp_path: Path) -> None:
    with database(engine, SCRIPT, tmp_path) as location:
        found = built(location)
        mine, hidden = run(
            location,
            judged(found, "UPDATE ticket SET note = ? WHERE id = ? AND n > 0", "x", 1, ticket=SCOPE),
            judged(found, "UPDATE ticket SET note = ? WHERE id = ? AND n < 0", "x", 3, ticket=SCOPE),
        )

        assert isinstance(mine, Success)
        assert mine.data == {"row_count": 1}
        assert isinstance(hidden, Success)
        assert hidden.data == {"row_count": 0}


COMPUTED = {
    "sqlite": "who TEXT GENERATED ALWAYS AS (lower(code)) STORED",
    "postgres": "who TEXT GENERATED ALWAYS AS (lower(code)) STORED",
    "mysql": "who VARCHAR(20) GENERATED ALWAYS AS (lower(code)) STORED",
    "duckdb": "who VARCHAR GENERATED ALWAYS AS (lower(code)) VIRTUAL",
}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_is_not_moved_out_of_a_filter_by_what_its_column_is_computed_from(engine: str, tmp_path: Path) -> None:
    script = f"CREATE TABLE ticket (id INT PRIMARY KEY, code VARCHAR(20), note VARCHAR(20), {COMPUTED[engine]});\n"
    script += "INSERT INTO ticket (id, code) VALUES (1, 'ACME'), (2, 'OTHER');\n"
    with database(engine, script, tmp_path) as location:
        found = built(location)
        moved = judged(found, "UPDATE ticket SET code = 'OTHER' WHERE id = 1", ticket=SCOPE)
        made = judged(found, "INSERT INTO ticket (id, code) VALUES (3, 'OTHER')", ticket=SCOPE)
        (deleted,) = run(location, judged(found, "DELETE FROM ticket WHERE id > 0", ticket=SCOPE))

        for verdict in (moved, made):
            assert isinstance(verdict, Deny), verdict
            assert verdict.rule == "sql:row-filter"
        assert isinstance(deleted, Success)
        assert rows(location, "SELECT id FROM ticket") == [(2,)]


def test_a_row_of_mysql_is_not_moved_by_a_time_that_is_set_with_every_update(tmp_path: Path) -> None:
    script = (
        "CREATE TABLE ticket (id INT PRIMARY KEY, note TEXT, at TIMESTAMP NOT NULL DEFAULT NOW() ON UPDATE NOW());\n"
    )
    with database("mysql", script, tmp_path) as location:
        found = built(location)
        scope = TableScope(rows="at < '2020-01-01'", writes=WRITES)

        verdict = judged(found, "UPDATE ticket SET note = 'x' WHERE id = 1", ticket=scope)

        assert isinstance(verdict, Deny)
        assert verdict.rule == "sql:row-filter"
