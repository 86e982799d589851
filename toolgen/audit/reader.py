"""Reads the entries of a log in their order, across the segments of a stream.

Reads the log for review: its entries, and its calls as one row each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from toolgen.audit.entry import Entry
from toolgen.audit.files import SegmentFile, bounded, lines, opened, segments, stream_names

__all__ = ["calls", "decoded", "entries", "entry_at", "first_of", "hashes_from", "lines_of", "merged"]


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


def entry_at(directory: Path, seq: int, stream: str = "") -> list[Entry]:
    """The entries with a number: one, or the first of each stream that has one when no stream is named."""
    mark = b'"seq":%d,' % seq  # most lines need not be decoded to be passed over
    found = []
    for name in stream_names(directory) if not stream else (stream,):
        near = decoded(line for line in lines_of(directory, name, seq) if mark in line)
        found += list(islice((item for item in near if item.get("seq") == seq), 1))
    return found


def calls(directory: Path) -> list[dict[str, Any]]:
    """One row a call, in the order of their intents: the intent's fields with the outcome's, `status` "unfinished" where there is none.

    `seq` is the intent's number and `outcome_seq` the outcome's. A call that waited for a person is begun again when it is carried out,
    perhaps by another worker and so in another stream: then the later counts. A decision that ends a call says how. `users` has the roles
    and attributes of those parties that no policy names, by id.
    """
    return merged(entries(directory))


def merged(found_entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """The same of entries from anywhere: those of a stream in their order, streams in any."""
    found: dict[str, dict[str, _Chapter]] = {}
    users = _Users()
    for entry in found_entries:
        call_id = entry.get("call_id")
        if not isinstance(call_id, str):
            continue
        if entry.get("event") == "identity":
            users.add(call_id, entry)
            continue
        chapters = found.setdefault(call_id, {})
        stream = str(entry.get("stream", ""))
        chapter = chapters[stream] = _told(chapters.get(stream), entry)
        if entry.get("event") == "intent" and (known := users.of(call_id, entry)):
            chapter.row["users"] = known
    begun = [chapters.values() for chapters in found.values() if any(chapter.begun for chapter in chapters.values())]
    return sorted(map(_whole, begun), key=lambda row: str(row.get("time", "")))


class _Users:
    """What the record says of users: each call's own word, or else the last word of its stream before it."""

    def __init__(self) -> None:
        self._last: dict[tuple[object, object], Any] = {}
        self._own: dict[tuple[str, object], Any] = {}

    def add(self, call_id: str, entry: Entry) -> None:
        said = entry.get("arguments")
        self._last[(entry.get("stream"), entry.get("principal"))] = said
        self._own[(call_id, entry.get("principal"))] = said

    def of(self, call_id: str, entry: Entry) -> dict[str, Any]:
        parties = [name for name in (entry.get("principal"), entry.get("on_behalf_of")) if isinstance(name, str)]
        said = {name: self._own.get((call_id, name), self._last.get((entry.get("stream"), name))) for name in parties}
        return {name: item for name, item in said.items() if isinstance(item, dict)}


@dataclass(frozen=True, slots=True)
class _Chapter:
    """What one stream tells of a call: whether from a beginning on, what, and up to when."""

    begun: bool
    row: dict[str, Any]
    until: str


def _told(before: _Chapter | None, entry: Entry) -> _Chapter:
    known = before or _Chapter(begun=False, row={}, until="")
    content, until = _content(entry), str(entry.get("time", ""))
    ending = {"outcome_seq": entry.get("seq")}
    match entry.get("event"):
        case "intent":
            return _Chapter(begun=True, row={**content, "status": "unfinished"}, until=until)
        case "outcome" if known.begun:
            ending |= {key: value for key, value in content.items() if key not in {"seq", "time", "stream"}}
            return replace(known, row=known.row | ending, until=until)
        case "decision" if "code" in entry:  # a person's, or time's, that ends the call
            ending |= {"status": entry.get("status"), "code": entry["code"]}
            return replace(known, row=known.row | ending, until=until)
        case _:
            return known


def _whole(chapters: Iterable[_Chapter]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for chapter in sorted(chapters, key=lambda chapter: chapter.until):
        row = chapter.row if chapter.begun else row | chapter.row
    return row


def _content(entry: Entry) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in {"prev", "hash", "event"}}
