"""The log: durable before it answers, whole after a crash, silent about nothing."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.audit.drawn_logs import calls
from tests.audit.logs import opened as looked_after
from tests.audit.logs import with_key
from tests.exhaustive import examples
from tests.messages import line_names
from toolgen.audit import segment as segment_module
from toolgen.audit.log import AuditLog
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify
from toolgen.core.clock import FixedClock
from toolgen.core.errors import AuditError, CanonicalError


def opened(directory: Path) -> AuditLog:
    log = AuditLog(directory, FixedClock())
    log.open()
    return log


def intent(number: int) -> dict[str, object]:
    return {"event": "intent", "call_id": f"call_{number}", "principal": "bot", "tool": "pets__get_pet"}


def outcome(number: int) -> dict[str, object]:
    return {"event": "outcome", "call_id": f"call_{number}", "status": "ok"}


async def fill(directory: Path, count: int) -> None:
    log = opened(directory)
    for number in range(count):
        await log.append(intent(number))
        await log.append(outcome(number))
    await log.close()


async def test_entries_are_chained_and_verify(tmp_path: Path) -> None:
    await fill(tmp_path, 5)
    report = verify(tmp_path)
    assert report.ok
    assert report.entries == 10
    assert [entry["seq"] for entry in entries(tmp_path)] == list(range(1, 11))


async def test_a_log_goes_on_where_it_was_closed(tmp_path: Path) -> None:
    await fill(tmp_path, 2)
    await fill(tmp_path, 2)
    report = verify(tmp_path)
    assert (report.entries, report.streams) == (8, 1)
    assert [entry["seq"] for entry in entries(tmp_path)] == list(range(1, 9))


async def test_waiting_entries_share_a_sync_and_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = []
    real = segment_module._sync_content
    monkeypatch.setattr(segment_module, "_sync_content", lambda fd: (syncs.append(fd), real(fd)))

    log = opened(tmp_path)
    places = await asyncio.gather(*(log.append(intent(number)) for number in range(200)))
    await log.close()
    assert [seq for _, seq in places] == list(range(1, 201))
    assert len(syncs) < 10
    assert [entry["call_id"] for entry in entries(tmp_path)] == [f"call_{number}" for number in range(200)]


async def test_nothing_is_acknowledged_before_it_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    log = opened(tmp_path)
    await log.append(intent(1))
    with monkeypatch.context() as patched:
        patched.setattr(segment_module, "_sync_content", refuse)
        with pytest.raises(AuditError, match="cannot be written"):
            await log.append(intent(2))
        assert log.fault
    await log.append(intent(3))
    assert log.fault is None
    await log.close()
    assert verify(tmp_path).ok


async def test_every_waiting_entry_of_a_failed_batch_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    log = opened(tmp_path)
    monkeypatch.setattr(segment_module, "_sync_content", refuse)
    results = await asyncio.gather(*(log.append(intent(number)) for number in range(50)), return_exceptions=True)
    assert all(isinstance(result, AuditError) for result in results)
    await log.close()


async def test_a_directory_that_went_away_comes_back_without_a_restart(tmp_path: Path) -> None:
    directory = tmp_path / "audit"

    log = opened(directory)
    await log.append(intent(1))
    directory.rename(tmp_path / "elsewhere")
    directory.write_text("in the way", encoding="utf-8")
    with pytest.raises(AuditError):
        await log.append(intent(2))
    directory.unlink()
    await log.append(intent(3))
    await log.close()
    assert [entry["call_id"] for entry in entries(directory)] == ["call_3"]
    assert [fault.kind for fault in verify(directory).faults] == ["removed"]


@pytest.mark.parametrize("fault", ["gone", "full", "broken"])
async def test_a_look_finds_before_a_call_does_that_nothing_could_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    directory, error = tmp_path / "audit", errno.ENOSPC if fault == "full" else errno.EIO

    def refuse(*_: object) -> int:
        raise OSError(error, os.strerror(error))

    log = opened(directory)
    await log.append(intent(1))
    log.probe()
    assert log.fault is None
    if fault == "gone":
        directory.rename(tmp_path / "elsewhere")
        directory.write_text("in the way", encoding="utf-8")
    with monkeypatch.context() as patched:
        if fault != "gone":
            assert log._segment is not None
            log._segment._allocated = log._segment.size  # as behind many entries: what was allocated is used up
            os.ftruncate(log._segment._fd, log._segment.size)
            patched.setattr(os, "pwrite", refuse)
        log.probe()
        assert log.fault is not None
        assert "audit log" in log.fault
        with pytest.raises(AuditError):
            await log.append(intent(2))
    if fault == "gone":
        directory.unlink()
    await log.append(intent(3))
    assert log.fault is None
    counts = log.counts()
    assert (counts.entries["intent"], counts.waiting, counts.unsigned) == (2, 0, 0)
    assert counts.writes >= 2
    await log.close()


async def test_what_no_checkpoint_covers_is_counted_until_one_does(tmp_path: Path) -> None:
    with_key(tmp_path)

    log = looked_after(tmp_path)
    for number in range(3):
        await log.append(intent(number))
    assert log._maintenance is not None
    assert log.counts().unsigned == 3
    log._maintenance.tick()
    assert (log.counts().unsigned, log.counts().undelivered_s) == (0, 0.0)
    await log.close()


async def test_what_is_no_json_fails_alone(tmp_path: Path) -> None:
    log = opened(tmp_path)
    good, bad = await asyncio.gather(
        log.append(intent(1)), log.append({"event": "intent", "session": "\ud800"}), return_exceptions=True
    )
    assert good == ("gateway-1", 1)
    assert isinstance(bad, CanonicalError)
    with pytest.raises(AuditError, match="malformed"):
        await log.append({"event": "intent", "no_such_field": 1})
    assert await log.append(intent(2)) == ("gateway-1", 2)
    await log.close()
    assert verify(tmp_path).ok


async def test_two_processes_write_two_streams(tmp_path: Path) -> None:
    one, two = opened(tmp_path), opened(tmp_path)
    assert await one.append(intent(1)) == ("gateway-1", 1)
    assert await two.append(intent(2)) == ("gateway-2", 1)
    await one.close()
    await two.close()
    report = verify(tmp_path)
    assert report.ok
    assert report.streams == 2


@pytest.mark.parametrize("cut", [0, 300, 2000])
async def test_a_file_that_is_cut_while_it_is_written_shows_what_is_missing(tmp_path: Path, cut: int) -> None:
    log = opened(tmp_path)
    for number in range(10):
        await log.append(intent(number))
    os.truncate(tmp_path / "gateway-1.jsonl", cut)
    for number in range(10, 15):
        await log.append(intent(number))
    await log.close()
    assert [entry.get("call_id") for entry in entries(tmp_path)][-5:] == [f"call_{number}" for number in range(10, 15)]
    report = verify(tmp_path)
    assert "removed" in {fault.kind for fault in report.faults}


async def test_a_zeroed_byte_hides_nothing_and_nothing_is_cut_off_behind_it(tmp_path: Path) -> None:
    await fill(tmp_path, 10)
    path = tmp_path / "gateway-1.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = b"".join([*lines[:5], b"\0" + lines[5][1:], *lines[6:]])
    path.write_bytes(damaged)
    report = verify(tmp_path)
    assert not report.ok
    assert report.entries == 19
    with pytest.raises(AuditError, match="complete entries follow"):
        opened(tmp_path)
    assert path.read_bytes() == damaged


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("keep me", encoding="utf-8")
    directory = tmp_path / "audit"
    directory.mkdir()
    (directory / "gateway-1.jsonl").symlink_to(victim)
    with pytest.raises(AuditError):
        opened(directory)
    assert victim.read_text(encoding="utf-8") == "keep me"


json_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text("aé\x00😀")
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("ab😀", max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(json_values, min_size=1, max_size=4))
@example([1e16, -1e16, 9007199254740993.0, 1.5e20, 1e21, 5e-324, -0.0, 2**70])
async def test_whatever_json_an_agent_sends_can_be_recorded_verified_and_built_on(
    tmp_path: Path, values: list[object]
) -> None:
    directory = Path(tempfile.mkdtemp(dir=tmp_path))

    for value in values:
        log = opened(directory)
        await log.append({**intent(1), "arguments": {"value": value}})
        await log.close()
    report = verify(directory)
    assert report.ok, report.faults
    assert report.entries == len(values)


@pytest.mark.parametrize(
    ("tail", "by_a_kill"),
    [(b'{"seq":', True), (b'{"seq":5,"x":1}', True), (b"\x00\x00half", False), (b"half\x00\x00", False)],
)
async def test_a_torn_tail_is_cut_off_and_recorded(tmp_path: Path, tail: bytes, by_a_kill: bool) -> None:
    await fill(tmp_path, 2)
    path = tmp_path / "gateway-1.jsonl"
    with path.open("ab") as file:
        file.write(tail + b"\0" * 100)
    assert verify(tmp_path).ok is by_a_kill
    await fill(tmp_path, 1)
    events = [(entry["event"], entry.get("bytes")) for entry in entries(tmp_path)]
    assert events[4] == ("recovered", len(tail.rstrip(b"\0")))
    assert (tmp_path / "gateway-1.torn-4").read_bytes() == tail.rstrip(b"\0")
    assert verify(tmp_path).ok


def test_calls_that_a_killed_writer_left_open_are_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A copy of a log that is written is what a kill leaves."""

    async def killed(source: Path, target: Path, first: int) -> None:
        log = AuditLog(source, FixedClock(), is_read=lambda tool: tool == "pets__get_pet")
        log.open()
        for number in range(first, first + 4):
            await log.append({**intent(number), "tool": "pets__get_pet" if number % 4 else "pets__add_pet"})
        await log.append(outcome(first + 1))
        lost = {"event": "decision", "call_id": f"call_{first + 2}", "code": "outcome_unknown", "status": "error"}
        await log.append(lost)
        assert log.counts().lost == 1
        shutil.copytree(source, target)
        await log.close()

    def counted(directory: Path) -> tuple[dict[str, int], list[object]]:
        log = AuditLog(directory, FixedClock(), is_read=lambda tool: tool == "pets__get_pet")
        log.open()
        found = dict(log.counts().left_open)
        asyncio.run(log.close())
        return found, [entry["arguments"] for entry in entries(directory) if entry["event"] == "recovered"]

    asyncio.run(killed(tmp_path / "one", tmp_path / "two", 0))
    assert counted(tmp_path / "one") == ({"read": 0, "write": 0}, [])
    assert not caplog.records
    asyncio.run(killed(tmp_path / "two", tmp_path / "three", 4))
    (said,) = caplog.messages
    assert line_names(said, "gateway-1 ", "2 calls", "1 of them")
    assert counted(tmp_path / "three") == ({"read": 1, "write": 1}, [{"left_open": 2}, {"left_open": 2}])
    assert verify(tmp_path / "three").ok


async def test_nothing_is_built_on_an_entry_that_was_changed(tmp_path: Path) -> None:
    await fill(tmp_path, 2)
    path = tmp_path / "gateway-1.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"call_1"', b'"call_9"'))
    with pytest.raises(AuditError, match="not what was written"):
        opened(tmp_path)


def test_a_log_longer_than_the_recovery_window_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_module, "_WINDOW", 2000)
    monkeypatch.setattr(segment_module, "_STEP", 1000)
    asyncio.run(fill(tmp_path, 40))
    asyncio.run(fill(tmp_path, 1))
    assert [entry["seq"] for entry in entries(tmp_path)] == list(range(1, 83))


async def test_files_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    directory = tmp_path / "audit"
    await fill(directory, 1)
    assert directory.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in directory.iterdir())


WRITER = """
import asyncio, sys
from pathlib import Path
from toolgen.audit.log import AuditLog
from toolgen.core.clock import SystemClock

async def main():
    log = AuditLog(Path(sys.argv[1]), SystemClock())
    log.open()
    async def work(lane):
        for number in range(1_000_000):
            _, seq = await log.append({"event": "intent", "call_id": f"call_{lane}_{number}"})
            print(seq, flush=True)
    await asyncio.gather(*(work(lane) for lane in range(8)))

asyncio.run(main())
"""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


async def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path, writer: subprocess.Popen[str]) -> None:
    assert writer.stdout is not None
    acknowledged = [int(writer.stdout.readline()) for _ in range(300)]
    os.kill(writer.pid, signal.SIGKILL)
    acknowledged += [int(line) for line in writer.stdout.read().split()[:-1]]
    report = verify(tmp_path)
    assert report.ok, report.faults
    assert set(acknowledged) <= {entry["seq"] for entry in entries(tmp_path)}
    assert len(report.unfinished) == report.entries
    assert {row["status"] for row in calls(tmp_path)} == {"unfinished"}
    await fill(tmp_path, 1)
    assert verify(tmp_path).ok


async def test_a_call_that_waited_is_one_row_whichever_workers_wrote_of_it(tmp_path: Path) -> None:
    clock = FixedClock()
    asked = {"event": "outcome", "call_id": "call_1", "status": "pending", "code": "approval_required"}
    approved = {"event": "decision", "call_id": "call_1", "principal": "ops", "verdict": "approve"}
    denied = {
        "event": "decision",
        "call_id": "call_2",
        "principal": "ops",
        "status": "refused",
        "code": "approval_denied",
    }

    earlier, later = AuditLog(tmp_path, clock), AuditLog(tmp_path, clock)
    for log in (earlier, later):
        log.open()
    for log, entry in [
        (later, intent(1)),
        (later, asked),
        (later, intent(2)),
        (later, asked | {"call_id": "call_2"}),
        (earlier, approved),
        (earlier, denied),
        (earlier, intent(1)),
        (earlier, outcome(1)),
    ]:
        clock.advance(1)
        await log.append(entry)
    await earlier.close()
    await later.close()
    rows = {row["call_id"]: row for row in calls(tmp_path)}
    assert [(row["principal"], row["status"], row.get("code")) for row in rows.values()] == [
        ("bot", "refused", "approval_denied"),
        ("bot", "ok", None),
    ]
    assert verify(tmp_path).ok
