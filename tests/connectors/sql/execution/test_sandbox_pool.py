"""Processes for statements on files: nothing holds one longer than its time or in more than its memory, and none is left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import uvloop

from tests.databases import duckdb_file, sql_call, statement, with_executor
from tests.exhaustive import EXHAUSTIVE, spread
from tests.patient import until
from toolgen.connectors.sql.execution import sandbox_pool
from toolgen.connectors.sql.execution.commit_state import CommitState
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.connectors.sql.execution.sandbox_pool import FileEngine
from toolgen.model.call import Call
from toolgen.model.result import Failed, Success
from toolgen.model.schema import Json

LONG = "a" * 100_000


@pytest.fixture(scope="module")
def locations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("files")
    with closing(sqlite3.connect(folder / "lab.db")) as connection:
        connection.executescript(
            "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO customers VALUES (1, 'a')"
        )
    duck = duckdb_file(folder / "lab.duckdb", "CREATE TABLE customers AS SELECT 1 AS id, 'a' AS name")
    return {"sqlite": f"sqlite:///{folder / 'lab.db'}", "duckdb": duck}


async def ask(executor: SqlExecutor, dialect: str, sql: str, *parameters: Json, **limits: object) -> Success | Failed:
    functions = frozenset({"instr", "replace", "trim", "count", "length"})
    given = statement(sql, *parameters, **{"functions": functions, **limits})
    return await executor.execute(sql_call(dialect, "query", given))


def code(result: Success | Failed) -> str:
    return result.error.code if isinstance(result, Failed) else "ok"


def child_of(executor: SqlExecutor) -> int:
    engine = executor._opened
    assert isinstance(engine, FileEngine)
    return engine._idle[-1]._process.pid


async def steps() -> None:
    """As many turns of the loop as a statement takes to be sent."""
    for _ in range(20):
        await asyncio.sleep(0)


def stand_still(condition: Callable[[], bool]) -> None:
    """A loop that does nothing else until then, as under a long computation."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# Each takes many seconds or for ever, and its engine does not look at the clock meanwhile.
UNINTERRUPTIBLE: list[tuple[str, str, tuple[Json, ...]]] = [
    ("sqlite", "SELECT trim(?, ?)", (LONG + "b", "c" * 99_999 + "a")),
    ("sqlite", "SELECT " + " + ".join(["instr(?1 || ?1, ?1 || 'b')"] * 20), (LONG,)),
    ("sqlite", "SELECT " + " + ".join(["length(replace(?1 || ?1, ?1 || 'b', ''))"] * 20), (LONG,)),
    ("duckdb", "SELECT levenshtein(?, ?)", (LONG, LONG + "b")),
    ("duckdb", "SELECT damerau_levenshtein(?, ?)", (LONG[:20_000], LONG[:20_000] + "b")),
]


@pytest.mark.parametrize(
    ("dialect", "sql", "parameters"), spread(UNINTERRUPTIBLE, 3), ids=[row[1][:30] for row in UNINTERRUPTIBLE]
)
async def test_a_function_that_looks_at_no_clock_is_ended(
    dialect: str, sql: str, parameters: tuple[Json, ...], locations: dict[str, str]
) -> None:
    async with with_executor(locations[dialect]) as executor:
        hostile = [ask(executor, dialect, sql, *parameters, timeout_s=0.05) for _ in range(6)]
        results = await asyncio.gather(*hostile)
        # On a machine with much to do the last ones get no place in their time.
        assert {code(result) for result in results} <= {
            "upstream_timeout",
            "response_too_large",
            "upstream_unavailable",
        }
        assert code(await ask(executor, dialect, "SELECT 1")) == "ok"


HUNGRY = [
    "SELECT format('{:2000000000}', 1)",
    "SELECT printf('%2000000000d', 1)",
    "SELECT range(1000 * 1000 * 1000)",
    "SELECT list_transform(range(30000), x -> range(30000))",
    "SELECT list(a.range) FROM range(100000) a, range(1000) b",
    "SELECT repeat('a', 1000000000) || repeat('b', 1000000000)",
]


@pytest.mark.parametrize("sql", HUNGRY)
async def test_memory_is_bounded_whatever_the_library_counts(sql: str, locations: dict[str, str]) -> None:
    async with with_executor(locations["duckdb"]) as executor:
        assert code(await ask(executor, "duckdb", sql, timeout_s=3.0)) in {
            "response_too_large",
            "upstream_timeout",
            "upstream_error",
            "sql_failed",
        }
        assert code(await ask(executor, "duckdb", "SELECT 1")) == "ok"


@pytest.mark.sweep
async def test_more_statements_than_processes_are_told_to_come_back(
    locations: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs_s = 4.5
    if not EXHAUSTIVE:
        runs_s = 1.5
        monkeypatch.setattr(sandbox_pool, "_WAIT_S", 0.3)

    async with with_executor(locations["sqlite"]) as executor:
        endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"
        results = await asyncio.gather(*(ask(executor, "sqlite", endless, timeout_s=runs_s) for _ in range(5)))
        codes = sorted(map(code, results))
        assert codes == ["upstream_timeout"] * 4 + ["upstream_unavailable"]
        waiting = [result.error.retry_after_s for result in results if code(result) == "upstream_unavailable"]  # type: ignore[union-attr]
        assert waiting == [1.0]


async def test_callers_who_leave_while_processes_start_start_no_more_of_them(
    locations: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    start = sandbox_pool._Child
    monkeypatch.setattr(sandbox_pool, "_Child", lambda *given: started.append(given) or start(*given))

    async with with_executor(locations["sqlite"]) as executor:
        for _ in range(10):
            asked = [asyncio.create_task(ask(executor, "sqlite", "SELECT 1")) for _ in range(4)]
            for _ in range(5):
                await asyncio.sleep(0)
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        engine = executor._opened
        assert isinstance(engine, FileEngine)
        await until(lambda: len(engine._idle) == 4)
        assert not engine._unclaimed  # none is handed out twice
        assert code(await ask(executor, "sqlite", "SELECT 1")) == "ok"
        assert len(started) == 4


async def test_a_process_that_is_gone_is_replaced(locations: dict[str, str]) -> None:
    async with with_executor(locations["sqlite"]) as executor:
        assert code(await ask(executor, "sqlite", "SELECT 1")) == "ok"
        gone = child_of(executor)
        os.kill(gone, 9)
        await asyncio.to_thread(os.waitid, os.P_PID, gone, os.WEXITED | os.WNOWAIT)
        assert code(await ask(executor, "sqlite", "SELECT 1")) == "ok"
        assert child_of(executor) != gone


# Python that stands for a process which was taken over: what it reads first is where the code is, then orders come.
_READY = "import os, struct; os.read(0, 65536); os.write(1, b'r' + bytes(4)); os.read(0, 65536);"
_ANSWER = '{"data": 1, "truncated": false, "next_cursor": "", "delivery": {}}'
HOSTILE = {
    "is not ready": (
        "import os; os.read(0, 65536); os.write(1, b'x' + bytes(4)); os.read(0, 1)",
        "upstream_unavailable",
    ),
    "ends before it is ready": ("raise SystemExit(3)", "upstream_unavailable"),
    "says something unknown": (
        f"{_READY} os.write(1, struct.pack('<cI', b'x', {len(_ANSWER)}) + {_ANSWER.encode()!r}); os.read(0, 1)",
        "response_too_large",
    ),
    "commits a query": (f"{_READY} os.write(1, b'c' + bytes(4)); os.read(0, 1)", "response_too_large"),
    "announces too much": (
        f"{_READY} os.write(1, struct.pack('<cI', b'a', 1 << 30)); os.read(0, 1)",
        "response_too_large",
    ),
    "is no JSON": (f"{_READY} os.write(1, struct.pack('<cI', b'a', 3) + b'abc'); os.read(0, 1)", "response_too_large"),
    "is no answer": (
        f"{_READY} os.write(1, struct.pack('<cI', b'a', 2) + b'{{}}'); os.read(0, 1)",
        "response_too_large",
    ),
    "ends in the middle": (f"{_READY} os.write(1, struct.pack('<cI', b'a', 9) + b'abc')", "response_too_large"),
    "says nothing": (f"{_READY} os.read(0, 1)", "upstream_timeout"),
}


@pytest.mark.parametrize(("script", "told"), HOSTILE.values(), ids=HOSTILE)
async def test_nothing_a_process_says_is_believed(
    script: str, told: str, locations: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with with_executor(locations["sqlite"]) as executor:
        with monkeypatch.context() as patch:
            patch.setattr(sandbox_pool, "_BEGIN", script)
            seconds = 1.0 if told == "upstream_timeout" else 20.0
            assert code(await ask(executor, "sqlite", "SELECT 1", timeout_s=seconds)) == told
        assert code(await ask(executor, "sqlite", "SELECT 1")) == "ok"


async def test_a_process_that_takes_no_order_holds_up_nobody_else(locations: dict[str, str]) -> None:
    async with with_executor(locations["sqlite"]) as executor:
        assert code(await ask(executor, "sqlite", "SELECT 1")) == "ok"
        os.kill(child_of(executor), signal.SIGSTOP)
        stuck = asyncio.create_task(
            ask(executor, "sqlite", "SELECT ?", "a" * 500_000, timeout_s=1.0)
        )  # over a pipe's 64 KB
        turns = 0
        while not stuck.done():
            await asyncio.sleep(0.01)
            turns += 1
        assert code(await stuck) == "upstream_timeout"
        assert turns > 2
        assert code(await ask(executor, "sqlite", "SELECT 1")) == "ok"


async def test_a_change_that_fails_leaves_its_process(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.executescript("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")

    async with with_executor(f"sqlite:///{tmp_path / 'shop.db'}") as executor:
        assert code(await executor.execute(changes("sqlite", 1))) == "ok"
        child = child_of(executor)
        assert code(await executor.execute(changes("sqlite", 1))) == "sql_failed"
        assert child_of(executor) == child


INSERT = {"tables": {"customers"}, "columns": {"customers.id"}, "writes": "insert", "max_changes": 1}


def changes(dialect: str, number: int, **limits: object) -> Call:
    sql = f"INSERT INTO customers (id) VALUES ({number})"
    return sql_call(dialect, "change", statement(sql, **{**INSERT, **limits}))


def commits(process: int) -> bool:
    """Whether it holds the lock that lets nobody else begin to read (proc_locks(5); https://www.sqlite.org/lockingv3.html)."""
    locks = (line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines())
    return any(lock[3:5] == ["WRITE", str(process)] and lock[6] == str(0x40000000) for lock in locks)


async def test_a_change_that_does_not_commit_yet_ends_with_its_caller(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")

    async with with_executor(f"sqlite:///{path}") as executor:
        assert code(await ask(executor, "sqlite", "SELECT 1")) == "ok"
        process = Path(f"/proc/{child_of(executor)}")
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            changing = asyncio.create_task(executor.execute(changes("sqlite", 1)))
            await steps()
            changing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await changing
            writer.execute("ROLLBACK")  # now it could begin
            await until(lambda: not process.exists())
            assert writer.execute("SELECT count(*) FROM customers").fetchone() == (0,)
        assert code(await executor.execute(changes("sqlite", 1))) == "ok"


@pytest.mark.parametrize("read", [True, False], ids=["which was told", "which is not yet read"])
async def test_a_change_that_commits_is_left_to_end(
    read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its caller leaves while somebody who reads holds the commit up: it is made once they are done, and its process ends."""
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
    asked: list[CommitState] = []
    monkeypatch.setattr(sandbox_pool, "CommitState", lambda given: asked.append(CommitState(given)) or asked[-1])

    async with with_executor(f"sqlite:///{path}") as executor:
        assert code(await ask(executor, "sqlite", "SELECT 1")) == "ok"
        child = child_of(executor)
        process = Path(f"/proc/{child}")
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM customers").fetchone() == (0,)
            changing = asyncio.create_task(executor.execute(changes("sqlite", 1)))
            if read:
                await until(lambda: bool(asked) and asked[0].committing)
            else:
                await steps()
                stand_still(lambda: commits(child))  # so what its process says is not read
            changing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await changing
            await asyncio.sleep(0.1)
            os.kill(child, 0)  # raises when it is gone
            reader.execute("ROLLBACK")
        await until(lambda: not process.exists())
        with closing(sqlite3.connect(path)) as reader:
            assert reader.execute("SELECT count(*) FROM customers").fetchone() == (1,)


@pytest.mark.parametrize(
    ("dialect", "loop"),
    [("sqlite", asyncio.new_event_loop), ("sqlite", uvloop.new_event_loop), ("duckdb", uvloop.new_event_loop)],
    ids=["sqlite", "sqlite, uvloop", "duckdb, uvloop"],
)
def test_an_answer_that_came_in_time_counts_when_the_gateway_is_late(
    dialect: str, loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    """The gateway was busy over the deadline: a change that was made is not told to be made again."""
    script = "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)"
    if dialect == "duckdb":
        location = duckdb_file(tmp_path / "shop.duckdb", script)
    else:
        location = f"sqlite:///{tmp_path / 'shop.db'}"
        with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
            connection.executescript(script)

    async def work() -> None:
        executor = SqlExecutor(location)
        try:
            given = (
                changes(dialect, 1, timeout_s=3.0),
                sql_call(dialect, "query", statement("SELECT 1", timeout_s=3.0)),
            )
            if dialect == "duckdb":
                given = given[:1]  # whose file is one process's
            assert [code(await ask(executor, dialect, "SELECT 1")) for _ in given] == ["ok"] * len(given)
            running = [asyncio.create_task(executor.execute(asked)) for asked in given]
            await steps()
            over = time.monotonic() + 3.5
            stand_still(lambda: time.monotonic() > over)
            assert [code(await task) for task in running] == ["ok"] * len(given)
        finally:
            await executor.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(work())


def test_an_engine_goes_on_under_another_loop(locations: dict[str, str]) -> None:
    executor = SqlExecutor(locations["sqlite"])

    async def work() -> list[str]:
        return [
            code(result) for result in await asyncio.gather(*(ask(executor, "sqlite", "SELECT 1") for _ in range(7)))
        ]

    assert asyncio.run(work()) == asyncio.run(work()) == ["ok"] * 7
    asyncio.run(executor.close())


async def test_a_long_answer_is_read_whole(locations: dict[str, str]) -> None:
    async with with_executor(locations["sqlite"]) as executor:
        numbers = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 20) SELECT n, ? FROM t"
        result = await ask(executor, "sqlite", numbers, LONG, max_bytes=3_000_000)
        assert isinstance(result, Success)
        assert isinstance(result.data, dict)
        assert result.data["rows"] == [[number, LONG] for number in range(1, 21)]


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
async def test_a_process_has_nothing_of_the_gateways(
    dialect: str, locations: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2-secret")
    children: list[int] = []

    async with with_executor(locations[dialect]) as executor:
        with (tmp_path / "held").open("w") as held:
            os.set_inheritable(held.fileno(), True)
            assert code(await ask(executor, dialect, "SELECT 1")) == "ok"
            child = Path(f"/proc/{child_of(executor)}")
            children.append(child_of(executor))
            assert b"hunter2" not in (child / "environ").read_bytes()
            assert b"hunter2" not in (child / "cmdline").read_bytes()
            opened = {os.readlink(link) for link in (child / "fd").iterdir()}
            # libffi 3.8 holds its own file open, for the trampolines that it maps from there.
            own = {name for name in opened if Path(name).name.startswith("libffi.so")}
            own.add(str(locations["sqlite"]).removeprefix("sqlite:///"))  # for the next statement
            own.add(f"{child}/statm")  # its own memory
            assert all(name.startswith(("pipe:", "/dev/null")) for name in opened - own), opened
            libraries = (child / "maps").read_text(encoding="utf-8")
            assert not {name for name in ("_ssl", "_asyncio", "cryptography") if name in libraries}
    assert not Path(f"/proc/{children[0]}").exists()


def test_nothing_is_left_when_nobody_closes(locations: dict[str, str]) -> None:
    async def work() -> int:
        executor = SqlExecutor(locations["sqlite"])
        assert code(await ask(executor, "sqlite", "SELECT 1")) == "ok"
        return child_of(executor)

    left = Path(f"/proc/{asyncio.run(work())}")
    deadline = time.monotonic() + 120
    while left.exists():  # until the garbage is collected, and the process has been told
        assert time.monotonic() < deadline, "the process is still there"
        gc.collect()
        time.sleep(0.05)


async def test_after_closing_no_statement_is_taken(locations: dict[str, str]) -> None:
    async with with_executor(locations["sqlite"]) as executor:
        assert code(await ask(executor, "sqlite", "SELECT 1")) == "ok"
        await executor.close()
        assert code(await ask(executor, "sqlite", "SELECT 1")) == "upstream_unavailable"
