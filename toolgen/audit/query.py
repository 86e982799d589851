"""Reads the log for review: its entries, and its calls as one row each."""

from __future__ import annotations

from collections.abc import Iterator
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

    `seq` is the intent's number and `outcome_seq` the outcome's.
    """
    rows: dict[str, dict[str, Any]] = {}
    for entry in entries(directory):
        call_id = entry.get("call_id")
        if not isinstance(call_id, str):
            continue
        match entry.get("event"):
            case "intent":
                rows[call_id] = {**_content(entry), "status": "unfinished"}
            case "outcome" if call_id in rows:
                outcome = {key: value for key, value in _content(entry).items() if key not in {"seq", "time", "stream"}}
                rows[call_id] |= {**outcome, "outcome_seq": entry.get("seq")}
    return sorted(rows.values(), key=lambda row: str(row.get("time", "")))


def _content(entry: Entry) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in {"prev", "hash", "event"}}
