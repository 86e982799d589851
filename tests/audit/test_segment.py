"""One segment by itself: what it does without room, with writes that the system cuts short, and with a file that others touch."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.audit.logs import write
from toolgen.audit import segment as segment_module
from toolgen.audit.entry import hashed
from toolgen.audit.segment import BusyFileError, NoRoomError, Segment, StreamHead
from toolgen.core.errors import AuditError

MIB = 1 << 20
HEAD = StreamHead(seq=1, hash="a" * 64)
TIME = 1_700_000_000.0


@pytest.fixture
def segment(tmp_path: Path) -> Iterator[Segment]:
    made = Segment(tmp_path, "gateway-1")
    made.open()
    yield made
    made.abandon()


@pytest.fixture
def full_at_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that gives a file no more than a MiB."""
    given = os.pwrite

    def pwrite(fd: int, data: bytes, offset: int) -> int:
        if offset + len(data) > MIB:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return given(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)


def test_room_is_kept_behind_what_is_written(segment: Segment) -> None:
    for reserve, expected in ((0, MIB), (MIB - 11, MIB), (MIB - 10, 2 * MIB), (3 * MIB, 4 * MIB)):
        segment.write(b"x" * 5, HEAD, TIME, reserve=reserve)
        assert segment.path.stat().st_size == expected, reserve


@pytest.mark.usefixtures("full_at_one")
def test_without_room_only_what_begins_nothing_is_written_and_while_it_fits(segment: Segment) -> None:
    with pytest.raises(NoRoomError):
        segment.write(b"begun" * 10, HEAD, TIME, reserve=MIB, begins=True)
    assert segment.size == 0

    segment.write(b"ended" * 10, HEAD, TIME, reserve=MIB)
    segment.write(b"x" * (MIB - 50), HEAD, TIME, reserve=MIB)
    assert segment.size == MIB

    with pytest.raises(NoRoomError):
        segment.write(b"y", HEAD, TIME, reserve=MIB)
    assert (segment.size, segment.path.stat().st_size) == (MIB, MIB)


def test_what_the_system_writes_in_parts_is_written_whole(segment: Segment, monkeypatch: pytest.MonkeyPatch) -> None:
    given = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: given(fd, data[:3], offset))

    segment.write(b"0123456789\n", HEAD, TIME)
    segment.write(b"abcdefghij\n", HEAD, TIME)

    monkeypatch.undo()
    segment.close()
    assert segment.path.read_bytes() == b"0123456789\nabcdefghij\n"


def test_a_file_that_others_move_cut_or_lengthen_is_noticed(segment: Segment, tmp_path: Path) -> None:
    segment.write(b"x\n", HEAD, TIME)
    size = segment.path.stat().st_size
    assert not segment.changed()

    for length in (size - 1, size + 1):
        os.truncate(segment.path, length)
        assert segment.changed()
    os.truncate(segment.path, size)
    assert not segment.changed()

    data = segment.path.read_bytes()
    segment.path.rename(tmp_path / "elsewhere")
    assert segment.changed()
    segment.path.write_bytes(data)  # another file of the same length
    assert segment.changed()


def test_a_file_that_begins_with_an_empty_line_is_not_taken_for_torn(tmp_path: Path) -> None:
    (tmp_path / "gateway-1.jsonl").write_bytes(b"\n" + b'{"seq": 1}\n')
    made = Segment(tmp_path, "gateway-1")

    with pytest.raises(AuditError, match="is not what was written"):
        made.open()

    assert (tmp_path / "gateway-1.jsonl").read_bytes() == b"\n" + b'{"seq": 1}\n'


def _another_order(lines: list[bytes]) -> None:
    lines[-1], lines[-2] = lines[-2], lines[-1]


def _one_missing(lines: list[bytes]) -> None:
    del lines[-2]


def _no_entry(lines: list[bytes]) -> None:
    lines[-2] = b"{}\n"


def _another_value(lines: list[bytes]) -> None:
    lines[-1] = lines[-1].replace(b'"ok"', b'"no"')


def _forged(lines: list[bytes], **changed: object) -> None:
    """One that is whole by its own hash."""
    entry = json.loads(lines[-1]) | changed
    lines[-1] = json.dumps(entry | {"hash": hashed(entry, entry["prev"])}).encode() + b"\n"


def _another_past(lines: list[bytes]) -> None:
    _forged(lines, prev="0" * 64)


def _another_number(lines: list[bytes]) -> None:
    _forged(lines, seq=9)


@pytest.mark.parametrize(
    "change", [_another_order, _one_missing, _no_entry, _another_value, _another_past, _another_number]
)
def test_nothing_is_built_on_a_log_whose_end_was_changed(tmp_path: Path, change: Callable[[list[bytes]], None]) -> None:
    write(tmp_path, 3)
    path = tmp_path / "gateway-1.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    change(lines)
    path.write_bytes(b"".join(lines))
    made = Segment(tmp_path, "gateway-1")

    with pytest.raises(AuditError, match="is not what was written"):
        made.open()

    assert path.read_bytes() == b"".join(lines)


def test_a_log_that_was_closed_is_gone_on_with(tmp_path: Path) -> None:
    write(tmp_path, 3)
    made = Segment(tmp_path, "gateway-1")

    made.open()

    assert (made.head.seq, made.first, made.torn) == (6, 1, 0)
    made.abandon()


@pytest.fixture
def windows_renames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renames of Windows, simulated: a file that this process has open cannot be renamed."""
    rename = os.rename

    def refusing(source: Path, target: Path) -> None:
        found = {os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd") if _is_open(number)}
        if str(source) in found:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(source))
        rename(source, target)

    monkeypatch.setattr(os, "rename", refusing)
    monkeypatch.setattr(segment_module, "RENAMES_OPEN_FILES", False)


def _is_open(number: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{number}")


@pytest.mark.usefixtures("windows_renames")
def test_a_segment_is_closed_where_no_open_file_can_be_renamed(segment: Segment) -> None:
    segment.write(b"one\n", HEAD, TIME)
    segment.rotate(10)
    segment.write(b"two\n", StreamHead(seq=2, hash="b" * 64), TIME)
    segment.close()
    closed = segment.path.with_name("gateway-1.000000000001.jsonl")
    assert (closed.read_bytes(), segment.path.read_bytes()) == (b"one\n", b"two\n")


@pytest.mark.usefixtures("windows_renames")
def test_a_segment_that_is_being_read_goes_on_where_no_open_file_can_be_renamed(segment: Segment) -> None:
    segment.write(b"one\n", HEAD, TIME)
    with segment.path.open("rb"), pytest.raises(BusyFileError):
        segment.rotate(10)
    segment.write(b"two\n", StreamHead(seq=2, hash="b" * 64), TIME)
    assert not segment.changed()
    segment.close()
    assert segment.path.read_bytes() == b"one\ntwo\n"
    assert not segment.path.with_suffix(".next").exists()
