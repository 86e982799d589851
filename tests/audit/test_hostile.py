"""A log that somebody else can write to: what they put there is told of, in bounded time and memory, and hides nothing else."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.audit.logs import PLAIN, in_segments, opened, with_key, write
from tests.exhaustive import spread
from toolgen.audit import log as log_module
from toolgen.audit.checkpoint import Checkpoint, Removal, append_line, checkpoint_path, removal_path, statements
from toolgen.audit.entry import seal
from toolgen.audit.files import closed_segments, pack
from toolgen.audit.index.database import SqliteDatabase
from toolgen.audit.index.index import RecordIndex
from toolgen.audit.keys import signing_key
from toolgen.audit.reader import entries
from toolgen.audit.reports import csv_line
from toolgen.audit.verify import verify
from toolgen.core.errors import AuditError

ROOT = Path(__file__).parent.parent.parent
ACTIVE, PACKED = "gateway-2.jsonl", "gateway-2.000000000001.jsonl.gz"
MIB = 1024 * 1024

# Verified and indexed in a process of its own with 512 MiB: what needs more dies there, and what waits for ever is stopped.
LOOK = """
import resource, sys
from pathlib import Path
from toolgen.audit.index.index import RecordIndex
from toolgen.audit.index.database import SqliteDatabase
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify

folder, most = Path(sys.argv[1]), 512 * 1024 * 1024
resource.setrlimit(resource.RLIMIT_DATA, (most, most))
report = verify(folder)
print(*sorted({f"{fault.file} {fault.kind}" for fault in report.faults}), sep="\\n")
with RecordIndex(SqliteDatabase(None), folder) as index:
    filled = index.fill()
print("indexed", filled.entries, len(filled.faults))
"""


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _bomb(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(1024):
            file.write(b"a" * MIB)


def _line(**fields: object) -> Callable[[Path], None]:
    """A whole entry that no gateway writes."""
    place: dict[str, object] = {"seq": 1, "time": "2026-01-01T00:00:00Z", "prev": ""}
    mine = {name: fields.pop(name, value) for name, value in place.items()}

    def put(path: Path) -> None:
        _, line = seal(fields, stream="gateway-2", **mine)  # type: ignore[arg-type]
        path.write_bytes(line)

    return put


@pytest.mark.parametrize(
    ("name", "plant", "told", "indexed"),
    spread(
        [
            (ACTIVE, os.mkfifo, "unreadable", (6, 1)),
            (PACKED, os.mkfifo, "unreadable", (6, 1)),
            (ACTIVE, Path.mkdir, "unreadable", (6, 1)),
            (ACTIVE, lambda path: path.symlink_to("/etc/passwd"), "unreadable", (6, 1)),
            (ACTIVE, _sparse, "unreadable", (6, 1)),
            (PACKED, _bomb, "unreadable", (6, 1)),
            (PACKED, lambda path: path.write_bytes(b"\x1f\x8b no archive"), "unreadable", (6, 1)),
            (PACKED, lambda path: path.write_bytes(gzip.compress(b"x" * 9000)[:-9]), "unreadable", (6, 1)),
            (ACTIVE, lambda path: path.write_bytes(b"\n" * 300_000), "unreadable", (6, 0)),
            (ACTIVE, _line(event="intent", call_id="c", seq=-1), "unreadable", (6, 1)),
            (ACTIVE, _line(event="intent", call_id="c", seq=2**41), "removed", (6, 1)),
            (ACTIVE, _line(event="intent", call_id="c", time="0001-01-01"), "", (7, 0)),
            ("gateway-1.checkpoints", os.mkfifo, "unreadable", (6, 0)),
            ("gateway-1.checkpoints", _sparse, "unreadable", (6, 0)),
        ],
        2,
    ),
)
def test_what_is_planted_is_told_of_and_neither_waited_for_nor_held(
    tmp_path: Path, name: str, plant: Callable[[Path], None], told: str, indexed: tuple[int, int]
) -> None:
    with_key(tmp_path)
    write(tmp_path, 3, PLAIN)
    (tmp_path / name).unlink(missing_ok=True)
    plant(tmp_path / name)
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    *faults, last = done.stdout.strip("\n").split("\n")
    assert faults == ([f"{name} {told}"] if told else [])
    assert last == "indexed {} {}".format(*indexed)


def test_a_packed_segment_that_was_damaged_is_a_fault_wherever_it_was(tmp_path: Path) -> None:
    in_segments(tmp_path, segments=1, calls=20)
    pack(closed_segments(tmp_path, "gateway-1")[0])
    (path,) = tmp_path.glob("*.gz")
    whole, before = path.read_bytes(), list(entries(tmp_path))
    broken = 0
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x40]) + whole[place + 1 :])
        if verify(tmp_path).ok:  # where the archive says when it was made, say, and nothing of what is in it
            assert list(entries(tmp_path)) == before, place
        else:
            broken += 1
    assert broken > len(whole) * 0.9
    path.write_bytes(whole[: len(whole) // 2])
    assert {fault.kind for fault in verify(tmp_path).faults} >= {"unreadable"}


def test_faults_without_end_are_told_of_up_to_an_end(tmp_path: Path) -> None:
    write(tmp_path, 1, PLAIN)
    (tmp_path / ACTIVE).write_bytes(b"no entry\n" * 50_000)
    report = verify(tmp_path)
    assert len(report.faults) == 10_001
    assert "not verified" in report.faults[-1].message


def test_a_log_written_anew_does_not_pass_for_one_whose_removal_was_signed(tmp_path: Path) -> None:
    """Its checkpoints are gone, and what policy was to remove is there again, otherwise."""
    with_key(tmp_path)
    write(tmp_path, 10, PLAIN)
    key = signing_key(tmp_path / "checkpoint.key")
    (last,) = (it for _, _, it in statements(checkpoint_path(tmp_path, "gateway-1")) if isinstance(it, Checkpoint))
    assert key is not None
    append_line(removal_path(tmp_path, "gateway-1"), Removal.make(key, last=last, time=last.time, policy="old").line)
    assert verify(tmp_path).ok  # as a crash between saying and doing leaves it
    checkpoint_path(tmp_path, "gateway-1").unlink()
    forged, prev = b"", ""
    for seq in range(1, 23):
        prev, line = seal(
            {"event": "intent", "call_id": f"c{seq}"}, seq=seq, stream="gateway-1", time=last.time, prev=prev
        )
        forged += line
    (tmp_path / "gateway-1.jsonl").write_bytes(forged)
    assert [(fault.kind, fault.seq) for fault in verify(tmp_path).faults] == [("forked", 20)]
    (tmp_path / "gateway-1.jsonl").unlink()
    write(tmp_path / "third", 1, PLAIN)
    (tmp_path / "third" / "gateway-1.jsonl").rename(tmp_path / "gateway-1.jsonl")
    assert [fault.kind for fault in verify(tmp_path).faults] == ["truncated"]


def test_a_stream_that_was_damaged_hides_no_other_from_the_index(tmp_path: Path) -> None:
    write(tmp_path, 3, PLAIN)
    os.mkfifo(tmp_path / ACTIVE)
    with RecordIndex(SqliteDatabase(None), tmp_path) as index:
        (fault,) = index.fill().faults
        assert "gateway-2" in fault
        assert len(index.calls().rows) == 3
        assert index.check() == []


async def test_an_entry_larger_than_any_that_is_read_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "MAX_LINE_LENGTH", 2000)

    log = opened(tmp_path, PLAIN)
    with pytest.raises(AuditError, match="longer than any entry may be"):
        await log.append({"event": "intent", "call_id": "large", "arguments": {"text": "x" * 2000}})
    await log.append({"event": "intent", "call_id": "small"})
    await log.close()
    report = verify(tmp_path)
    assert (report.ok, report.entries) == (True, 1)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("\n\u00a0=1+1", None),
        ('a;=cmd|"/c calc"!A0', None),
        ("a;\"'@SUM(A1)", None),
        ("plain; text", "plain; text"),
        ('{"limit":-5}', '"{""limit"":-5}"'),
    ],
)
def test_no_cell_of_a_csv_is_a_formula_whatever_parts_its_cells(text: str, cell: str | None) -> None:
    line = csv_line([text], str).removesuffix("\r\n")
    for separator in (",", ";", "\t"):
        for part in line.replace('"', "").split(separator):
            assert not part.strip().startswith(("=", "+", "@")), line
    if cell is not None:
        assert line == cell
