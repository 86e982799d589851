"""Offline proof that a log is what was written: every line canonical, every hash right, every number in its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from toolgen.audit.entry import FIRST, hashed
from toolgen.audit.query import stream_files
from toolgen.audit.segment import lines
from toolgen.canonical import canonical
from toolgen.errors import AuditError, CanonicalError

__all__ = ["Fault", "Report", "verify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong: in which file, on which line (from 1), about which entry, of which kind.

    Kinds: `unreadable` (no entry at all), `edited` (content and hash disagree), `removed` (numbers are missing before it), `reordered` (an
    entry in another's place, or one too many), `forked` (right number, wrong predecessor), `unmatched` (an outcome without its intent).
    """

    file: str
    line: int
    seq: int | None
    kind: str
    message: str

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return {"file": self.file, "line": self.line, "seq": self.seq, "kind": self.kind, "message": self.message}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What verification found. A torn last line and unfinished calls are told, and are no faults: a crash leaves them."""

    streams: int
    entries: int
    unfinished: tuple[str, ...]
    torn: tuple[str, ...]
    faults: tuple[Fault, ...]

    @property
    def ok(self) -> bool:
        return not self.faults

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return {
            "ok": self.ok,
            "streams": self.streams,
            "entries": self.entries,
            "unfinished": list(self.unfinished),
            "torn": list(self.torn),
            "faults": [fault.to_dict() for fault in self.faults],
        }


def verify(directory: Path) -> Report:
    """Verifies every stream of a log. Reads only; raises `AuditError` when there is nothing to read."""
    files = stream_files(directory)
    if not files:
        raise AuditError("holds no audit log", where=str(directory))
    streams = [_Stream(path) for path in files]
    faults = [fault for stream in streams for fault in stream.run()]
    return Report(
        streams=len(files),
        entries=sum(stream.count for stream in streams),
        unfinished=tuple(call for stream in streams for call in stream.open_calls),
        torn=tuple(stream.path.name for stream in streams if stream.torn),
        faults=tuple(faults),
    )


class _Stream:
    """Walks one stream, remembering where it is and which calls are still open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self.torn = False
        self.open_calls: dict[str, None] = {}
        self._seq = 0
        self._hash = FIRST

    def run(self) -> Iterator[Fault]:
        for number, (line, whole) in enumerate(lines(self.path), start=1):
            if whole or _decoded(line) is not None:
                if self.torn:
                    yield self._fault(
                        number, None, "unreadable", "entries follow bytes that are none: they were overwritten"
                    )
                yield from self._check(number, line)
            else:
                self.torn = True

    def _check(self, number: int, line: bytes) -> Iterator[Fault]:
        entry = _decoded(line)
        if entry is None:
            yield self._fault(number, None, "unreadable", "the line is not an audit entry in canonical form")
            return
        self.count += 1
        seq, prev = entry["seq"], entry["prev"]
        if hashed(entry, prev) != entry["hash"]:
            yield self._fault(number, seq, "edited", "its content is not what its hash was made of")
        elif entry.get("stream") != self.path.stem:
            yield self._fault(number, seq, "reordered", f"it belongs to the stream {entry.get('stream')!r:.40}")
        elif seq > self._seq + 1:
            yield self._fault(number, seq, "removed", f"the {seq - self._seq - 1} entries before it are missing")
        elif seq <= self._seq:
            yield self._fault(number, seq, "reordered", f"it stands after entry {self._seq}")
        elif prev != self._hash:
            yield self._fault(number, seq, "forked", "it follows another entry than the one before it")
        self._seq, self._hash = seq, entry["hash"]
        yield from self._pair(number, entry)

    def _pair(self, number: int, entry: dict[str, Any]) -> Iterator[Fault]:
        call_id = entry.get("call_id", "")
        match entry.get("event"):
            case "intent":
                self.open_calls[call_id] = None
            case "outcome":
                if call_id not in self.open_calls:
                    yield self._fault(number, entry["seq"], "unmatched", "an outcome without an intent before it")
                self.open_calls.pop(call_id, None)

    def _fault(self, line: int, seq: int | None, kind: str, message: str) -> Fault:
        return Fault(file=self.path.name, line=line, seq=seq, kind=kind, message=message)


def _decoded(line: bytes) -> dict[str, Any] | None:
    try:
        entry = msgspec.json.decode(line)
        if not isinstance(entry, dict) or canonical(entry) != line:
            return None
    except (msgspec.DecodeError, CanonicalError, RecursionError):
        return None
    typed = (
        isinstance(entry.get("seq"), int) and isinstance(entry.get("prev"), str) and isinstance(entry.get("hash"), str)
    )
    ascii_prev = typed and entry["prev"].isascii() and isinstance(entry.get("call_id", ""), str)
    return entry if ascii_prev else None
