"""Entries of the log for one destination, in the order of their stream, after the last entry that the destination has."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from toolgen.audit.files import active_path, regular, stream_names
from toolgen.audit.index.log_lines import LinePosition, begins, lines_behind
from toolgen.core.descriptors import open_descriptor, replace_file, sync, sync_folder
from toolgen.core.errors import AuditError
from toolgen.core.files import read_file

__all__ = ["MARK_LENGTH", "BatchSize", "EntryBatch", "RecordedEntry", "SentEntries", "StreamPlace", "entries_behind"]

_MAX_SIZE = 4 * 1024 * 1024
MARK_LENGTH = 16
"""Digits of a hash that identify an entry where it arrives."""
_BAD = frozenset({"error", "refused", "unfinished"})
_BLOCK = 64 * 1024
_TAIL = 8 * 1024 * 1024  # of a file that is being written: zeros that are written ahead, and the last entries


class BatchSize(Struct, frozen=True, kw_only=True):
    """Maximum size of a batch. A single entry is a batch whatever its size."""

    entries: int = 500
    bytes: int = 200_000


class StreamPlace(Struct, frozen=True):
    """Place of the last entry that arrived: its segment, the offset of its line, and its number."""

    segment: int
    offset: int
    seq: int


class RecordedEntry(Struct, frozen=True, kw_only=True):
    """Entry as it was recorded: its line, and what receivers sort and filter by."""

    line: bytes
    seq: int
    time: str
    event: str
    status: str = ""
    hash: str = ""

    @property
    def mark(self) -> str:
        """Return the first digits of the hash, "" if the line has none.

        They differ between logs whose streams have the same name: the logs of several machines, or of several tenants.
        """
        return self.hash[:MARK_LENGTH]

    def identity(self, stream: str) -> str:
        """Return the text by which a receiver knows this entry of a stream, should it arrive twice."""
        return f"{stream}:{self.seq}:{self.mark}"

    @property
    def bad(self) -> bool:
        """Return True for refusals, errors, and calls without an outcome."""
        return self.status in _BAD


class EntryBatch(Struct, frozen=True, kw_only=True):
    """Consecutive entries of one stream, and the place of the last one. If it is `full`, more entries may be due."""

    stream: str
    entries: tuple[RecordedEntry, ...]
    place: StreamPlace
    full: bool = False


class _Head(Struct):
    seq: int
    time: str = ""
    event: str = ""
    status: str = ""
    hash: str = ""


_head = msgspec.json.Decoder(_Head).decode
_places = msgspec.json.Decoder(dict[str, StreamPlace]).decode


class SentEntries:
    """Place of the last sent entry of each stream, in a file: later entries are due. If the file is lost or damaged, all are due."""

    def __init__(self, directory: Path, file: Path) -> None:
        self._directory, self._file = directory, file
        self._known = self._read()

    def due(self, size: BatchSize) -> Iterator[EntryBatch]:
        """Yield the next entries of each stream that has some. Raises `AuditError` and `OSError`."""
        for stream in stream_names(self._directory):
            entries: list[RecordedEntry] = []
            length, last, full = 0, self._known.get(stream), False
            for line, place in self._lines(stream, last):
                try:
                    head = _head(line)
                except (msgspec.DecodeError, RecursionError):
                    continue  # `audit verify` reports invalid lines
                if self._known.get(stream) is not None and head.seq <= self._known[stream].seq:
                    continue
                if entries and (len(entries) == size.entries or length + len(line) > size.bytes):
                    full = True
                    break
                length += len(line)
                last = StreamPlace(place.segment, place.offset, head.seq)
                entries.append(
                    RecordedEntry(
                        line=line, seq=head.seq, time=head.time, event=head.event, status=head.status, hash=head.hash
                    )
                )
            if entries and last is not None:
                yield EntryBatch(stream=stream, entries=tuple(entries), place=last, full=full)

    def _lines(self, stream: str, last: StreamPlace | None) -> Iterator[tuple[bytes, LinePosition]]:
        if last is not None:
            return lines_behind(self._directory, stream, LinePosition(last.segment, last.offset), last.seq)
        first = begins(self._directory, stream)
        if first is None:
            return iter(())
        return lines_behind(self._directory, stream, LinePosition(first.seq, 0), first.seq)

    def arrived(self, batch: EntryBatch) -> None:
        """Remember that the destination has a batch. Raises `OSError`."""
        known = {**self._known, batch.stream: batch.place}
        part = self._file.with_name(self._file.name + ".part")
        descriptor = open_descriptor(part, "WRONLY", "CREAT", "TRUNC", "NOFOLLOW")
        with open(descriptor, "wb") as file:
            file.write(msgspec.json.encode(known))
            file.flush()
            sync(file.fileno())
        replace_file(part, self._file)
        sync_folder(self._file.parent)
        self._known = known

    def _read(self) -> Mapping[str, StreamPlace]:
        try:
            return _places(read_file(self._file, _MAX_SIZE))
        except (OSError, msgspec.DecodeError):
            return {}


def entries_behind(directory: Path, batches: Iterable[EntryBatch]) -> int:
    """Return the number of entries that have not been sent, if these are the next batches of the streams that have some."""
    return sum(
        max(_last_seq(active_path(directory, batch.stream)) - batch.entries[0].seq + 1, len(batch.entries))
        for batch in batches
    )


def _last_seq(path: Path) -> int:
    """Return the number of the last entry of a file that is being written; 0 if it has none."""
    try:
        file = regular(path)
    except (OSError, AuditError):
        return 0
    with file:
        end, tail = file.seek(0, os.SEEK_END), b""
        start = end
        while start > max(0, end - _TAIL):
            start = max(0, start - _BLOCK)
            file.seek(start)
            tail = (file.read(_BLOCK) + tail).rstrip(b"\0")
            whole = tail[: tail.rfind(b"\n") + 1].splitlines()
            if len(whole) > 1 or (whole and not start):
                try:
                    return _head(whole[-1]).seq
                except (msgspec.DecodeError, RecursionError):
                    return 0
    return 0
