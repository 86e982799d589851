"""Trials of the audit log: a call before its intent is on the disk, and changed entries."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from toolgen.audit import segment
from toolgen.audit import verify as verification
from toolgen.audit.verify import verify
from toolgen.core.descriptors import sync_content
from toolgen.quality.doctor.scratch_gateway import ONE, scratch
from toolgen.quality.doctor.trial import Guard, RefusalCheck, UselessError, without

__all__ = ["attempts_at_the_record"]


def attempts_at_the_record(directory: Path) -> tuple[RefusalCheck, ...]:
    """Return checks that entries are synced to disk before they count, and that a changed copy of the project's log is detected."""

    async def tampered() -> str:
        return _tampered_copies(directory)

    stream = vars(verification)["_StreamWalk"]
    return (
        RefusalCheck(
            name="fsync",
            shown="the intent was synced to the disk before the call was made, and the outcome before it was answered",
            guards=(Guard(segment, "_sync_content", lambda _: None),),
            make=_unsynced,
        ),
        RefusalCheck(
            name="tampered audit copy",
            shown="the log verifies; a changed bit, an entry taken out and one put in were found in copies of it",
            guards=(Guard(stream, "run", lambda _: iter(())),),
            make=tampered,
        ),
    )


async def _unsynced() -> str:
    real = vars(segment)["_sync_content"]
    if real is not sync_content:
        return "what the log syncs with is not the operating system's"
    async with scratch() as place:
        events = place.echo.events

        def synced(fd: int) -> None:
            real(fd)
            events.append("synced")

        with without((Guard(segment, "_sync_content", synced),)):
            reached = await place.reached("open", ONE)
            events.append("answered")
    if not reached:
        raise UselessError("a call that the policy allows was refused")
    before, after = events[: events.index("sent")], events[events.index("sent") : events.index("answered")]
    if "synced" not in before:
        return "a call was made before its intent was synced to the disk"
    return "" if "synced" in after else "a call was answered before its outcome was synced to the disk"


def _tampered_copies(directory: Path) -> str:
    """Return the change to a copy that verification misses, or what is wrong with the log itself; "" if all changes are detected."""
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


def _faults_of(lines: list[bytes], name: str) -> Iterator[verification.RecordFault]:
    """Yield the faults of an unchanged copy without its beginning; they are not faults of the log."""
    with tempfile.TemporaryDirectory(prefix="toolgen-doctor-") as folder:
        (Path(folder) / name).write_bytes(b"".join(lines))
        yield from verify(Path(folder)).faults


def _newest(directory: Path) -> tuple[Path, list[bytes]]:
    """Return the most recently written stream, and its entries. Raises `OSError` if there are too few."""
    path = max(directory.glob("*.jsonl"), key=lambda one: one.stat().st_mtime_ns)
    lines = [line + b"\n" for line in path.read_bytes().rstrip(b"\0").split(b"\n") if line]
    if len(lines) < 2:
        raise OSError(f"{path.name} has no two entries")
    return path, lines


def _turned(line: bytes) -> bytes:
    """Return an entry with one bit of its call's id, or of its time, inverted."""
    data = bytearray(line)
    place = line.find(b'"time":"') + len(b'"time":"') + 3
    data[place] ^= 1
    return bytes(data)
