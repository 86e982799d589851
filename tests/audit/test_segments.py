"""Segments: closed by size and age, compressed, and one chain across all of them, whatever was interrupted."""

from __future__ import annotations

import asyncio
import errno
import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.audit.drawn_logs import calls
from tests.audit.logs import PLAIN, add, in_segments, names, opened, write
from toolgen.audit import segment as segment_module
from toolgen.audit.config import AuditPlan
from toolgen.audit.files import Tail, closed_segments, pack, tail_of
from toolgen.audit.files import opened as opened_segment
from toolgen.audit.reader import entries, entry_at
from toolgen.audit.verify import verify
from toolgen.core.clock import FixedClock
from toolgen.core.errors import AuditError

FIRST = "gateway-1.000000000001.jsonl"
SECOND = "gateway-1.000000000011.jsonl"
ACTIVE = "gateway-1.jsonl"


def test_segments_are_closed_by_age_and_one_chain_crosses_them(tmp_path: Path) -> None:
    in_segments(tmp_path, segments=2, calls=5)
    assert names(tmp_path) == [FIRST, SECOND, "gateway-1.jsonl"]
    assert [entry["seq"] for entry in entries(tmp_path)] == list(range(1, 31))
    assert entry_at(tmp_path, 13)[0]["call_id"] == "call_7"
    assert [row["status"] for row in calls(tmp_path)] == ["ok"] * 15
    report = verify(tmp_path)
    assert (report.ok, report.entries, report.streams, report.unfinished) == (True, 30, 1, ())


def test_segments_are_closed_by_size(tmp_path: Path) -> None:
    write(tmp_path, 50, replace(PLAIN, segment_bytes=5000))
    sizes = [path.stat().st_size for path in tmp_path.glob("gateway-1.0*")]
    assert len(sizes) > 3
    assert all(5000 <= size < 6000 for size in sizes)
    assert verify(tmp_path).entries == 100


def test_a_log_goes_on_in_the_segment_it_was_closed_in(tmp_path: Path) -> None:
    in_segments(tmp_path, segments=1, calls=5)
    write(tmp_path, 1, PLAIN)
    assert [entry["seq"] for entry in entries(tmp_path)] == list(range(1, 23))
    assert verify(tmp_path).ok


def kill_before_the_next_is_begun(directory: Path) -> None:
    (directory / ACTIVE).rename(directory / "gateway-1.000000000021.jsonl")


def kill_after_the_next_is_begun(directory: Path) -> None:
    kill_before_the_next_is_begun(directory)
    (directory / ACTIVE).touch()


def kill_while_zeros_are_written(directory: Path) -> None:
    kill_before_the_next_is_begun(directory)
    (directory / ACTIVE).write_bytes(bytes(70_000))


def kill_while_the_first_entry_is_written(directory: Path) -> None:
    kill_before_the_next_is_begun(directory)
    (directory / ACTIVE).write_bytes(b'{"call_id":"call_99' + bytes(70_000))


@pytest.mark.parametrize(
    "kill",
    [
        kill_before_the_next_is_begun,
        kill_after_the_next_is_begun,
        kill_while_zeros_are_written,
        kill_while_the_first_entry_is_written,
    ],
)
@pytest.mark.parametrize("compress", [False, True])
def test_a_gateway_killed_while_it_closes_a_segment_goes_on(
    tmp_path: Path, kill: Callable[[Path], None], compress: bool
) -> None:
    in_segments(tmp_path, segments=2, calls=5)
    kill(tmp_path)
    assert verify(tmp_path).ok
    write(tmp_path, 1, replace(PLAIN, compress=compress))
    report = verify(tmp_path)
    assert (report.ok, report.torn) == (True, ())
    assert entry_at(tmp_path, 31)[0]["prev"] == entry_at(tmp_path, 30)[0]["hash"]


@pytest.mark.parametrize(
    ("parts", "tail"),
    [
        ([b"\0\0", b"\0"], Tail.ZEROS),
        ([b'{"seq":1\0', b"\0\0"], Tail.TORN),
        ([b'{"seq":1}\n'], Tail.CHANGED),
        ([b'"seq":1'], Tail.CHANGED),
        ([b"\0\0", b'{"seq":1'], Tail.CHANGED),
        ([b'{"seq":1\0', b'{"seq":2'], Tail.CHANGED),
        ([b'{"seq"\0:1'], Tail.CHANGED),
    ],
)
def test_behind_the_last_line_are_zeros_or_one_line_that_was_begun(parts: list[bytes], tail: Tail) -> None:
    assert tail_of([[part] for part in parts]) is tail


def test_packed_segments_hold_the_same_bytes_and_everything_reads_them(tmp_path: Path) -> None:
    in_segments(tmp_path, segments=2, calls=5)
    before = list(entries(tmp_path))
    plain = (tmp_path / FIRST).read_bytes()
    for segment in closed_segments(tmp_path, "gateway-1"):
        pack(segment)
    assert names(tmp_path) == [f"{FIRST}.gz", f"{SECOND}.gz", ACTIVE]
    assert gzip.decompress((tmp_path / f"{FIRST}.gz").read_bytes()) == plain
    assert list(entries(tmp_path)) == before
    assert verify(tmp_path).ok
    write(tmp_path, 1)
    assert verify(tmp_path).entries == 32


def test_a_gateway_packs_what_it_closed(tmp_path: Path) -> None:
    in_segments(tmp_path, segments=2, calls=5, plan=AuditPlan())
    in_segments(tmp_path, segments=1, calls=5, plan=AuditPlan())  # what it had no time for, the next one does
    assert all(name.endswith(".gz") for name in names(tmp_path)[:-2])
    assert verify(tmp_path).ok


@pytest.mark.parametrize("left", [b"", b"half of it"])
def test_packing_that_was_killed_leaves_a_whole_segment_and_is_done_again(tmp_path: Path, left: bytes) -> None:
    in_segments(tmp_path, segments=1, calls=5)
    (tmp_path / f"{FIRST}.gz.part").write_bytes(left)
    (tmp_path / f"{FIRST}.gz").write_bytes(left)  # killed before the plain one was removed, on a disk that lost it
    assert verify(tmp_path).entries == 20
    pack(closed_segments(tmp_path, "gateway-1")[0])
    assert names(tmp_path) == [f"{FIRST}.gz", ACTIVE]
    assert verify(tmp_path).entries == 20


def test_a_segment_that_is_packed_while_it_is_read_is_read(tmp_path: Path) -> None:
    in_segments(tmp_path, segments=1, calls=5)
    listed = closed_segments(tmp_path, "gateway-1")[0]
    pack(listed)
    with opened_segment(listed) as file:
        assert len(file.readlines()) == 10
    (tmp_path / f"{FIRST}.gz").unlink()
    with pytest.raises(AuditError, match="was removed"), opened_segment(listed):
        pass


async def test_a_log_is_read_whole_while_segments_are_closed_and_packed(tmp_path: Path) -> None:
    await asyncio.to_thread(write, tmp_path, 1)
    clock = FixedClock()
    log = opened(tmp_path, AuditPlan(segment_bytes=3000), clock)
    for number in range(40):
        _, reports = await asyncio.gather(
            add(log, number * 5, number * 5 + 4), asyncio.to_thread(lambda: [verify(tmp_path) for _ in range(3)])
        )
        for report in reports:
            assert report.ok, report.faults
    await log.close()
    assert verify(tmp_path).entries == 402


REMOVALS = [(FIRST, "missing", SECOND), (SECOND, "missing", ACTIVE), (ACTIVE, None, None)]


@pytest.mark.parametrize(("name", "kind", "place"), REMOVALS)
def test_a_segment_that_is_gone_is_missed(tmp_path: Path, name: str, kind: str | None, place: str | None) -> None:
    in_segments(tmp_path, segments=2, calls=5)
    (tmp_path / name).unlink()
    faults = verify(tmp_path).faults
    if kind is None:
        assert not faults  # the tail: only a checkpoint can tell
    else:
        assert [(fault.kind, fault.file, fault.line) for fault in faults] == [(kind, place, 1)]


def test_segments_that_changed_places_are_found(tmp_path: Path) -> None:
    in_segments(tmp_path, segments=2, calls=5)
    (tmp_path / FIRST).rename(tmp_path / "x")
    (tmp_path / SECOND).rename(tmp_path / FIRST)
    (tmp_path / "x").rename(tmp_path / SECOND)
    faults = verify(tmp_path).faults
    assert [(fault.kind, fault.seq, fault.file) for fault in faults][:2] == [
        ("removed", 11, FIRST),
        ("reordered", 1, SECOND),
    ]


async def test_a_closed_segment_is_never_written_over(tmp_path: Path) -> None:
    clock = FixedClock()
    log = opened(tmp_path, replace(PLAIN, segment_s=10), clock)
    await add(log, 1, 1)
    (tmp_path / FIRST).write_text("evidence", encoding="utf-8")
    clock.advance(20)
    with pytest.raises(AuditError, match="closed already"):
        await add(log, 2, 2)
    assert log.fault
    (tmp_path / FIRST).rename(tmp_path / "aside")
    await add(log, 3, 3)
    await log.close()
    assert (tmp_path / "aside").read_text(encoding="utf-8") == "evidence"
    assert [entry["call_id"] for entry in entries(tmp_path)] == ["call_1", "call_1", "call_3", "call_3"]
    assert verify(tmp_path).ok


async def test_what_a_failed_sync_left_is_not_built_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed fsync the kernel takes the pages for written: they read back, and never reach the disk."""

    def refuse(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    log = opened(tmp_path)
    await add(log, 1, 1)
    with monkeypatch.context() as patched:
        patched.setattr(segment_module, "_sync_content", refuse)
        with pytest.raises(AuditError, match="Input/output error"):
            await add(log, 2, 2)
    assert b"call_2" in (tmp_path / ACTIVE).read_bytes()
    await add(log, 3, 3)
    await log.close()
    written = [(entry["event"], entry.get("call_id")) for entry in entries(tmp_path)]
    assert written == [
        ("intent", "call_1"),
        ("outcome", "call_1"),
        ("recovered", None),
        ("intent", "call_3"),
        ("outcome", "call_3"),
    ]
    assert b"call_2" in (tmp_path / "gateway-1.torn-2").read_bytes()
    assert verify(tmp_path).ok


async def test_what_a_failed_sync_left_in_a_new_segment_is_not_built_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    clock = FixedClock()
    log = opened(tmp_path, replace(PLAIN, segment_s=10), clock)
    await add(log, 1, 1)
    clock.advance(20)
    with monkeypatch.context() as patched:
        patched.setattr(segment_module, "_sync_content", refuse)
        with pytest.raises(AuditError):
            await add(log, 2, 2)
    await add(log, 3, 3)
    await log.close()
    assert "call_2" not in {entry.get("call_id") for entry in entries(tmp_path)}
    assert [entry["seq"] for entry in entries(tmp_path)] == [1, 2, 3, 4, 5]
    assert verify(tmp_path).ok


async def test_a_stream_stays_its_gateways_while_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else another process could write entries that the first one then takes for its own failed ones, and cuts off."""

    def refuse(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    log = opened(tmp_path)
    await add(log, 1, 1)
    with monkeypatch.context() as patched:
        patched.setattr(segment_module, "_sync_content", refuse)
        with pytest.raises(AuditError):
            await add(log, 2, 2)
    other = opened(tmp_path)
    assert other.stream == "gateway-2"
    await add(other, 3, 3)
    await other.close()
    await add(log, 4, 4)
    assert log.stream == "gateway-1"
    await log.close()
    assert verify(tmp_path).ok


async def test_a_log_that_failed_recovers_without_being_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolgen.audit.log._RETRY_S", 0.001)

    directory = tmp_path / "audit"
    log = opened(directory)
    await add(log, 1, 1)
    directory.rename(tmp_path / "away")
    directory.write_text("in the way", encoding="utf-8")
    with pytest.raises(AuditError):
        await add(log, 2, 2)
    assert log.fault
    directory.unlink()
    (tmp_path / "away").rename(directory)
    async with asyncio.timeout(120):
        while log.fault:  # noqa: ASYNC110 - a timer of the log itself ends it
            await asyncio.sleep(0)
    await log.close()
    assert verify(tmp_path / "audit").ok


def test_a_log_of_an_earlier_version_verifies_and_is_gone_on_with(tmp_path: Path) -> None:
    """Written by the version before there were segments, with every kind of value and field names where values stand."""
    earlier = Path(__file__).parent.parent / "fixtures" / "audit" / "earlier" / ACTIVE
    shutil.copyfile(earlier, tmp_path / ACTIVE)
    report = verify(tmp_path)
    assert (report.ok, report.entries, report.unfinished) == (True, 19, ("call_7",))
    write(tmp_path, 1, replace(PLAIN, segment_s=1.0), FixedClock(1_000_001_000.0))
    assert (tmp_path / FIRST).read_bytes() == earlier.read_bytes()
    report = verify(tmp_path)
    assert (report.ok, report.entries) == (True, 21)
