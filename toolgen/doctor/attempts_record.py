"""Attempts at the record: a call whose intent is not on the disk yet, and entries that were changed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from toolgen.audit import segment
from toolgen.audit import verify as verification
from toolgen.audit.verify import verify
from toolgen.doctor.scratch import ONE, scratch
from toolgen.doctor.trial import Attempt, Guard, UselessError, without

__all__ = ["attempts_at_the_record"]


def attempts_at_the_record(directory: Path) -> tuple[Attempt, ...]:
    """Whether entries are synced before they count, and whether a changed copy of the project's own log is found."""

    async def tampered() -> str:
        return _tampered_copies(directory)

    stream = vars(verification)["_Stream"]
    return (
        Attempt(
            name="fsync",
            shown="the intent was synced to the disk before the call was made, and the outcome before it was answered",
            guards=(Guard(owner=segment, name="_fdatasync", instead=lambda _: None),),
            make=_unsynced,
        ),
        Attempt(
            name="tampered audit copy",
            shown="the log verifies; a changed bit, an entry taken out and one put in were found in copies of it",
            guards=(Guard(owner=stream, name="run", instead=lambda _: iter(())),),
            make=tampered,
        ),
    )


async def _unsynced() -> str:
    real = vars(segment)["_fdatasync"]
    if real is not getattr(os, "fdatasync", os.fsync):
        return "what the log syncs with is not the operating system's"
    async with scratch() as place:
        events = place.echo.events

        def synced(fd: int) -> None:
            real(fd)
            events.append("synced")

        with without((Guard(owner=segment, name="_fdatasync", instead=synced),)):
            reached = await place.reached("open", ONE)
            events.append("answered")
    if not reached:
        raise UselessError("a call that the policy allows was refused")
    before, after = events[: events.index("sent")], events[events.index("sent") : events.index("answered")]
    if "synced" not in before:
        return "a call was made before its intent was synced to the disk"
    return "" if "synced" in after else "a call was answered before its outcome was synced to the disk"


def _tampered_copies(directory: Path) -> str:
    """What of the changes to a copy goes unnoticed, or what is wrong with the log itself."""
    before = verify(directory)
    if not before.ok:
        return f"the log itself is broken ({len(before.faults)} fault(s)); see `toolgen audit verify`"
    path, lines = _newest(directory)
    changes = {
        "one changed bit": [*lines[:-1], _turned(lines[-1])],
        "an entry taken out": [*lines[:-2], lines[-1]],
        "an entry put in twice": [*lines, lines[-1]],
    }
    for what, changed in changes.items():
        with tempfile.TemporaryDirectory(prefix="toolgen-doctor-") as scratch_folder:
            copy = Path(scratch_folder) / path.name
            copy.write_bytes(b"".join(changed))
            shutil.copymode(path, copy)
            beginning = {fault.kind for fault in _faults_of(lines, path.name)}
            if not [fault for fault in verify(Path(scratch_folder)).faults if fault.kind not in beginning]:
                return f"{what} in a copy of {path.name} went unnoticed"
    return ""


def _faults_of(lines: list[bytes], name: str) -> Iterator[verification.Fault]:
    """What verification says of a copy without its beginning, unchanged: that is no fault of the log's."""
    with tempfile.TemporaryDirectory(prefix="toolgen-doctor-") as folder:
        (Path(folder) / name).write_bytes(b"".join(lines))
        yield from verify(Path(folder)).faults


def _newest(directory: Path) -> tuple[Path, list[bytes]]:
    """The stream that was written last, and its entries. Raises `OSError` where there are too few."""
    path = max(directory.glob("*.jsonl"), key=lambda one: one.stat().st_mtime_ns)
    lines = [line + b"\n" for line in path.read_bytes().rstrip(b"\0").split(b"\n") if line]
    if len(lines) < 2:
        raise OSError(f"{path.name} has no two entries")
    return path, lines


def _turned(line: bytes) -> bytes:
    """An entry with one bit of its call's id, or of its time, turned over."""
    data = bytearray(line)
    place = line.find(b'"time":"') + len(b'"time":"') + 3
    data[place] ^= 1
    return bytes(data)
