"""Holds the index against the log: what is in one alone, what differs, and what was changed in what is searched by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from toolgen.audit.files import DamagedError, stream_names
from toolgen.audit.index.database import Database
from toolgen.audit.index.indexer import begins, bodies, known_stream
from toolgen.audit.index.row import STREAM_BITS, call_row, content_of
from toolgen.audit.reader import hashes_from, merged

__all__ = ["differences", "here"]

_CHUNK = 5000
_CALLS = 500
_MAX_COUNT = 100


def here(database: Database, directory: Path) -> dict[str, int]:
    """The numbers that the streams of the log in a directory have in the index, by their names."""
    found = {}
    for name in stream_names(directory):
        try:
            beginning = begins(directory, name)
        except DamagedError:
            continue  # `fill` tells of it, and `verify` says what it is
        stream = known_stream(database, name, beginning) if beginning is not None else None
        if stream is not None:
            found[name] = stream.id
    return found


def differences(database: Database, directory: Path, progress: Callable[[int], None]) -> Iterator[str]:
    """A sentence for each, a hundred at most for a stream. Whether the log itself is what was written is for `verify` to say."""
    done = 0
    for name, number in here(database, directory).items():
        told = 0
        indexed = _indexed(database, number)
        for seq, digest in hashes_from(directory, name, 1):
            done += 1
            if done % _CHUNK == 0:
                progress(done)
            own = indexed.pop(seq, None) if told < _MAX_COUNT else digest
            if own != digest:
                told += 1
                yield f"{name}: entry {seq} " + (
                    "is not in the index" if own is None else "is another one in the index"
                )
        if told < _MAX_COUNT:
            yield from (f"{name}: entry {seq} is in the index alone" for seq in sorted(indexed)[:_MAX_COUNT])
    yield from _changed_calls(database)


def _indexed(database: Database, number: int) -> dict[int, str]:
    """The hashes of a stream's entries by their numbers, made again from what stands there; "" where that is not what is stored."""
    found: dict[int, str] = {}
    after, end, mask = (number << STREAM_BITS) - 1, (number + 1) << STREAM_BITS, (1 << STREAM_BITS) - 1
    while rows := database.rows(
        "SELECT id, prev, hash, body FROM audit_entries WHERE id > ? AND id < ? ORDER BY id LIMIT ?",
        (after, end, _CHUNK),
    ):
        for row, prev, digest, body in rows:
            own = sha256((bytes(prev).hex() + body).encode()).hexdigest()
            found[row & mask] = own if own == bytes(digest).hex() else ""
        after = rows[-1][0]
    return found


def _changed_calls(database: Database) -> Iterator[str]:
    """Calls that are found by something other than their entries say, and entries under another call's id."""
    after = ""
    while True:
        rows = database.rows(
            "SELECT DISTINCT call_id FROM audit_entries WHERE call_id > ? ORDER BY call_id LIMIT ?", (after, _CALLS)
        )
        calls = [call_id for (call_id,) in rows]
        if not calls:
            break
        marks = ", ".join("?" * len(calls))
        stored = {
            row[1]: tuple(row) for row in database.rows(f"SELECT * FROM audit_calls WHERE call_id IN ({marks})", calls)
        }
        made = {call.call_id: call.values() for call in map(call_row, merged(content_of(bodies(database, calls))))}
        for call_id in sorted(stored.keys() | made.keys()):
            if stored.get(call_id) != made.get(call_id):
                yield f"the call {call_id} is found by something else than its entries say"
        after = calls[-1]
    yield from _loose(database)


def _loose(database: Database) -> Iterator[str]:
    loose: list[tuple[Any, ...]] = database.rows(
        "SELECT c.call_id FROM audit_calls c WHERE NOT EXISTS (SELECT 1 FROM audit_entries e WHERE e.call_id = c.call_id) LIMIT ?",
        (_MAX_COUNT,),
    )
    yield from (f"the call {call_id} is in the index alone" for (call_id,) in loose)
