"""The connection that one query of SQLite leaves to the next: it answers as a new one does, and holds nothing in anybody's way."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.databases import statement
from tests.exhaustive import EXHAUSTIVE
from toolgen.connectors.sql.execution import sqlite
from toolgen.connectors.sql.execution.commit_state import CommitState
from toolgen.connectors.sql.execution.sandbox_pool import FileEngine
from toolgen.connectors.sql.execution.statement_watch import StatementWatch
from toolgen.core.clock import SystemClock
from toolgen.model.call import Statement
from toolgen.model.result import Failed, Success

ROWS = statement(
    "SELECT id, name FROM customers ORDER BY id", tables={"customers"}, columns={"customers.id", "customers.name"}
)
TOTALS = statement("SELECT total FROM sums", tables={"sums"}, columns={"sums.total"}, functions={"sum"})
SCRIPT = "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO customers VALUES (1, 'a')"


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    sqlite.rest()
    yield made(tmp_path / "shop.db", SCRIPT)
    sqlite.rest()


def made(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(script)
    return path


def ask(path: Path, asked: Statement = ROWS) -> Success | Failed:
    clock = SystemClock()
    return sqlite.query(path, asked, "", StatementWatch(clock=clock, deadline=clock.monotonic() + asked.timeout_s))


def rows(path: Path, asked: Statement = ROWS) -> object:
    result = ask(path, asked)
    assert isinstance(result, Success), result
    assert isinstance(result.data, dict)
    return result.data["rows"]


def kept() -> sqlite3.Connection | None:
    return sqlite._READER._connection


def test_the_next_query_of_a_file_has_the_same_connection(path: Path) -> None:
    assert rows(path) == [[1, "a"]]
    first = kept()
    assert first is not None
    assert not first.in_transaction
    assert rows(path) == [[1, "a"]]
    assert kept() is first


def test_what_others_commit_is_seen(path: Path) -> None:
    assert rows(path) == [[1, "a"]]
    for number, journal in enumerate(("DELETE", "WAL", "WAL"), 2):
        made(path, f"PRAGMA journal_mode={journal}; INSERT INTO customers VALUES ({number}, '{journal}')")
        assert rows(path)[-1] == [number, journal]  # type: ignore[index]


def test_a_file_put_in_its_place_is_read(path: Path, tmp_path: Path) -> None:
    assert rows(path) == [[1, "a"]]
    made(tmp_path / "new.db", SCRIPT.replace("'a'", "'b'")).replace(path)
    assert rows(path) == [[1, "b"]]


def test_bytes_written_over_its_own_are_read(path: Path, tmp_path: Path) -> None:
    # The same size, time and count of changes: SQLite itself would go on with the pages it holds.
    other = made(tmp_path / "new.db", SCRIPT.replace("'a'", "'b'"))
    os.utime(other, ns=(0, 0))
    os.utime(path, ns=(0, 0))
    before = path.stat()
    assert rows(path) == [[1, "a"]]
    time.sleep(0.05)  # a kernel's clock for files ticks every 4 to 10 ms
    shutil.copyfile(other, path)
    shutil.copystat(other, path)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert rows(path) == [[1, "b"]]


def test_a_table_that_became_a_view_is_confined_as_a_view(path: Path) -> None:
    assert rows(path) == [[1, "a"]]
    made(
        path,
        "ALTER TABLE customers RENAME TO people; CREATE TABLE secrets (word TEXT); INSERT INTO secrets VALUES ('x');"
        " CREATE VIEW customers AS SELECT id, name FROM people",
    )
    assert rows(path) == [[1, "a"]]
    spying = statement("SELECT word FROM secrets", tables={"customers"}, columns={"customers.id"})
    result = ask(path, spying)
    assert isinstance(result, Failed)
    assert "did not declare" in result.error.message


def test_a_statement_may_not_do_what_an_earlier_one_declared(path: Path) -> None:
    made(path, "CREATE TABLE salaries (amount INTEGER); INSERT INTO salaries VALUES (7)")
    declared = statement("SELECT amount FROM salaries", tables={"salaries"}, columns={"salaries.amount"})
    assert rows(path, declared) == [[7]]
    for sql in (
        "SELECT amount FROM salaries",
        "SELECT name FROM customers",
        "SELECT count(*) FROM salaries",
        "SELECT abs(-1)",
        "PRAGMA table_list",
        "SELECT sql FROM sqlite_schema",
    ):
        result = ask(path, statement(sql, tables={"customers"}, columns={"customers.id"}))
        assert isinstance(result, Failed), sql
    assert rows(path, declared) == [[7]]


def test_a_table_function_is_declared_by_each_statement(path: Path) -> None:
    sql = "SELECT count(*) FROM json_each('[1, 2, 3]')"
    functions = {"count", "json_each"}
    assert rows(path, statement(sql, functions=functions)) == [[3]]
    assert isinstance(ask(path, statement(sql, functions={"count"})), Failed)


@pytest.mark.parametrize("cookie", [-1, 0, 7])
def test_a_file_may_count_its_schemas_from_any_number(path: Path, tmp_path: Path, cookie: int) -> None:
    made(path, f"CREATE TABLE secrets (word TEXT); PRAGMA schema_version={cookie}")
    assert rows(path) == [[1, "a"]]
    assert isinstance(ask(path, statement("SELECT count(*) FROM secrets", functions={"count"})), Failed)
    other = made(tmp_path / "other.db", f"{SCRIPT}; CREATE TABLE words (word TEXT); PRAGMA schema_version={cookie}")
    other.replace(path)
    assert isinstance(ask(path, statement("SELECT count(*) FROM words", functions={"count"})), Failed)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, "\ud800"])
def test_a_value_that_sqlite_has_not_is_told(path: Path, value: int | str) -> None:
    result = ask(path, statement("SELECT ?", value))
    assert isinstance(result, Failed)
    assert result.error.code == "sql_failed"


def test_a_query_that_failed_or_was_stopped_leaves_no_connection(path: Path) -> None:
    endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"
    for sql, seconds in (("SELECT nothing FROM customers", 20.0), (endless, 0.05)):
        assert rows(path) == [[1, "a"]]
        assert isinstance(ask(path, statement(sql, timeout_s=seconds, functions={"count"})), Failed)
        assert kept() is None
    assert rows(path) == [[1, "a"]]


def test_rows_left_unread_hold_no_lock(path: Path) -> None:
    made(
        path,
        "WITH RECURSIVE t(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM t LIMIT 5000) INSERT INTO customers SELECT n, 'x' FROM t",
    )
    few = statement(ROWS.sql, tables=ROWS.tables, columns=ROWS.columns, max_rows=2)
    assert len(rows(path, few)) == 2  # type: ignore[arg-type]
    assert kept() is not None
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute("COMMIT")


def test_a_write_ahead_log_is_not_held_open(path: Path) -> None:
    assert rows(path) == [[1, "a"]]
    made(path, "PRAGMA journal_mode=WAL; INSERT INTO customers VALUES (2, 'b')")
    assert rows(path) == [[1, "a"], [2, "b"]]
    assert kept() is None
    made(path, "PRAGMA journal_mode=DELETE")  # refused while anybody has it open
    assert rows(path) == [[1, "a"], [2, "b"]]
    assert kept() is not None


def test_a_change_has_a_connection_of_its_own(path: Path) -> None:
    assert rows(path) == [[1, "a"]]
    first = kept()
    clock = SystemClock()
    change = CommitState(
        statement(
            "UPDATE customers SET name = 'b' WHERE id = 1",
            tables={"customers"},
            columns={"customers.id", "customers.name"},
            writes="update",
            sets={"name"},
            max_changes=1,
        )
    )
    done = sqlite.change(path, change, StatementWatch(clock=clock, deadline=clock.monotonic() + 20), lambda: None)
    assert isinstance(done, Success), done
    assert kept() is first
    assert rows(path) == [[1, "b"]]
    writing = statement("UPDATE customers SET name = 'c'", tables=ROWS.tables, columns=ROWS.columns)
    assert isinstance(ask(path, writing), Failed)
    assert rows(path) == [[1, "b"]]


@pytest.mark.sweep
def test_it_answers_as_a_new_one(path: Path, tmp_path: Path) -> None:
    """Drawn changes of the file by its owner, in between queries: each is asked on the kept connection and on a new one."""
    drawn = random.Random(21)
    scripts = [
        "INSERT INTO customers (id, name) SELECT coalesce(max(id), 0) + 1, 'more' FROM customers",
        "DELETE FROM customers WHERE id > 3",
        "PRAGMA journal_mode=WAL",
        "PRAGMA journal_mode=DELETE",
        "VACUUM",
        "CREATE TABLE IF NOT EXISTS secrets (word TEXT)",
        "DROP TABLE IF EXISTS secrets",
        "DROP VIEW IF EXISTS sums; CREATE VIEW sums AS SELECT sum(id) AS total FROM customers",
        "DROP VIEW IF EXISTS sums; CREATE VIEW sums AS SELECT 5 AS total",
        "ALTER TABLE customers ADD COLUMN note TEXT; ALTER TABLE customers DROP COLUMN note",
        "CREATE TABLE IF NOT EXISTS sheets (total INTEGER)",
    ]
    succeeded = 0
    for _ in range(2_000 if EXHAUSTIVE else 60):
        if drawn.random() < 0.1:
            target = tmp_path / "copied.db"
            target.unlink(missing_ok=True)
            made(path, f"VACUUM INTO '{target}'")
            made(target, "INSERT INTO customers (id, name) SELECT max(id) + 1, 'copied' FROM customers")
            for log in tmp_path.glob("shop.db-*"):
                log.unlink()
            target.replace(path)
        else:
            made(path, drawn.choice(scripts))
        asked = drawn.choice((ROWS, TOTALS))
        first = ask(path, asked)
        sqlite.rest()
        assert first == ask(path, asked)
        succeeded += isinstance(first, Success)
        ask(path, drawn.choice((ROWS, TOTALS)))
    assert succeeded > 30


async def test_after_a_while_a_process_holds_nothing_of_the_file(path: Path) -> None:
    def opened(pid: int) -> set[str]:
        return {name for link in Path(f"/proc/{pid}/fd").iterdir() if path.name in (name := os.readlink(link))}

    engine = FileEngine("toolgen.connectors.sql.execution.sqlite", path, SystemClock())
    try:
        assert isinstance(await engine.run(ROWS), Success)
        pid = engine._idle[-1]._process.pid
        deadline = time.monotonic() + 60
        while opened(pid):
            assert time.monotonic() < deadline, "the file is still open"
            await asyncio.sleep(0.05)
        assert isinstance(await engine.run(ROWS), Success)
        assert engine._idle[-1]._process.pid == pid
    finally:
        await engine.close()
