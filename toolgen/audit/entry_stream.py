"""Entries of the log for one destination, in the order of their stream, after the last entry that the destination has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from toolgen.audit.files import stream_names
from toolgen.audit.index.log_lines import LinePosition, begins, lines_behind
from toolgen.core.descriptors import open_descriptor, replace_file, sync, sync_folder
from toolgen.core.files import read_file

__all__ = ["EntryBatch", "RecordedEntry", "SentEntries", "StreamPlace"]

_MAX_ENTRIES = 500
_MAX_BYTES = 200_000  # a request over HTTP has at most 256 KiB
_MAX_SIZE = 4 * 1024 * 1024


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


class EntryBatch(Struct, frozen=True, kw_only=True):
    """Consecutive entries of one stream, and the place of the last one."""

    stream: str
    entries: tuple[RecordedEntry, ...]
    place: StreamPlace


class _Head(Struct):
    seq: int
    time: str = ""
    event: str = ""
    status: str = ""


_head = msgspec.json.Decoder(_Head).decode
_places = msgspec.json.Decoder(dict[str, StreamPlace]).decode


class SentEntries:
    """Place of the last sent entry of each stream, in a file: later entries are due. If the file is lost or damaged, all are due."""

    def __init__(self, directory: Path, file: Path) -> None:
        self._directory, self._file = directory, file
        self._known = self._read()

    def due(self) -> Iterator[EntryBatch]:
        """Yield the next entries of each stream that has some. Raises `AuditError` and `OSError`."""
        for stream in stream_names(self._directory):
            entries: list[RecordedEntry] = []
            size, last = 0, self._known.get(stream)
            for line, place in self._lines(stream, last):
                try:
                    head = _head(line)
                except (msgspec.DecodeError, RecursionError):
                    continue  # `audit verify` reports invalid lines
                if self._known.get(stream) is not None and head.seq <= self._known[stream].seq:
                    continue
                if entries and (len(entries) == _MAX_ENTRIES or size + len(line) > _MAX_BYTES):
                    break
                size += len(line)
                last = StreamPlace(place.segment, place.offset, head.seq)
                entries.append(
                    RecordedEntry(line=line, seq=head.seq, time=head.time, event=head.event, status=head.status)
                )
            if entries and last is not None:
                yield EntryBatch(stream=stream, entries=tuple(entries), place=last)

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
