"""Reads the entries of a log in their order, across the segments of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from toolgen.audit.entry import Entry
from toolgen.audit.files import SegmentFile, bounded, lines, opened, segments, stream_names

__all__ = ["decoded", "entries", "first_of", "hashes_from", "lines_of"]


class _Link(msgspec.Struct):
    seq: int
    hash: str


_link = msgspec.json.Decoder(_Link)


def entries(directory: Path, stream: str = "", start: int = 1) -> Iterator[Entry]:
    """Every entry of one stream, or of all, one stream after the other, from the segment on that holds number `start`.

    A line that is no JSON object is passed over: `verify` is what judges.
    """
    return decoded(lines_of(directory, stream, start))


def decoded(found: Iterable[bytes]) -> Iterator[Entry]:
    """The entries of lines, those that are JSON objects."""
    for line in found:
        try:
            entry = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            continue
        if isinstance(entry, dict):
            yield entry


def hashes_from(directory: Path, stream: str, start: int) -> Iterator[tuple[int, str]]:
    """Number and hash of every entry of a stream from number `start` on, as its lines say."""
    for line in lines_of(directory, stream, start):
        try:
            link = _link.decode(line)
        except (msgspec.DecodeError, RecursionError):
            continue
        if link.seq >= start:
            yield link.seq, link.hash


def first_of(segment: SegmentFile) -> dict[str, Any]:
    """The first entry of a closed segment; empty when its first line is none. Raises `AuditError`."""
    with opened(segment) as file:
        line = next((line for line, _ in lines(bounded(file))), b"")
    try:
        entry = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


def lines_of(directory: Path, stream: str = "", start: int = 1) -> Iterator[bytes]:
    """The lines of one stream, or of all, as they stand in their files, from the segment on that holds number `start`."""
    for name in stream_names(directory):
        if stream not in {"", name}:
            continue
        with segments(directory, name) as found:
            later = [segment.first for segment, _ in found[1:]]
            for (segment, file), after in zip(found, [*later, 0], strict=True):
                if 0 < after <= start:
                    continue  # the next segment begins no later than what is asked for
                with opened(segment, file) as plain:
                    yield from (line for line, _ in lines(bounded(plain)))
