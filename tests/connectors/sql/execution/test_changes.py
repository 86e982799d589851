"""Changes on all four engines: counted before the commit, taken back whole, and only ever of the statement's own table."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.databases import duckdb_file, mysql_database, postgres_database, sql_call, statement
from toolgen.connectors.sql.execution.commit_state import CommitState
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.model.call import Statement
from toolgen.model.result import Failed, Success
from toolgen.model.schema import Json

pytestmark = pytest.mark.usefixtures("sql_processes")

SCRIPT = """
CREATE TABLE stock (id INT PRIMARY KEY, amount INT NOT NULL, note VARCHAR(40));
INSERT INTO stock VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c');
CREATE TABLE log (n INT);
INSERT INTO log VALUES (0);
"""
NAMES = {"sqlite": '"main"."stock"', "postgres": '"public"."stock"', "mysql": "`stock`", "duckdb": '"main"."stock"'}


@pytest.fixture(params=sorted(NAMES))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The dialect and the location of a database of the test's own."""
    dialect: str = request.param
    match dialect:
        case "sqlite":
            with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
                connection.executescript(SCRIPT)
            yield dialect, f"sqlite:///{tmp_path / 'shop.db'}"
        case "duckdb":
            yield dialect, duckdb_file(tmp_path / "shop.duckdb", SCRIPT)
        case "postgres":
            with postgres_database(SCRIPT) as location:
                yield dialect, location
        case _:
            with mysql_database(SCRIPT) as location:
                yield dialect, location


def changes(dialect: str, sql: str, *values: Json, most: int = 1, **given: object) -> Statement:
    """A change of `stock` as the guard would have let it through."""
    kind = sql.split(maxsplit=1)[0].lower()
    columns = frozenset({"stock.id", "stock.amount", "stock.note"})
    if dialect == "postgres":
        for number in range(1, len(values) + 1):
            sql = sql.replace("?", f"${number}", 1)
    options = {"tables": frozenset({"stock"}), "columns": columns, "writes": kind, "max_changes": most, **given}
    return statement(sql.replace("stock", NAMES[dialect], 1), *values, **options)


async def ask(place: tuple[str, str], *steps: tuple[str, Statement]) -> list[Success | Failed]:
    """Each step (operation and statement) after the other on one executor."""
    dialect, location = place

    executor = SqlExecutor(location)
    try:
        return [await executor.execute(sql_call(dialect, operation, given)) for operation, given in steps]
    finally:
        await executor.close()


async def amounts(place: tuple[str, str]) -> dict[int, int]:
    """What is in stock, asked on another connection."""
    dialect, _ = place
    options = {"tables": frozenset({"stock"}), "columns": frozenset({"stock.id", "stock.amount"})}
    reads = statement(f"SELECT id, amount FROM {NAMES[dialect]} ORDER BY id", **options)
    (found,) = await ask(place, ("query", reads))
    assert isinstance(found, Success), found
    assert isinstance(found.data, dict)
    return dict(found.data["rows"])  # type: ignore[arg-type]


async def test_a_change_is_made_and_counted(place: tuple[str, str]) -> None:
    dialect, _ = place
    done = await ask(
        place,
        ("change", changes(dialect, "UPDATE stock SET amount = ? WHERE id = ?", 11, 1)),
        ("change", changes(dialect, "INSERT INTO stock (id, amount) VALUES (?, ?)", 4, 40)),
        ("change", changes(dialect, "DELETE FROM stock WHERE id = ?", 2)),
        ("change", changes(dialect, "DELETE FROM stock WHERE id = ?", 99)),
    )

    assert [result.data for result in done] == [{"row_count": 1}, {"row_count": 1}, {"row_count": 1}, {"row_count": 0}]
    assert await amounts(place) == {1: 11, 3: 30, 4: 40}


async def test_a_change_of_too_many_rows_is_taken_back_whole(place: tuple[str, str]) -> None:
    dialect, _ = place
    refused, allowed = await ask(
        place,
        ("change", changes(dialect, "UPDATE stock SET amount = 0 WHERE id < ?", 3)),
        ("change", changes(dialect, "UPDATE stock SET amount = 1 WHERE id < ?", 3, most=2)),
    )

    assert isinstance(refused, Failed)
    assert (refused.error.code, refused.error.rule) == ("sql_refused", "sql:changes")
    assert "2 rows" in refused.error.message
    assert isinstance(allowed, Success)
    assert await amounts(place) == {1: 1, 2: 1, 3: 30}


async def test_a_broken_rule_of_the_table_is_told_without_its_values(place: tuple[str, str]) -> None:
    dialect, _ = place
    results = await ask(
        place,
        ("change", changes(dialect, "INSERT INTO stock (id, amount) VALUES (?, ?)", 1, 777)),
        ("change", changes(dialect, "UPDATE stock SET amount = NULL WHERE id = ?", 1)),
    )

    for result in results:
        assert isinstance(result, Failed)
        assert result.error.code == "sql_failed"
        assert "777" not in result.error.message
    assert await amounts(place) == {1: 10, 2: 20, 3: 30}


async def test_only_a_change_changes_and_a_change_does_nothing_else(place: tuple[str, str]) -> None:
    dialect, _ = place
    writes = changes(dialect, "UPDATE stock SET amount = 0 WHERE id = 1")
    reads = changes(dialect, "SELECT id FROM stock", writes="update")
    posing = changes(dialect, "UPDATE stock SET amount = 0 WHERE id = 1", writes="")
    ddl = changes(dialect, "DROP TABLE stock", writes="delete")
    two = changes(dialect, "UPDATE stock SET amount = 0 WHERE id = 1; DELETE FROM log", writes="update")

    results = await ask(
        place, ("query", writes), ("explain", writes), ("change", posing), ("query", posing), ("change", reads)
    )

    assert all(isinstance(result, Failed) for result in results)
    # What no guard lets through, handed to the session: MySQL and PostgreSQL commit DDL of a role that may, so roles are the wall there.
    stopped = await ask(place, ("change", two), *([("change", ddl)] if dialect in {"sqlite", "duckdb"} else []))
    assert all(isinstance(result, Failed) for result in stopped)
    assert await amounts(place) == {1: 10, 2: 20, 3: 30}


async def test_after_a_change_the_session_only_reads_again(place: tuple[str, str]) -> None:
    dialect, _ = place
    done, posing = await ask(
        place,
        ("change", changes(dialect, "UPDATE stock SET amount = 12 WHERE id = 1")),
        ("query", changes(dialect, "UPDATE stock SET amount = 0 WHERE id = 1", writes="")),
    )

    assert isinstance(done, Success)
    assert isinstance(posing, Failed)
    assert (await amounts(place))[1] == 12


async def test_a_trigger_of_sqlite_does_not_write_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            SCRIPT + "CREATE TRIGGER t AFTER UPDATE ON stock BEGIN UPDATE log SET n = n + 1; END;"
            "CREATE TABLE part (stock_id INT REFERENCES stock(id) ON DELETE CASCADE); INSERT INTO part VALUES (2);"
        )
    place = ("sqlite", f"sqlite:///{path}")

    triggered, cascading = await ask(
        place,
        ("change", changes("sqlite", "UPDATE stock SET amount = 0 WHERE id = 1")),
        ("change", changes("sqlite", "DELETE FROM stock WHERE id = 2")),
    )

    assert isinstance(triggered, Failed)
    assert isinstance(cascading, Failed)
    assert await amounts(place) == {1: 10, 2: 20, 3: 30}


async def test_a_table_of_sqlite_is_changed_in_the_columns_that_are_open_alone(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCRIPT)
    place = ("sqlite", f"sqlite:///{path}")
    columns = frozenset({"stock.id", "stock.note"})

    (result,) = await ask(
        place, ("change", changes("sqlite", "UPDATE stock SET amount = 0 WHERE id = 1", columns=columns))
    )

    assert isinstance(result, Failed)


async def test_a_table_of_mysql_that_cannot_be_rolled_back_is_left_alone() -> None:
    with mysql_database(SCRIPT + "ALTER TABLE stock ENGINE=MyISAM;") as location:
        place = ("mysql", location)
        (result,) = await ask(place, ("change", changes("mysql", "UPDATE stock SET amount = 0 WHERE id < 9")))

        assert isinstance(result, Failed)
        assert "InnoDB" in result.error.suggestion
        assert await amounts(place) == {1: 10, 2: 20, 3: 30}


async def test_a_change_waits_for_a_lock_no_longer_than_its_time() -> None:
    with postgres_database(SCRIPT) as location:
        place = ("postgres", location)
        given = changes(
            "postgres", "UPDATE stock SET amount = 0 WHERE id = 1 AND pg_sleep(5) IS NOT NULL", timeout_s=0.3
        )
        (result,) = await ask(place, ("change", given))

        assert isinstance(result, Failed)
        assert result.error.code == "upstream_timeout"
        assert (await amounts(place))[1] == 10


@pytest.mark.parametrize("trigger", [False, True])
async def test_a_table_of_postgres_with_a_dot_in_its_name_is_changed_unless_that_sets_something_off(
    trigger: bool,
) -> None:
    script = (
        SCRIPT
        + """
    CREATE TABLE "stock.old" (id INT PRIMARY KEY, amount INT);
    INSERT INTO "stock.old" VALUES (1, 10);
    CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE log SET n = 1; RETURN NEW; END';
    """
    )
    if trigger:
        script += 'CREATE TRIGGER notes BEFORE UPDATE ON "stock.old" FOR EACH ROW EXECUTE FUNCTION noted();'
    with postgres_database(script) as location:
        given = statement(
            'UPDATE "public"."stock.old" SET amount = 11 WHERE id = 1',
            tables=frozenset({"stock.old"}),
            columns=frozenset({"stock.old.id", "stock.old.amount"}),
            writes="update",
            max_changes=1,
        )
        (result,) = await ask(("postgres", location), ("change", given))

    if trigger:
        assert isinstance(result, Failed)
        assert result.error.code == "sql_refused"
    else:
        assert isinstance(result, Success), result
        assert result.data == {"row_count": 1}


def unanswered(change: CommitState) -> Callable[[], Success | Failed]:
    return lambda: change.ended(Failed(error=change.refused(99).error))  # type: ignore[union-attr]


def test_a_commit_without_an_answer_is_an_unknown_outcome() -> None:
    change = CommitState(statement("UPDATE stock SET amount = 0", writes="update", max_changes=1))

    before = unanswered(change)()
    change.committing = True
    after = unanswered(change)()

    assert isinstance(before, Failed)
    assert before.error.code == "sql_refused"
    assert isinstance(after, Failed)
    assert after.error.code == "outcome_unknown"


async def test_a_lost_commit_is_told_as_unknown_by_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg  # noqa: PLC0415 - of this test alone

    with postgres_database(SCRIPT) as location:
        real = psycopg.AsyncConnection.execute

        async def lost(self: psycopg.AsyncConnection[object], query: object, *given: object, **more: object) -> object:
            if query == "COMMIT":
                await self.close()
            return await real(self, query, *given, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(psycopg.AsyncConnection, "execute", lost)
        (result,) = await ask(("postgres", location), ("change", changes("postgres", "DELETE FROM stock WHERE id = 1")))

    assert isinstance(result, Failed)
    assert result.error.code == "outcome_unknown"
