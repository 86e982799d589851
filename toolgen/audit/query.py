"""Reads the log for review: its entries, and its calls as one row each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from toolgen.audit.entry import Entry
from toolgen.audit.segment import lines
from toolgen.errors import AuditError

__all__ = ["calls", "entries", "entry_at", "stream_files"]


def stream_files(directory: Path) -> list[Path]:
    """The files of a log, one a stream, in the order of their numbers. Raises `AuditError` when the directory cannot be read."""
    try:
        found = [path for path in directory.iterdir() if path.suffix == ".jsonl"]
    except OSError as error:
        raise AuditError(
            f"there is no audit log to read: {error.strerror or type(error).__name__}", where=str(directory)
        ) from error
    return sorted(found, key=lambda path: (len(path.name), path.name))


def entries(directory: Path, stream: str = "") -> Iterator[Entry]:
    """Every entry of one stream, or of all, one after the other. A line that is no JSON object is passed over: `verify` is what judges."""
    for path in stream_files(directory):
        if stream not in {"", path.stem}:
            continue
        for line, _ in lines(path):
            try:
                entry = msgspec.json.decode(line)
            except (msgspec.DecodeError, RecursionError):
                continue
            if isinstance(entry, dict):
                yield entry


def entry_at(directory: Path, seq: int, stream: str = "") -> list[Entry]:
    """The entries with a number: one, or one a stream when no stream is named."""
    return [item for item in entries(directory, stream) if item.get("seq") == seq]


def calls(directory: Path) -> list[dict[str, Any]]:
    """One row a call, in the order of their intents: the intent's fields with the outcome's, `status` "unfinished" where there is none.

    `seq` is the intent's number and `outcome_seq` the outcome's. A call that waited for a person is begun again when it is carried out,
    perhaps by another worker and so in another stream: then the later counts. A decision that ends a call says how.
    """
    found: dict[str, dict[str, _Chapter]] = {}
    for entry in entries(directory):
        call_id = entry.get("call_id")
        if isinstance(call_id, str):
            chapters = found.setdefault(call_id, {})
            stream = str(entry.get("stream", ""))
            chapters[stream] = _told(chapters.get(stream), entry)
    begun = [chapters.values() for chapters in found.values() if any(chapter.begun for chapter in chapters.values())]
    return sorted(map(_whole, begun), key=lambda row: str(row.get("time", "")))


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
