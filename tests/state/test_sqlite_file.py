"""What is written to a file of the gateway's own at one time goes in one transaction, and is there before anybody is told."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from toolgen.core.errors import StateError
from toolgen.state.sqlite_file import DURABLE, SqliteFile

SCHEMA = "CREATE TABLE IF NOT EXISTS told (number INTEGER PRIMARY KEY)"
KILLED = """
import asyncio, os, sys
from pathlib import Path
from toolgen.state.sqlite_file import DURABLE, SqliteFile

async def main():
    file = SqliteFile(Path(sys.argv[1]), kept="numbers", schema=sys.argv[2], pragmas=DURABLE, logs=True)

    async def one(number):
        await file.write(lambda connection: connection.execute("INSERT INTO told VALUES (?)", (number,)))
        os.write(1, b"%d\\n" % number)

    for start in range(0, 1_000_000, 20):
        await asyncio.gather(*(one(start + number) for number in range(20)))

asyncio.run(main())
"""


def opened(path: Path) -> SqliteFile:
    return SqliteFile(path, kept="numbers", schema=SCHEMA, pragmas=DURABLE, logs=True)


def insert(number: int) -> Callable[[sqlite3.Connection], int]:
    def work(connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO told VALUES (?)", (number,))
        return number

    return work


def numbers(path: Path) -> list[int]:
    connection = sqlite3.connect(path)
    try:
        return [row[0] for row in connection.execute("SELECT number FROM told ORDER BY number")]
    finally:
        connection.close()


async def together(file: SqliteFile, *works: Callable[[sqlite3.Connection], int]) -> tuple[list[object], list[str]]:
    """What each comes to, where all of them wait for one write that is under way; and what SQLite was told for them."""
    said: list[str] = []
    go = threading.Event()

    def first(connection: sqlite3.Connection) -> int:
        go.wait(30)
        return 0

    def traced(connection: sqlite3.Connection) -> int:
        connection.set_trace_callback(said.append)
        return 0

    await file.run(traced)
    before = asyncio.create_task(file.write(first))
    after = [asyncio.create_task(file.write(work)) for work in works]
    await asyncio.sleep(0)
    go.set()
    await before
    found = await asyncio.gather(*after, return_exceptions=True)
    return list(found), said


async def test_what_is_written_at_one_time_has_one_transaction(tmp_path: Path) -> None:
    file = opened(tmp_path / "numbers.db")
    found, said = await together(file, *(insert(number) for number in range(20)))
    assert found == list(range(20))
    assert said.count("COMMIT") <= 2
    await file.close()
    assert numbers(tmp_path / "numbers.db") == list(range(20))


async def test_what_cannot_be_written_costs_nobody_else_what_is_theirs(tmp_path: Path) -> None:
    def broken(connection: sqlite3.Connection) -> int:
        raise ValueError("no number")

    file = opened(tmp_path / "numbers.db")
    await file.write(insert(7))
    found, _ = await together(file, insert(1), insert(7), broken, insert(2))
    assert (found[0], found[3]) == (1, 2)
    assert isinstance(found[1], StateError)
    assert isinstance(found[2], ValueError)
    with pytest.raises(StateError, match=r"numbers\.db"):
        await file.write(insert(2))
    await file.close()
    assert numbers(tmp_path / "numbers.db") == [1, 2, 7]


async def test_one_who_waits_no_more_does_not_keep_the_others_from_theirs(tmp_path: Path) -> None:
    file = opened(tmp_path / "numbers.db")
    go = threading.Event()
    held = asyncio.create_task(file.run(lambda _: go.wait(30)))
    gone, stays = (asyncio.create_task(file.write(insert(number))) for number in (1, 2))
    await asyncio.sleep(0)
    gone.cancel()
    go.set()
    await held
    assert await stays == 2
    await file.close()
    assert numbers(tmp_path / "numbers.db") == [1, 2]


def test_what_somebody_was_told_is_there_after_a_kill(tmp_path: Path) -> None:
    for number in range(3):
        path = tmp_path / f"{number}.db"
        writer = subprocess.Popen([sys.executable, "-c", KILLED, str(path), SCHEMA], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        told = [int(writer.stdout.readline()) for _ in range(50 + 37 * number)]
        os.kill(writer.pid, signal.SIGKILL)
        told += [int(line) for line in writer.stdout.read().splitlines()]
        writer.wait()
        writer.stdout.close()
        assert set(told) <= set(numbers(path))
