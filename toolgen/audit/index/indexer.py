"""Filling of the index from a log: new entries since the last time, each checked against its hash and its predecessor."""

from __future__ import annotations

import platform
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct

from toolgen.audit.files import DamagedError, stream_names
from toolgen.audit.index.database import IndexDatabase
from toolgen.audit.index.log_lines import Beginning, LinePosition, begins, lines_behind
from toolgen.audit.index.row import STREAM_BITS, CallRow, EntryRow, call_rows, content_of, row_of
from toolgen.audit.index.sums import SumChanges, calls_of_ids, calls_where, repair_sums

__all__ = ["Filled", "IndexedStream", "begin_stream", "bodies", "fill", "forget_log", "known_stream"]


_BATCH = 4000
_SOME = 500  # maximum parameters of a statement
_MANY = 20_000  # number of new entries after which search indexes are maintained
_PUT = "INSERT INTO audit_entries (id, stream, time, event, call_id, prev, hash, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_PUT_CALL = f"INSERT INTO audit_calls VALUES ({', '.join('?' * 16)})"
_BROKEN = (
    "the content after entry {seq} is not what was written, and is not shown; `toolgen audit verify` gives the details"
)
_REPLACED = (
    "entry {seq} is missing or differs from the index; `toolgen audit verify` finds the fault in the log, and "
    "`toolgen audit index --rebuild` rebuilds it from the log"
)
_STREAMS = "SELECT id, segment, place, seq, hash FROM audit_streams"


class Filled(Struct):
    """Result of a run: the number of new entries, and a sentence for each stream that could not be read to its end."""

    entries: int = 0
    faults: list[str] = []


class IndexedStream(Struct, frozen=True):
    """Indexed part of a stream: `place` is where the line of its last entry, `seq`, begins; `hash` is that entry's."""

    id: int
    name: str
    place: LinePosition
    seq: int
    hash: bytes


class _DisagreementError(Exception):
    """Raised if a stream differs from its hashes, or from what was indexed."""


def fill(database: IndexDatabase, directory: Path, progress: Callable[[int], None] = lambda entries: None) -> Filled:
    """Index new entries of a log. `progress` gets the number of entries so far. Raises `AuditError`.

    Reading a stream ends with a fault at an entry that is incomplete or not chained; other streams continue.
    """
    filled = Filled()
    new = not database.rows("SELECT 1 FROM audit_entries LIMIT 1")
    streams: list[IndexedStream] = []
    for name in stream_names(directory):
        try:
            beginning = begins(directory, name)
        except DamagedError as error:
            filled.faults.append(f"{name}: {error}")
            continue
        if beginning is not None:
            stream = known_stream(database, name, beginning) or begin_stream(database, directory, name, beginning)
            _forget(database, stream.id, beginning.seq)
            streams.append(stream)
    if not database.shared and not filled.faults:
        seen = {stream.id for stream in streams}
        for (gone,) in database.rows("SELECT id FROM audit_streams"):
            if gone not in seen:
                _forget(database, gone, 1 << STREAM_BITS)
                database.run("DELETE FROM audit_streams WHERE id = ?", (gone,))
    for stream in streams:
        try:
            _follow(database, directory, stream, lambda count: _count(filled, count, progress))
        except (_DisagreementError, DamagedError) as error:
            filled.faults.append(f"{stream.name}: {error}")
    if new or filled.entries >= _MANY:
        database.finish()
    return filled


def _count(filled: Filled, count: int, progress: Callable[[int], None]) -> None:
    filled.entries += count
    progress(filled.entries)


def known_stream(database: IndexDatabase, name: str, beginning: Beginning) -> IndexedStream | None:
    """Return the stream of the index for a stream of the log: the one with its first entry, or the one that ended right before it."""
    for stream in _streams(database, "name = ?", name):
        first = database.rows(
            "SELECT hash FROM audit_entries WHERE id = ?", (stream.id << STREAM_BITS | beginning.seq,)
        )
        if any(bytes(row[0]) == beginning.hash for row in first):
            return stream
        # The first entry of every log has an empty `prev`: its stream is only found by the hash of that entry, its origin.
        if stream.hash and stream.seq == beginning.seq - 1 and stream.hash == beginning.prev:
            return stream
    for stream in _streams(database, "origin = ?", beginning.hash):
        return stream
    return None


def begin_stream(database: IndexDatabase, directory: Path, name: str, beginning: Beginning) -> IndexedStream:
    """Add a stream without entries, unless another process has added the one with this first entry."""
    with database.transaction():
        found = _streams(database, "origin = ?", beginning.hash)
        if not found:
            (last,) = database.rows("SELECT coalesce(max(id), 0) FROM audit_streams")[0]
            database.run(
                "INSERT INTO audit_streams VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    last + 1,
                    name,
                    _label(database, directory),
                    beginning.hash,
                    0,  # no segment yet
                    0,
                    beginning.seq - 1,
                    beginning.prev,
                ),
            )
            found = _streams(database, "origin = ?", beginning.hash)
    return found[0]


def _streams(database: IndexDatabase, condition: str, value: object) -> list[IndexedStream]:
    named = _STREAMS.replace("id,", "id, name,", 1)
    found = database.rows(f"{named} WHERE {condition} ORDER BY id DESC", (value,))
    return [IndexedStream(row[0], row[1], LinePosition(row[2], row[3]), row[4], bytes(row[5])) for row in found]


def forget_log(database: IndexDatabase, directory: Path, numbers: Iterable[int]) -> None:
    """Remove a log from a shared index: the streams with these numbers, and everything else that was indexed from that folder."""
    same = database.rows("SELECT id FROM audit_streams WHERE log = ?", (_label(database, directory),))
    for number in sorted({*numbers, *(number for (number,) in same)}):
        _forget(database, number, 1 << STREAM_BITS)
        database.run("DELETE FROM audit_streams WHERE id = ?", (number,))
    database.run(
        "DELETE FROM audit_calls WHERE NOT EXISTS (SELECT 1 FROM audit_entries e WHERE e.call_id = audit_calls.call_id)"
    )
    repair_sums(database)


def _label(database: IndexDatabase, directory: Path) -> str:
    log = str(directory.resolve())
    return f"{platform.node()}:{log}" if database.shared else log


def _follow(database: IndexDatabase, directory: Path, stream: IndexedStream, count: Callable[[int], None]) -> None:
    while True:
        reading = _Reading(directory, stream)
        lines = iter(reading)
        before = (stream.seq, stream.hash)
        while batch := list(islice(lines, _BATCH)):
            rows = [row for row, _ in batch]
            place, last = batch[-1][1], rows[-1]
            with database.transaction():
                (now,) = _streams(database, "id = ?", stream.id)
                if (now.seq, now.hash) != before:
                    break  # another process indexed meanwhile: continue after it
                _put(database, stream.id, rows)
                database.run(
                    "UPDATE audit_streams SET segment = ?, place = ?, seq = ?, hash = ? WHERE id = ?",
                    (place.segment, place.offset, last.seq, last.hash, stream.id),
                )
            before = (last.seq, last.hash)
            count(len(rows))
        else:
            if reading.fault:
                raise _DisagreementError(reading.fault)
            return
        lines.close()
        (stream,) = _streams(database, "id = ?", stream.id)


class _Reading:
    """Entries after a place in a stream. Afterwards `fault` has the reason for the end, "" for the end of the stream."""

    def __init__(self, directory: Path, stream: IndexedStream) -> None:
        self._directory = directory
        self._stream = stream
        self.fault = ""

    def __iter__(self) -> Generator[tuple[EntryRow, LinePosition]]:
        stream, seq, last, some = self._stream, self._stream.seq, self._stream.hash, False
        for line, place in lines_behind(self._directory, stream.name, stream.place, stream.seq):
            some = True
            row = row_of(line, stream.id)
            if place == stream.place and stream.place.segment:
                if row is None or row.hash != stream.hash:
                    self.fault = _REPLACED.format(seq=seq)
                    return
                continue
            # The segment is read from its beginning because the one that was read last is gone.
            began = place.offset == 0 and seq == stream.seq
            if row is not None and row.seq <= stream.seq and place.segment != stream.place.segment:
                continue
            chained = row is not None and (row.seq, row.prev) == (seq + 1, last)
            # Entries were removed by policy before they were read: the rest starts a new chain.
            if row is None or not (chained or (began and row.seq > seq + 1)):
                self.fault = _BROKEN.format(seq=seq)
                return
            seq, last = row.seq, row.hash
            yield row, place
        if not some and stream.place.segment:
            self.fault = _REPLACED.format(seq=seq)


def _put(database: IndexDatabase, stream: int, rows: Sequence[EntryRow]) -> None:
    calls = sorted({row.call_id for row in rows if row.call_id})
    known = set(_known_calls(database, calls))
    database.many(
        _PUT,
        [
            (
                stream << STREAM_BITS | row.seq,
                stream,
                row.time,
                row.event,
                row.call_id or None,
                row.prev,
                row.hash,
                row.body,
            )
            for row in rows
        ],
    )
    fresh = call_rows(dict(row.told) for row in rows if row.call_id and row.call_id not in known)
    _put_calls(database, SumChanges(), sorted(known), fresh)


def _known_calls(database: IndexDatabase, calls: Sequence[str]) -> Iterator[str]:
    for some in _portions(calls):
        marks = ", ".join("?" * len(some))
        yield from (
            found
            for (found,) in database.rows(
                f"SELECT DISTINCT call_id FROM audit_entries WHERE call_id IN ({marks})", some
            )
        )


def bodies(database: IndexDatabase, calls: Sequence[str]) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the entries of these calls without their chain, each with the number of its stream, in the order of their streams."""
    for some in _portions(calls):
        marks = ", ".join("?" * len(some))
        found = database.rows(f"SELECT stream, body FROM audit_entries WHERE call_id IN ({marks}) ORDER BY id", some)
        yield from ((stream, msgspec.json.decode(body)) for stream, body in found)


def _portions(items: Sequence[str]) -> Iterator[Sequence[str]]:
    return (items[start : start + _SOME] for start in range(0, len(items), _SOME))


def _forget(database: IndexDatabase, stream: int, first: int) -> None:
    """Remove entries before entry `first`, which the log does not have any more: entries that policy removed are not kept in the index
    either."""
    ends = (stream << STREAM_BITS, stream << STREAM_BITS | first - 1)
    if not database.rows("SELECT 1 FROM audit_entries WHERE id BETWEEN ? AND ? LIMIT 1", ends):
        return
    with database.transaction():
        left = [  # calls that other streams, or later entries, also mention
            call_id
            for (call_id,) in database.rows(
                "SELECT DISTINCT e.call_id FROM audit_entries e WHERE e.id BETWEEN ? AND ? AND EXISTS "
                "(SELECT 1 FROM audit_entries o WHERE o.call_id = e.call_id AND o.id NOT BETWEEN ? AND ?)",
                (*ends, *ends),
            )
        ]
        sums = SumChanges()
        sums.remove(calls_of_ids(database, *ends))
        database.run("DELETE FROM audit_calls WHERE id BETWEEN ? AND ?", ends)
        database.run("DELETE FROM audit_entries WHERE id BETWEEN ? AND ?", ends)
        _put_calls(database, sums, sorted(left), [])


def _put_calls(database: IndexDatabase, sums: SumChanges, again: Sequence[str], fresh: Sequence[CallRow]) -> None:
    """Store fresh calls, make the rows of the calls in `again` new from their entries, and store the changes of the sums."""
    for some in _portions(again):
        condition = f"call_id IN ({', '.join('?' * len(some))})"
        sums.remove(calls_where(database, condition, some))
        database.run(f"DELETE FROM audit_calls WHERE {condition}", some)
    rows = [*fresh, *call_rows(content_of(bodies(database, again)))]
    database.many(_PUT_CALL, [call.values() for call in rows])
    sums.add(rows)
    sums.store(database)
