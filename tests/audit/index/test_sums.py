"""Sums of half hours: equal to what the calls of the index give, whatever was added to it and removed, and read without calls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from bench.index import make_log
from tests.audit.logs import PLAIN, opened, write
from tests.databases import postgres_database
from toolgen.audit.files import closed_segments
from toolgen.audit.index.database import IndexDatabase, SqliteDatabase
from toolgen.audit.index.index import RecordIndex
from toolgen.audit.index.postgres import PostgresDatabase
from toolgen.audit.index.row import RecordFilter
from toolgen.audit.index.sums import HALF_HOUR, Sum, duration_class, duration_of
from toolgen.connectors.sql.engines import location_of
from toolgen.core.clock import FixedClock
from toolgen.model.database_url import ServerLocation

BEGAN = 1_000_000_000.0
FIRST = int(BEGAN * 1e6) // HALF_HOUR
HALF_HOURS = 8


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Iterator[IndexDatabase]:
    if request.param == "sqlite":
        yield SqliteDatabase(None)
        return
    with postgres_database("") as url:
        location = location_of(url)
        assert isinstance(location, ServerLocation)
        yield PostgresDatabase(location, "")


def counted(found: list[Sum]) -> Counter[tuple[int, str, str, str]]:
    return Counter({(one.part, one.kind, one.name, one.status): one.calls for one in found})


def of_calls(index: RecordIndex, each: int) -> Counter[tuple[int, str, str, str]]:
    """What the calls of the index add up to, by parts of that many half hours."""
    sums: Counter[tuple[int, str, str, str]] = Counter()
    for call in index.samples():
        part = (call.time // HALF_HOUR - FIRST) // each
        sums[part, "status", "", call.status] += 1
        sums[0, "tool", call.tool, call.status] += 1
        sums[0, "principal", call.principal, call.status] += 1
        if call.duration_ms is not None and call.status != "pending":
            sums[part, "duration", str(duration_class(call.duration_ms)), ""] += 1
    return sums


def agrees(index: RecordIndex) -> None:
    for each in (1, 4):
        parts = index.sums_of_parts(FIRST, each, HALF_HOURS // each)
        names = index.sums_of_names(FIRST, FIRST + HALF_HOURS)
        assert counted([*parts, *names]) == of_calls(index, each)
    ends = (FIRST * HALF_HOUR, (FIRST + HALF_HOURS) * HALF_HOUR)
    for status in ("", "refused", "pending"):
        of_rules = index.rules(RecordFilter(since=ends[0], until=ends[1], status=status))
        assert index.rules_between(FIRST, FIRST + HALF_HOURS, status) == of_rules
    assert index.check() == []


def entries(random: Random, number: int) -> list[dict[str, Any]]:
    """An intent, and what happens to its call later."""
    who = {
        "call_id": f"call_{number}",
        "principal": random.choice(["bot", "eve"]),
        "tool": random.choice(["shop__query", "50%_off", "ä\0"]),
        "policy_digest": random.choice(["", "one", "two"]),
        "rule": random.choice(["", "reads", "default"]),
    }
    status = random.choice(["ok", "error", "refused"])
    ended = {"event": "outcome", **who, "status": status, "duration_ms": random.uniform(0, 90_000)}
    waits = {"event": "outcome", **who, "status": "pending", "duration_ms": 1.0}
    intent = {"event": "intent", **who}
    return random.choice([[intent, ended], [intent], [intent, waits], [intent, waits, intent, ended]])


@pytest.mark.parametrize("seed", range(3))
def test_they_are_those_of_the_calls_after_every_change(database: IndexDatabase, tmp_path: Path, seed: int) -> None:
    random, clock = Random(seed), FixedClock(BEGAN)
    calls = [entries(random, number) for number in range(60)]

    async def some(count: int) -> None:
        """Write so many entries: calls begin, wait, go on in other half hours and end."""
        log = opened(tmp_path / "log", replace(PLAIN, segment_s=600.0), clock)
        for _ in range(count):
            call = random.choice(calls)
            if call:
                await log.append(call.pop(0))
            clock.advance(random.uniform(0, 120))
        await log.close()

    with RecordIndex(database, tmp_path / "log") as index:
        for _ in range(4):
            asyncio.run(some(30))
            index.fill()
            agrees(index)
        removed = closed_segments(tmp_path / "log", "gateway-1")[:3]
        assert removed
        for segment in removed:
            segment.path.unlink()
        assert index.fill().faults == []
        agrees(index)
        index.rebuild()
        agrees(index)


def test_calls_that_are_added_during_a_check_are_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "log", 3)
    database, other = (SqliteDatabase(tmp_path / "index.db") for _ in range(2))
    with RecordIndex(database, tmp_path / "log") as index, RecordIndex(other, tmp_path / "log") as filling:
        index.fill()
        read = database.rows

        def rows(statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
            found = read(statement, values)
            if "FROM audit_sums WHERE step" in statement and filling.count() == (6, 3):
                write(tmp_path / "log", 4)
                filling.fill()
            return found

        monkeypatch.setattr(database, "rows", rows)
        assert index.check() == []
        assert index.count() == (14, 4)


def test_policies_are_counted_without_their_calls(tmp_path: Path) -> None:
    make_log(tmp_path / "log", 2_000)
    database = SqliteDatabase(None)
    with RecordIndex(database, tmp_path / "log") as index:
        index.fill()
        used = index.policies()
        stored = database.rows(
            "SELECT policy_digest, min(time), max(time), count(*) FROM audit_calls WHERE policy_digest IS NOT NULL GROUP BY 1"
        )
        assert sorted((use.digest, use.first, use.last, use.calls) for use in used) == sorted(stored)


def steps(database: SqliteDatabase, work: Callable[[], object]) -> int:
    """The number of times that SQLite did ten steps."""
    taken = [0]

    def count() -> None:
        taken[0] += 1

    database._connection.set_progress_handler(count, 10)
    work()
    database._connection.set_progress_handler(None, 0)
    return taken[0]


def test_more_calls_in_the_same_time_do_not_make_them_longer_to_read(tmp_path: Path) -> None:
    took = []
    for entries_ in (4_000, 16_000):  # of the same principals and tools
        log = tmp_path / str(entries_)
        make_log(log, entries_)
        database = SqliteDatabase(None)
        with RecordIndex(database, log) as index:
            index.fill()
            first = min(call.time for call in index.samples()) // HALF_HOUR
            took.append(
                steps(
                    database,
                    lambda index=index, first=first: (
                        index.sums_of_parts(first, 1, 48),
                        index.sums_of_names(first, first + 48),
                    ),
                )  # type: ignore[misc]
            )
    assert took[1] < 2 * took[0]


@pytest.mark.parametrize("duration_ms", [0.0, 0.01, 0.5, 1.0, 17.3, 90_000.0])
def test_a_class_is_within_two_percent_of_its_durations(duration_ms: float) -> None:
    assert duration_of(duration_class(duration_ms)) == pytest.approx(max(duration_ms, 0.01), rel=0.02)
