"""Comparison of the index with the log: entries that only one of them has, different entries, changed search columns and sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from toolgen.audit.files import DamagedError, stream_names
from toolgen.audit.index.database import IndexDatabase
from toolgen.audit.index.indexer import bodies, fill, known_stream
from toolgen.audit.index.log_lines import begins
from toolgen.audit.index.row import STREAM_BITS, call_rows, content_of
from toolgen.audit.index.sums import wrong_sums
from toolgen.audit.reader import hashes_from

__all__ = ["differences", "here"]

_CHUNK = 5000
_CALLS = 500
_MAX_COUNT = 100
_MAX_PASSED = (
    10_000  # maximum entries that only the index has and that are remembered, because the log may have them later
)


def here(database: IndexDatabase, directory: Path) -> dict[str, int]:
    """Return the numbers in the index of the streams of the log in a directory, by their names."""
    found = {}
    for name in stream_names(directory):
        try:
            beginning = begins(directory, name)
        except DamagedError:
            continue  # `fill` reports it, and `verify` gives the details
        stream = known_stream(database, name, beginning) if beginning is not None else None
        if stream is not None:
            found[name] = stream.id
    return found


def differences(database: IndexDatabase, directory: Path, progress: Callable[[int], None]) -> Iterator[str]:
    """Yield a sentence for each difference, at most a hundred of each kind per stream. `verify` checks the log itself.

    Gateways may write the log and fill the index meanwhile: what is missing is looked for once more after the index was filled.
    """
    done = 0
    for name, number in here(database, directory).items():
        told, missing = 0, list[int]()
        indexed = _Ordered(_indexed(database, number))
        for seq, digest in hashes_from(directory, name, 1):
            done += 1
            if done % _CHUNK == 0:
                progress(done)
            own = indexed.take(seq) if told < _MAX_COUNT else digest
            if own is None:
                if len(missing) < _MAX_COUNT:
                    missing.append(seq)
            elif own != digest:
                told += 1
                yield f"{name}: entry {seq} differs in the index"
        yield from (
            f"{name}: entry {seq} is not in the index" for seq in _missing(database, directory, number, missing)
        )
        if told < _MAX_COUNT and (unmatched := indexed.unmatched()):
            written = {seq for seq, _ in hashes_from(directory, name, unmatched[0])}
            yield from (f"{name}: entry {seq} is only in the index" for seq in unmatched if seq not in written)
    yield from _changed_calls(database)
    for half_hour in islice(wrong_sums(database), _MAX_COUNT):
        yield f"the sums of the half hour {half_hour} differ from those of its calls"


def _missing(database: IndexDatabase, directory: Path, number: int, entries: list[int]) -> Iterator[int]:
    """Yield those of some entries of a stream that the index does not take."""
    if entries:
        fill(database, directory)
    for seq in entries:
        if not database.rows("SELECT 1 FROM audit_entries WHERE id = ?", (number << STREAM_BITS | seq,)):
            yield seq


class _Ordered:
    """Hashes in the order of their numbers, read on demand. A limited number of skipped ones is remembered."""

    def __init__(self, found: Iterator[tuple[int, str]]) -> None:
        self._found = found
        self._next = next(found, None)
        self._passed: dict[int, str] = {}

    def take(self, seq: int) -> str | None:
        """Return the hash with this number, once; None if there is none."""
        while self._next is not None and self._next[0] < seq:
            self._pass()
        if self._next is None or self._next[0] != seq:
            return self._passed.pop(seq, None)
        digest, self._next = self._next[1], next(self._found, None)
        return digest

    def unmatched(self) -> list[int]:
        """Return the first entry numbers of the index that the log does not have."""
        while self._next is not None and len(self._passed) < _MAX_COUNT:
            self._pass()
        return sorted(self._passed)[:_MAX_COUNT]

    def _pass(self) -> None:
        if self._next is not None and len(self._passed) < _MAX_PASSED:
            self._passed[self._next[0]] = self._next[1]
        self._next = next(self._found, None)


def _indexed(database: IndexDatabase, number: int) -> Iterator[tuple[int, str]]:
    """Yield the hashes of a stream's entries with their numbers, computed again from the stored content; "" if the stored hash differs."""
    after, end, mask = (number << STREAM_BITS) - 1, (number + 1) << STREAM_BITS, (1 << STREAM_BITS) - 1
    while rows := database.rows(
        "SELECT id, prev, hash, body FROM audit_entries WHERE id > ? AND id < ? ORDER BY id LIMIT ?",
        (after, end, _CHUNK),
    ):
        for row, prev, digest, body in rows:
            own = sha256((bytes(prev).hex() + body).encode()).hexdigest()
            yield row & mask, own if own == bytes(digest).hex() else ""
        after = rows[-1][0]


def _changed_calls(database: IndexDatabase) -> Iterator[str]:
    """Yield calls whose search columns differ from their entries, and entries under another call's id."""
    after = ""
    while True:
        rows = database.rows(
            "SELECT DISTINCT call_id FROM audit_entries WHERE call_id > ? ORDER BY call_id LIMIT ?", (after, _CALLS)
        )
        calls = [call_id for (call_id,) in rows]
        if not calls:
            break
        for call_id in _differing(database, calls):
            with database.transaction():  # the call may have continued between the two reads
                differs = _differing(database, [call_id])
            if differs:
                yield f"the call {call_id} has search columns that differ from its entries"
        after = calls[-1]
    yield from _loose(database)


def _differing(database: IndexDatabase, calls: list[str]) -> list[str]:
    marks = ", ".join("?" * len(calls))
    stored = {
        row[1]: tuple(row) for row in database.rows(f"SELECT * FROM audit_calls WHERE call_id IN ({marks})", calls)
    }
    made = {call.call_id: call.values() for call in call_rows(content_of(bodies(database, calls)))}
    return [call_id for call_id in sorted(stored.keys() | made.keys()) if stored.get(call_id) != made.get(call_id)]


def _loose(database: IndexDatabase) -> Iterator[str]:
    loose: list[tuple[Any, ...]] = database.rows(
        "SELECT c.call_id FROM audit_calls c WHERE NOT EXISTS (SELECT 1 FROM audit_entries e WHERE e.call_id = c.call_id) LIMIT ?",
        (_MAX_COUNT,),
    )
    yield from (f"the call {call_id} is only in the index" for (call_id,) in loose)
