"""The log: durable before it answers, whole after a crash, silent about nothing."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolgen.audit import segment as segment_module
from toolgen.audit.log import AuditLog
from toolgen.audit.query import calls, entries
from toolgen.audit.verify import verify
from toolgen.clock import FixedClock
from toolgen.errors import AuditError, CanonicalError


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


def test_entries_are_chained_and_verify(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path, 5))
    report = verify(tmp_path)
    assert report.ok
    assert report.entries == 10
    assert [entry["seq"] for entry in entries(tmp_path)] == list(range(1, 11))


def test_a_log_goes_on_where_it_was_closed(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path, 2))
    asyncio.run(fill(tmp_path, 2))
    report = verify(tmp_path)
    assert (report.entries, report.streams) == (8, 1)
    assert [entry["seq"] for entry in entries(tmp_path)] == list(range(1, 9))


def test_waiting_entries_share_a_sync_and_keep_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = []
    real = segment_module._fdatasync
    monkeypatch.setattr(segment_module, "_fdatasync", lambda fd: (syncs.append(fd), real(fd)))

    async def scenario() -> list[tuple[str, int]]:
        log = opened(tmp_path)
        places = await asyncio.gather(*(log.append(intent(number)) for number in range(200)))
        await log.close()
        return places

    places = asyncio.run(scenario())
    assert [seq for _, seq in places] == list(range(1, 201))
    assert len(syncs) < 10
    assert [entry["call_id"] for entry in entries(tmp_path)] == [f"call_{number}" for number in range(200)]


def test_nothing_is_acknowledged_before_it_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def scenario() -> None:
        log = opened(tmp_path)
        await log.append(intent(1))
        with monkeypatch.context() as patched:
            patched.setattr(segment_module, "_fdatasync", refuse)
            with pytest.raises(AuditError, match="cannot be written"):
                await log.append(intent(2))
            assert log.fault
        await log.append(intent(3))
        assert log.fault is None
        await log.close()

    asyncio.run(scenario())
    assert verify(tmp_path).ok


def test_every_waiting_entry_of_a_failed_batch_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def scenario() -> None:
        log = opened(tmp_path)
        monkeypatch.setattr(segment_module, "_fdatasync", refuse)
        results = await asyncio.gather(*(log.append(intent(number)) for number in range(50)), return_exceptions=True)
        assert all(isinstance(result, AuditError) for result in results)
        await log.close()

    asyncio.run(scenario())


def test_a_directory_that_went_away_comes_back_without_a_restart(tmp_path: Path) -> None:
    directory = tmp_path / "audit"

    async def scenario() -> None:
        log = opened(directory)
        await log.append(intent(1))
        directory.rename(tmp_path / "elsewhere")
        directory.write_text("in the way", encoding="utf-8")
        with pytest.raises(AuditError):
            await log.append(intent(2))
        directory.unlink()
        await log.append(intent(3))
        await log.close()

    asyncio.run(scenario())
    assert [entry["call_id"] for entry in entries(directory)] == ["call_3"]


def test_what_is_no_json_fails_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
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

    asyncio.run(scenario())
    assert verify(tmp_path).ok


def test_two_processes_write_two_streams(tmp_path: Path) -> None:
    async def scenario() -> None:
        one, two = opened(tmp_path), opened(tmp_path)
        assert await one.append(intent(1)) == ("gateway-1", 1)
        assert await two.append(intent(2)) == ("gateway-2", 1)
        await one.close()
        await two.close()

    asyncio.run(scenario())
    report = verify(tmp_path)
    assert report.ok
    assert report.streams == 2


@pytest.mark.parametrize("tail", [b'{"seq":', b'{"seq":5,"x":1}', b"\x00\x00half", b"half\x00\x00"])
def test_a_torn_tail_is_cut_off_and_recorded(tmp_path: Path, tail: bytes) -> None:
    asyncio.run(fill(tmp_path, 2))
    path = tmp_path / "gateway-1.jsonl"
    with path.open("ab") as file:
        file.write(tail + b"\0" * 100)
    assert verify(tmp_path).ok
    asyncio.run(fill(tmp_path, 1))
    events = [(entry["event"], entry.get("bytes")) for entry in entries(tmp_path)]
    assert events[4] == ("recovered", len(tail.rstrip(b"\0")))
    assert verify(tmp_path).ok


def test_nothing_is_built_on_an_entry_that_was_changed(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path, 2))
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


def test_files_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    directory = tmp_path / "audit"
    asyncio.run(fill(directory, 1))
    assert directory.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in directory.iterdir())


WRITER = """
import asyncio, sys
from pathlib import Path
from toolgen.audit.log import AuditLog
from toolgen.clock import SystemClock

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


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path, writer: subprocess.Popen[str]) -> None:
    assert writer.stdout is not None
    acknowledged = [int(writer.stdout.readline()) for _ in range(300)]
    os.kill(writer.pid, signal.SIGKILL)
    acknowledged += [int(line) for line in writer.stdout.read().split()[:-1]]
    report = verify(tmp_path)
    assert report.ok, report.faults
    assert set(acknowledged) <= {entry["seq"] for entry in entries(tmp_path)}
    assert len(report.unfinished) == report.entries
    assert {row["status"] for row in calls(tmp_path)} == {"unfinished"}
    asyncio.run(fill(tmp_path, 1))
    assert verify(tmp_path).ok
