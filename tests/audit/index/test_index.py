"""The index of the log: what it takes over, that it follows and agrees, and that nobody's change to it stays unseen."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
import yaml

from bench.index import make_log
from tests.audit.logs import PLAIN, in_segments, opened, write
from tests.databases import postgres_database
from tests.messages import line_names
from tests.projects import make_project
from toolgen.audit.entry import seal
from toolgen.audit.files import closed_segments, pack
from toolgen.audit.index import index as index_module
from toolgen.audit.index.database import IndexDatabase, SqliteDatabase
from toolgen.audit.index.index import RecordIndex
from toolgen.audit.index.indexer import Filled, begin_stream
from toolgen.audit.index.log_lines import begins
from toolgen.audit.index.postgres import PostgresDatabase
from toolgen.audit.index.row import RecordFilter, micros
from toolgen.audit.log import AuditLog
from toolgen.audit.reader import entries as read_entries
from toolgen.audit.reader import merged
from toolgen.connectors.sql.engines import location_of
from toolgen.core.clock import FixedClock
from toolgen.core.errors import AuditError, ConfigError
from toolgen.model.database_url import ServerLocation

Open = Callable[[], IndexDatabase]


def postgres_at(url: str) -> PostgresDatabase:
    location = location_of(url)
    assert isinstance(location, ServerLocation)
    return PostgresDatabase(location, "")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the same database, as often as it is called."""
    made: list[IndexDatabase] = []

    def kept(one: IndexDatabase) -> IndexDatabase:
        made.append(one)
        return one

    if request.param == "sqlite":
        yield lambda: kept(SqliteDatabase(tmp_path / "var" / "index.db"))
        for one in made:
            one.close()
        return
    with postgres_database("") as url:
        yield lambda: kept(postgres_at(url))
        for one in made:
            one.close()


async def record(directory: Path, entries: list[dict[str, Any]], clock: FixedClock | None = None) -> None:
    """A log with these entries, in this order."""

    log = AuditLog(directory, clock or FixedClock(), PLAIN)
    log.open()
    for entry in entries:
        await log.append(entry)
    await log.close()


def call(number: int, **outcome: Any) -> list[dict[str, Any]]:
    who = {
        "call_id": f"call_{number}",
        "principal": outcome.pop("principal", "bot"),
        "tool": outcome.pop("tool", "shop__query"),
    }
    intent = {
        "event": "intent",
        **who,
        "arguments": outcome.pop("arguments", {}),
        "session": outcome.pop("session", ""),
    }
    ending = {
        "event": "outcome",
        **who,
        "status": "ok",
        "verdict": "allow",
        "rule": "reads",
        "duration_ms": 1.5,
        **outcome,
    }
    return [intent, ending]


def rows(index: RecordIndex, wanted: RecordFilter | None = None) -> list[dict[str, Any]]:
    found = [dict(row) for row in index.calls(wanted or RecordFilter(), limit=1000).rows]
    for row in found:
        row.pop("log", None)
    return found[::-1]


def names(index: RecordIndex, **wanted: Any) -> list[str]:
    return [row["call_id"] for row in rows(index, RecordFilter(**wanted))]


def test_it_has_the_calls_that_the_log_has(database: Open, tmp_path: Path) -> None:
    in_segments(tmp_path / "log", segments=3, calls=4)
    closed = closed_segments(tmp_path / "log", "gateway-1")
    pack(closed[0])
    with RecordIndex(database(), tmp_path / "log") as index:
        assert index.fill().entries == 32
        assert rows(index) == merged(read_entries(tmp_path / "log"))
        assert index.fill().entries == 0
        assert index.check() == []


def test_it_takes_over_what_is_new_across_rotation_and_packing(database: Open, tmp_path: Path) -> None:
    log, clock, taken = tmp_path / "log", FixedClock(), []
    for calls in (1, 2, 3):
        in_segments(log, segments=1, calls=calls, clock=clock)
        for segment in closed_segments(log, "gateway-1"):
            if not segment.packed:
                pack(segment)
        with RecordIndex(database(), log) as index:
            taken.append(index.fill().entries)
    assert sum(taken) == 24
    with RecordIndex(database(), log) as index:
        assert [row["seq"] for row in index.entries(limit=100).rows] == list(range(24, 0, -1))


async def test_what_is_written_meanwhile_is_followed_and_an_unfinished_call_ends(
    database: Open, tmp_path: Path
) -> None:
    log = opened(tmp_path / "log")
    with RecordIndex(database(), tmp_path / "log") as index:
        intent, outcome = call(1, session="s-1")
        await log.append(intent)
        index.fill()
        marks = index.marks()
        assert [row["status"] for row in rows(index)] == ["unfinished"]
        await log.append(outcome)
        index.fill()
        assert [row["status"] for row in rows(index)] == ["ok"]
        assert names(index, session="s-1", status="ok") == ["call_1"]
        assert names(index, status="unfinished") == []
        assert [entry["event"] for entry in index.newer(marks)] == ["outcome"]
        assert index.newer(marks) == []
    await log.close()


FOUND = [
    ({"principal": "eve"}, ["call_2"]),
    ({"on_behalf_of": "ann"}, ["call_3"]),
    ({"tool": "shop__query"}, ["call_1", "call_4"]),
    ({"tool": "pets__*"}, ["call_2", "call_3"]),
    ({"tool": "????__get*"}, ["call_2"]),
    ({"tool": "*[p]*"}, []),
    ({"tool": "pets%"}, []),
    ({"verdict": "deny"}, ["call_3"]),
    ({"rule": "default"}, ["call_3"]),
    ({"status": "error"}, ["call_2"]),
    ({"code": "forbidden"}, ["call_3"]),
    ({"session": "s-1"}, ["call_4"]),
    ({"call_id": "call_4"}, ["call_4"]),
    ({"text": "100%_OF"}, ["call_1"]),
    ({"text": 'quo"te'}, ["call_2"]),
    ({"text": "100xxof"}, []),
    ({"principal": "bot", "tool": "pets__*", "status": "refused"}, ["call_3"]),
    ({"since": 1_000_000_020_000_000}, ["call_3", "call_4"]),
    ({"until": 1_000_000_020_000_000}, ["call_1", "call_2"]),
    ({"principal": "x' OR 1=1 --"}, []),
    ({"text": "\x00"}, []),
    ({}, ["call_1", "call_2", "call_3", "call_4"]),
]


async def test_calls_are_found_by_what_they_are_like(database: Open, tmp_path: Path) -> None:
    clock = FixedClock()
    told = [
        call(1, arguments={"note": "100%_of"}),
        call(
            2, principal="eve", tool="pets__get_pet", status="error", code="upstream_error", arguments={"n": 'quo"te'}
        ),
        call(
            3,
            tool="pets__delete_pet",
            status="refused",
            code="forbidden",
            verdict="deny",
            rule="default",
            on_behalf_of="ann",
        ),
        call(4, session="s-1"),
    ]
    for entries in told:
        await record(tmp_path / "log", entries, clock)
        clock.advance(10)
    with RecordIndex(database(), tmp_path / "log") as index:
        index.fill()
        for wanted, expected in FOUND:
            assert names(index, **wanted) == expected, wanted
            if wanted:
                of_entries = {entry["call_id"] for entry in index.entries(RecordFilter(**wanted), limit=100).rows}
                assert of_entries == set(expected), wanted


@pytest.mark.parametrize(
    "wanted",
    [
        RecordFilter(),
        RecordFilter(principal="bot"),
        RecordFilter(event="outcome"),
        RecordFilter(tool="pets__*", event="intent"),
    ],
)
def test_pages_have_everything_once(database: Open, tmp_path: Path, wanted: RecordFilter) -> None:
    write(tmp_path / "log", 9)  # all of one moment: nothing but numbers tells them apart
    with RecordIndex(database(), tmp_path / "log") as index:
        index.fill()
        for listing, key in ((index.entries, "seq"), (index.calls, "seq")):
            whole = [row[key] for row in listing(wanted, limit=100).rows]
            paged, after = [], None
            while True:
                page = listing(wanted, limit=4, after=after)
                paged += [row[key] for row in page.rows]
                after = page.next
                if after is None:
                    break
            assert paged == whole
            assert len(set(paged)) == len(paged) > 0
        with pytest.raises(ConfigError, match="another listing"):
            index.entries(wanted, after=(1, 2, 3))


async def test_what_agents_write_is_nothing_a_database_stumbles_over(database: Open, tmp_path: Path) -> None:
    strange = "a\x00b\x1b[2J\u202e'\";--%_\U0001f600" + "x" * 5000
    await record(
        tmp_path / "log", call(1, tool=strange, session=strange, arguments={strange: [strange, -1e300, 2**53]})
    )
    with RecordIndex(database(), tmp_path / "log") as index:
        assert index.fill().faults == []
        (row,) = rows(index, RecordFilter(text="x" * 900))
        assert (row["tool"], row["arguments"][strange][0]) == (strange, strange)
        assert index.check() == []


async def test_one_call_in_several_streams_is_one_row(database: Open, tmp_path: Path) -> None:
    first, second = call(1, status="pending", code="approval_required"), call(1, duration_ms=9.0)

    async def scenario() -> None:
        clock = FixedClock()
        one, other = opened(tmp_path / "log", clock=clock), opened(tmp_path / "log", clock=clock)
        for log, entries in ((one, first), (other, second)):
            for entry in entries:
                await log.append(entry)
                clock.advance(1)
            with RecordIndex(database(), tmp_path / "log") as index:
                index.fill()
                found = [{name: item for name, item in row.items() if name != "asked"} for row in rows(index)]
                assert found == merged(read_entries(tmp_path / "log"))
        await one.close()
        await other.close()

    await scenario()
    with RecordIndex(database(), tmp_path / "log") as index:
        (row,) = rows(index)
        assert (row["stream"], row["status"], row["duration_ms"]) == ("gateway-2", "ok", 9.0)
        assert row["asked"] < row["time"]
        at = micros(row["asked"])
        assert names(index, since=at, until=at + 1) == []
        assert names(index, since=at, until=at + 1, any_entry=True) == ["call_1"]
        assert len(index.story("call_1")) == 4
        assert index.check() == []


async def test_words_are_looked_for_in_what_people_wrote_and_not_in_digests(database: Open, tmp_path: Path) -> None:
    hidden = "hmac-sha256:" + "c14" * 21 + "c"
    made = [
        *call(1, arguments={"customer_id": "c14", "quoted": 'a "b"'}, tool_digest="sha256:" + "a" * 64),
        *call(2, arguments={"customer_id": hidden}, session="session-c15", client="agent/7"),
    ]
    note = {"event": "decision", "call_id": "call_2", "principal": "ann", "verdict": "approve",
            "arguments": {"note": "agreed by phone", "channel": "console", "shown": {"request": "sha256:" + "c14a" * 16}}}  # fmt: skip
    await record(tmp_path / "log", [*made, note])
    wanted = {
        "c14": ["call_1"], '"customer_id":"c14"': ["call_1"], 'a "b"': ["call_1"], "SESSION-C15": ["call_2"], "agent/7": ["call_2"],
        "by phone": ["call_2"], "console": [], "sha256": [], "call_1": [], "%": [],
    }  # fmt: skip
    with RecordIndex(database(), tmp_path / "log") as index:
        index.fill()
        assert {text: names(index, words=text) for text in wanted} == wanted
        assert index.count_calls(RecordFilter(words="customer"), most=10) == 2
        assert index.count_calls(most=1) == 1
        assert index.count_calls(RecordFilter(tools=()), most=5) == 0
        assert sum(use.calls for use in index.rules()) == 2
        assert index.check() == []


def test_an_index_of_an_earlier_version_is_filled_again(tmp_path: Path) -> None:
    write(tmp_path / "log", 3)
    path = tmp_path / "index.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE audit_calls (id INTEGER PRIMARY KEY)")
        connection.execute("PRAGMA user_version = 1")
    with RecordIndex(SqliteDatabase(path), tmp_path / "log") as index:
        index.fill()
        assert index.count()[1] == 3


def test_deleting_it_loses_nothing(tmp_path: Path) -> None:
    write(tmp_path / "log", 5)
    path = tmp_path / "index.db"
    with RecordIndex(SqliteDatabase(path), tmp_path / "log") as index:
        index.fill()
        before = rows(index)
    assert path.stat().st_mode & 0o777 == 0o600
    path.unlink()
    with RecordIndex(SqliteDatabase(path), tmp_path / "log") as index:
        index.fill()
        assert rows(index) == before
        assert index.rebuild().entries == 10
        assert rows(index) == before


def test_several_processes_fill_one_index_without_duplicates(database: Open, tmp_path: Path) -> None:
    path, prev = tmp_path / "log" / "gateway-1.jsonl", ""
    path.parent.mkdir()
    with path.open("wb") as file:  # as the log writes it, but synced once
        for seq, entry in enumerate((entry for number in range(6000) for entry in call(number)), 1):
            prev, line = seal(entry, seq=seq, stream="gateway-1", time="2026-01-31T12:00:00.000000Z", prev=prev)
            file.write(line)
    faults: list[BaseException] = []
    databases = [database() for _ in range(3)]

    def work(one: IndexDatabase) -> None:
        try:
            RecordIndex(one, tmp_path / "log").fill()
        except BaseException as error:  # told below, in the test's own thread
            faults.append(error)

    threads = [threading.Thread(target=work, args=(one,)) for one in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    with RecordIndex(database(), tmp_path / "log") as index:
        assert index.count() == (12_000, 6000)
        assert index.check() == []


TAMPERED = [
    (
        "UPDATE audit_entries SET body = replace(body, 'bot', 'eve') WHERE (id & 1099511627775) = 3",
        "was changed in the index",
    ),
    ("UPDATE audit_entries SET hash = prev WHERE (id & 1099511627775) = 3", "was changed in the index"),
    ("DELETE FROM audit_entries WHERE (id & 1099511627775) = 3", ""),
    ("UPDATE audit_calls SET status = 'error' WHERE call_id = 'call_2'", ""),
    ("DELETE FROM audit_calls WHERE call_id = 'call_2'", ""),
    (
        "INSERT INTO audit_calls SELECT 7, 'call_x', time, principal, on_behalf_of, tool, verdict, rule, status, code, session, 1, "
        "began, ended, policy_digest, words FROM audit_calls LIMIT 1",
        "",
    ),
    ("UPDATE audit_sums SET calls = calls + 1 WHERE kind = 'tool'", ""),
    ("DELETE FROM audit_sums WHERE kind = 'duration'", ""),
    ("INSERT INTO audit_sums (kind, step, name, status, calls) VALUES ('status', 7, '', 'ok', 1)", ""),
]


@pytest.mark.parametrize(("statement", "told"), TAMPERED)
def test_a_change_of_the_index_is_noticed(database: Open, tmp_path: Path, statement: str, told: str) -> None:
    write(tmp_path / "log", 5)
    one = database()
    with RecordIndex(one, tmp_path / "log") as index:
        index.fill()
        one.run(statement)
        if told:
            with pytest.raises(AuditError, match=told):
                index.find(3)
            with pytest.raises(AuditError, match=told):
                index.calls(limit=100)
        assert index.check() != []
        index.rebuild()
        assert index.check() == []


@pytest.mark.parametrize("size", [1, 2, 1000])
async def test_samples_are_read_some_at_a_time(
    database: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(index_module, "_SAMPLES", size)
    calls = [call(number, duration_ms=float(number), principal="abc"[number % 3]) for number in range(9)]
    await record(tmp_path / "log", [entry for pair in calls for entry in pair])  # of one time
    with RecordIndex(database(), tmp_path / "log") as index:
        index.fill()
        assert [one.duration_ms for one in index.samples()] == [float(number) for number in reversed(range(9))]
        assert [one.duration_ms for one in index.samples(RecordFilter(principal="b"))] == [7.0, 4.0, 1.0]


@pytest.mark.parametrize("gone", [(), (1,), (3, 4), (2, 7, 8), (7, 8), tuple(range(1, 9))])
def test_entries_of_the_log_or_of_the_index_alone_are_told(
    database: Open, tmp_path: Path, gone: tuple[int, ...]
) -> None:
    write(tmp_path / "log", 4)
    one = database()
    with RecordIndex(one, tmp_path / "log") as index:
        index.fill()
        extra = "INSERT INTO audit_entries SELECT id + ?, stream, time, event, NULL, prev, hash, body FROM audit_entries LIMIT 1"
        one.run(extra, (100,))
        for seq in gone:
            one.run("DELETE FROM audit_entries WHERE (id & 1099511627775) = ?", (seq,))
        told = [said for said in index.check() if said.startswith("gateway-1: ")]
        missing = [f"gateway-1: entry {seq} is not in the index" for seq in gone]
        assert told[:-1] == missing
        assert told[-1] not in missing


@pytest.mark.parametrize("seed", range(8))
def test_calls_that_begin_and_end_during_a_check_are_no_difference(
    database: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Between two reads of the check the log grows, or another process takes what is new into the index."""
    random = Random(seed)
    intents, outcomes = zip(*(call(number) for number in range(40)), strict=True)
    entries = iter([*intents, *outcomes])
    asyncio.run(record(tmp_path / "log", list(islice(entries, 10))))
    one = database()
    with RecordIndex(one, tmp_path / "log") as index, RecordIndex(database(), tmp_path / "log") as filling:
        index.fill()
        read, checked = one.rows, [False]

        def rows(statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
            if checked[0]:
                checked[0] = False
                if random.random() < 0.7:
                    asyncio.run(record(tmp_path / "log", list(islice(entries, 3))))
                if random.random() < 0.7:
                    filling.fill()
                checked[0] = True
            return read(statement, values)

        begin = one.transaction

        @contextlib.contextmanager
        def transaction() -> Iterator[None]:
            checked[0] = False  # the other process waits
            with begin():
                yield
            checked[0] = True

        monkeypatch.setattr(one, "rows", rows)
        monkeypatch.setattr(one, "transaction", transaction)
        found, checked[0] = [], True
        while index.count()[0] < 70:
            found += index.check()
    assert found == []


def test_a_change_that_fits_its_own_hash_is_noticed_against_the_log(database: Open, tmp_path: Path) -> None:
    write(tmp_path / "log", 3)
    with RecordIndex(database(), tmp_path / "log") as index:
        index.fill()
        entry = index.find(2)[0]
        assert entry.checked
        path = tmp_path / "log" / "gateway-1.jsonl"
        path.write_bytes(path.read_bytes().replace(b'"duration_ms":1.5', b'"duration_ms":9.5'))
        with pytest.raises(AuditError, match="not the same in the log and in its index"):
            index.find(2)


def test_a_log_that_was_changed_is_followed_up_to_there_and_no_further(database: Open, tmp_path: Path) -> None:
    write(tmp_path / "log", 4)
    path = tmp_path / "log" / "gateway-1.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b"bot", b"eve")
    path.write_bytes(b"".join(lines))
    with RecordIndex(database(), tmp_path / "log") as index:
        filled = index.fill()
        assert filled.entries == 4
        assert "after entry 4 " in filled.faults[0]
        assert len(rows(index)) == 2
        assert index.fill().faults == filled.faults
        found = index.find(7)
        assert [one.checked for one in found] == [False]


def test_a_log_that_was_cut_behind_what_is_indexed_is_told(database: Open, tmp_path: Path) -> None:
    write(tmp_path / "log", 4)
    path = tmp_path / "log" / "gateway-1.jsonl"
    data = path.read_bytes()
    with RecordIndex(database(), tmp_path / "log") as index:
        index.fill()
        path.write_bytes(b"".join(data.splitlines(keepends=True)[:6]))
        assert line_names(index.fill().faults[0], "entry 8 ", "index")
        assert index.rebuild().faults == []
        assert index.count() == (6, 3)


@pytest.mark.parametrize("line", [b"no entry at all", b'{"seq": 8}', b"[]"])
def test_a_last_line_that_is_no_entry_any_more_is_told(database: Open, tmp_path: Path, line: bytes) -> None:
    write(tmp_path / "log", 4)
    path = tmp_path / "log" / "gateway-1.jsonl"
    *before, last = path.read_bytes().splitlines(keepends=True)
    with RecordIndex(database(), tmp_path / "log") as index:
        index.fill()
        path.write_bytes(b"".join(before) + line.ljust(len(last) - 1) + b"\n")
        assert line_names(index.fill().faults[0], "entry 8 ", "index")


def test_whoever_follows_from_the_beginning_is_given_every_entry(database: Open, tmp_path: Path) -> None:
    write(tmp_path / "log", 2)
    with RecordIndex(database(), tmp_path / "log") as index:
        index.fill()
        assert [entry["seq"] for entry in index.newer({})] == [1, 2, 3, 4]


def test_what_is_still_being_written_is_left_for_later(database: Open, tmp_path: Path) -> None:
    write(tmp_path / "log", 2)
    path = tmp_path / "log" / "gateway-1.jsonl"
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    for torn in (b"".join(lines[:3]) + lines[3][:50], b"".join(lines[:3]) + lines[3][:50] + bytes(4096)):
        path.write_bytes(torn)
        with RecordIndex(database(), tmp_path / "log") as index:
            filled = index.fill()
            assert (filled.faults, index.count()) == ([], (3, 2))
    path.write_bytes(data + bytes(4096))
    with RecordIndex(database(), tmp_path / "log") as index:
        assert (index.fill().entries, index.count()) == (1, (4, 2))


def test_what_policy_removed_from_the_log_is_removed_here(database: Open, tmp_path: Path) -> None:
    log, clock = tmp_path / "log", FixedClock()
    in_segments(log, segments=3, calls=2, clock=clock)
    with RecordIndex(database(), log) as index:
        index.fill()
        assert index.count() == (16, 8)
        first, *_ = closed_segments(log, "gateway-1")
        first.path.unlink()
        assert index.fill().faults == []
        assert index.count() == (12, 6)
        assert [row["seq"] for row in rows(index)] == [row["seq"] for row in merged(read_entries(log))]
    # Whoever begins only now begins where the log does.
    with RecordIndex(SqliteDatabase(None), log) as index:
        filled = index.fill()
        assert (filled.entries, filled.faults) == (12, [])


def test_another_log_in_the_same_place_takes_the_place_of_the_first(tmp_path: Path) -> None:
    log, path = tmp_path / "log", tmp_path / "index.db"
    for calls in (3, 1):
        write(log, calls, clock=FixedClock(1_000_000_000.0 + calls))
        with RecordIndex(SqliteDatabase(path), log) as index:
            index.fill()
            assert index.count() == (2 * calls, calls)
        for file in log.iterdir():
            file.unlink()


async def test_a_stream_of_another_log_that_has_just_begun_is_left_to_that_log(tmp_path: Path) -> None:
    for number, machine in enumerate("ab"):
        await record(tmp_path / machine, call(number, principal=machine))
    with postgres_database("") as url:
        beginning = begins(tmp_path / "a", "gateway-1")
        assert beginning is not None
        database = postgres_at(url)
        begin_stream(database, tmp_path / "a", "gateway-1", beginning)
        with RecordIndex(postgres_at(url), tmp_path / "b") as other, RecordIndex(database, tmp_path / "a") as index:
            assert (other.fill(), index.fill()) == (Filled(entries=2), Filled(entries=2))
            assert other.check() == index.check() == []
            assert {row["principal"] for row in rows(index)} == {"a", "b"}


async def test_gateways_of_several_machines_share_one_index(tmp_path: Path) -> None:
    with postgres_database("") as url:
        for machine, calls in (("a", 3), ("b", 2)):
            clock = FixedClock(1_000_000_000.0 + calls)
            await record(
                tmp_path / machine, [entry for number in range(calls) for entry in call(100 * calls + number)], clock
            )
            with RecordIndex(postgres_at(url), tmp_path / machine) as index:
                index.fill()
                index.fill()
        # A copy of a log is the same log.
        (tmp_path / "copy").mkdir()
        (tmp_path / "copy" / "gateway-1.jsonl").write_bytes((tmp_path / "a" / "gateway-1.jsonl").read_bytes())
        with RecordIndex(postgres_at(url), tmp_path / "copy") as index:
            assert index.fill().entries == 0
        with RecordIndex(postgres_at(url), tmp_path / "b") as index:
            assert index.count() == (10, 5)
            assert len(rows(index)) == 5
            found = {one.log.rpartition("/")[2]: one.checked for one in index.find(1)}
            assert found == {"a": False, "b": True}
            assert {entry["log"].rpartition("/")[2] for entry in index.entries(limit=100).rows} == {"a", "b"}
            index.rebuild()
            assert index.count() == (10, 5)
            assert index.check() == []


def test_an_unreachable_server_is_told_without_its_location() -> None:
    with pytest.raises(AuditError, match=r"cannot be reached") as caught:
        postgres_at("postgresql://canary-user@127.0.0.1:1/canary")
    assert "canary" not in str(caught.value)


def test_an_index_of_another_version_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    SqliteDatabase(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(AuditError, match="another version"):
        SqliteDatabase(path)
    path.write_bytes(b"not a database at all, but long enough to be looked at as one" * 40)
    with pytest.raises(AuditError, match="cannot be used"):
        SqliteDatabase(path)


ENDLESS = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + ? FROM n) SELECT count(*) FROM n",
    "postgres": "SELECT pg_catalog.pg_sleep(1000 * ?)",
}


def test_a_search_without_an_end_is_broken_off_and_the_next_one_is_answered(database: Open) -> None:
    found = database()
    with pytest.raises(AuditError, match=r"stopped after 0\.2 s") as caught:
        found.search(ENDLESS[found.dialect], (1,), 0.2)
    assert "narrow it by" in caught.value.suggestion
    assert found.search("SELECT 1", (), 60.0) == [(1,)]
    assert found.rows("SELECT 1") == [(1,)]


async def test_whoever_follows_connects_again_when_the_server_has_dropped_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_PETS_KEY", "canary")
    root = tmp_path / "project"
    with postgres_database("") as url:
        make_project(root)
        config = root / "toolgen.yaml"
        settings = yaml.safe_load(config.read_text())
        config.write_text(yaml.safe_dump({**settings, "audit": {"dir": "var/audit", "index": url}}))
        await record(root / "var" / "audit", call(1))
        command = [sys.executable, "-m", "toolgen", "audit", "index", "--follow", "--config", str(config)]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_interruptible,  # noqa: PLW1509
        )
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            assert "2 entries of 1 calls" in process.stdout.readline()
            _until_indexed(url, 2)
            for number in (2, 3):
                assert _dropped(url)
                await record(root / "var" / "audit", call(number))
                _until_indexed(url, 2 * number)
            said = _interrupted(process)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()
        assert process.returncode == 0, said
        assert said.count("was lost") <= 1, said  # told once


def _interruptible() -> None:
    """In the process to be: whoever runs the tests in the background may have left it deaf to interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _interrupted(process: subprocess.Popen[str]) -> str:
    """What a process said until it ended. One interrupt may come where Python cannot raise it, as while an object is collected."""
    for _ in range(100):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=3)[1]
    raise AssertionError("it does not end when it is interrupted")


def _dropped(url: str) -> bool:
    """Ends every connection of those that look after the index, once there is one."""
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(3000):
            ended = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name = 'toolgen audit'"
            ).fetchall()
            if ended:
                return True
            time.sleep(0.1)
    return False


def _until_indexed(url: str, entries: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(3000):
            if connection.execute("SELECT count(*) FROM audit_entries").fetchone() == (entries,):
                return
            time.sleep(0.1)
    raise AssertionError(f"not {entries} entries")


async def test_it_tells_which_policies_decided_calls(database: Open, tmp_path: Path) -> None:
    log, clock = tmp_path / "log", FixedClock()

    def told() -> list[tuple[str, int]]:
        with RecordIndex(database(), log) as index:
            index.fill()
            return [(use.digest, use.calls) for use in index.policies()]

    await record(log, [intent(number, policy_digest="one" if number < 3 else "two") for number in range(5)], clock)
    assert sorted(told()) == [("one", 3), ("two", 2)]
    clock.advance(1)
    await record(log, [intent(9, policy_digest="one"), intent(10)], clock)
    assert told() == [("one", 4), ("two", 2)]
    clock.advance(1)
    await record(log, [intent(9, policy_digest="two")], clock)  # as after it has waited
    assert told() == [("two", 3), ("one", 3)]


def intent(number: int, **fields: Any) -> dict[str, Any]:
    return {"event": "intent", "call_id": f"call_{number}", "principal": "bot", "tool": "t", **fields}


@pytest.mark.parametrize("kind", ["samples", "calls", "entries", "entries of calls"])
def test_the_last_page_of_a_time_range_reads_no_more_rows_than_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    make_log(tmp_path / "log", 4_000)
    monkeypatch.setattr(index_module, "_SAMPLES", 50)
    database = SqliteDatabase(None)
    with RecordIndex(database, tmp_path / "log") as index:
        index.fill()
        times = [micros(one["time"]) for one in read_entries(tmp_path / "log")]
        wanted = RecordFilter(since=min(times), until=max(times) + 1, principal="" if kind == "entries" else "agent-7")
        if kind == "samples":
            wanted = RecordFilter(since=wanted.since, until=wanted.until)
        taken = [0]

        def count() -> None:
            taken[-1] += 1

        database._connection.set_progress_handler(count, 10)
        monkeypatch.setattr(database, "search", lambda statement, values, _: database.rows(statement, values))
        if kind == "samples":
            for number, _ in enumerate(index.samples(wanted)):
                if number % 50 == 49:
                    taken.append(0)
        else:
            read, after = index.calls if kind == "calls" else index.entries, None
            while (page := read(wanted, limit=10, after=after)).next is not None:
                after = page.next
                taken.append(0)
        assert len(taken) > 5
        assert max(taken[-4:-1]) < 2 * min(taken[1:4]) + 20
