"""Lines of a stream after a place in it, even if its segments were renamed or packed meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from toolgen.audit.files import SegmentFile, bounded, lines, opened, segments

__all__ = ["Beginning", "LinePosition", "begins", "lines_behind"]


class _First(msgspec.Struct):
    seq: int
    hash: str
    prev: str


_first = msgspec.json.Decoder(_First).decode


class Beginning(Struct, frozen=True):
    """First entry that a stream still has."""

    seq: int
    hash: bytes
    prev: bytes


class LinePosition(Struct, frozen=True):
    """Position of the start of a line: so many bytes in the segment whose first entry has number `segment`."""

    segment: int
    offset: int


def begins(directory: Path, stream: str) -> Beginning | None:
    """Return the position of the start of a stream; None if it has no complete entry. Raises `AuditError`."""
    with segments(directory, stream) as found:
        for segment, file in found:
            with opened(segment, file) as plain:
                first = _beginning(plain)
            if first is not None:
                return first
    return None


def lines_behind(directory: Path, stream: str, place: LinePosition, seq: int) -> Iterator[tuple[bytes, LinePosition]]:
    """Yield the line at `place`, which is that of entry `seq`, and every complete line after it, each with its place.

    If policy removed that segment, reading starts with the segment that contains the next entry.
    """
    with segments(directory, stream) as found:
        named = [_named(segment, file) for segment, file in found]
        for index, (segment, file) in enumerate(found):
            first = named[index]
            later = [other for other in named[index + 1 :] if other]
            if not first or (first != place.segment and later and later[0] <= seq + 1):
                continue
            with opened(segment, file) as plain:
                offset = place.offset if first == place.segment else 0
                plain.seek(offset)
                for line, whole in lines(bounded(plain)):
                    if not whole:
                        return
                    yield line, LinePosition(first, offset)
                    offset += len(line) + 1


def _named(segment: SegmentFile, file: BinaryIO | None) -> int:
    """Return the number of a segment's first entry; 0 if it has none."""
    if segment.first or file is None:
        return segment.first
    first = _beginning(file)
    return 0 if first is None else first.seq


def _beginning(plain: BinaryIO) -> Beginning | None:
    plain.seek(0)
    line, whole = next(lines(bounded(plain)), (b"", False))
    try:
        found = _first(line)
        return Beginning(found.seq, bytes.fromhex(found.hash), bytes.fromhex(found.prev)) if whole else None
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
