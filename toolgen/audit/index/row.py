"""A line of the log as a row of the index: what it is found by, and what its hash was made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

import msgspec

from toolgen.audit.entry import Entry, unsealed

__all__ = ["STREAM_BITS", "CallRow", "Row", "call_row", "content_of", "micros", "row_of"]

STREAM_BITS = 40
"""A row's id is the number of its stream, and in so many lower bits the number of its entry: ids sort as streams do."""

_MAX_LENGTH = 200
_TOLD = ("principal", "on_behalf_of", "tool", "verdict", "rule", "status", "code", "session", "duration_ms")


class _Line(msgspec.Struct):
    seq: int
    stream: str
    time: str
    event: str
    prev: str
    hash: str
    call_id: str = ""
    principal: str = ""
    on_behalf_of: str = ""
    tool: str = ""
    verdict: str = ""
    rule: str = ""
    status: str = ""
    code: str | None = None
    session: str = ""
    duration_ms: float | None = None


_line = msgspec.json.Decoder(_Line).decode


@dataclass(frozen=True, slots=True)
class Row:
    """One entry. `prev` and `hash` are the bytes of the digests; `body` is what was hashed besides `prev`: the entry without the two."""

    seq: int
    time: int  # microseconds since the epoch
    event: str
    call_id: str
    prev: bytes
    hash: bytes
    body: str
    told: Mapping[str, object]  # what a call is made of, as `query.merged` takes it


@dataclass(frozen=True, slots=True)
class CallRow:
    """One call, in the order of the columns of `audit_calls`. `id` is that of its intent's row."""

    id: int
    call_id: str
    time: int
    principal: str
    on_behalf_of: str
    tool: str
    verdict: str
    rule: str
    status: str
    code: str
    session: str
    duration_ms: float | None

    def values(self) -> tuple[object, ...]:
        """What is stored: nothing for what most calls do not have, so that it takes no place where it is looked for."""
        return (
            self.id,
            self.call_id,
            self.time,
            self.principal,
            self.on_behalf_of or None,
            self.tool,
            self.verdict,
            self.rule,
            self.status,
            self.code or None,
            self.session or None,
            self.duration_ms,
        )


def row_of(line: bytes, stream: int) -> Row | None:
    """The row of a whole line of a stream with this number; None when the line is not what its hash was made of."""
    try:
        found = _line(line)
        body = unsealed(line, found.event, found.hash, found.prev)
        if body is None or sha256(found.prev.encode("ascii") + body).hexdigest() != found.hash:
            return None
        if not 0 < found.seq < 1 << STREAM_BITS:
            return None
        prev, own, text = bytes.fromhex(found.prev), bytes.fromhex(found.hash), body.decode()
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    told: dict[str, object] = {
        "seq": found.seq,
        "stream": stream,
        "time": found.time,
        "event": found.event,
        "call_id": _short(found.call_id),
    }
    for name in _TOLD:
        value = getattr(found, name)
        if value is not None and value != "":
            told[name] = value
    return Row(found.seq, micros(found.time), found.event, _short(found.call_id), prev, own, text, told)


def content_of(entries: Iterator[tuple[int, Entry]]) -> Iterator[dict[str, Any]]:
    """Entries that come with their streams' numbers, with what a call is made of: streams of several logs have the same names."""
    for stream, entry in entries:
        told = {name: entry[name] for name in _TOLD if name in entry}
        place = {name: entry.get(name) for name in ("seq", "time", "event")}
        yield {**told, **place, "stream": stream, "call_id": _short(str(entry.get("call_id", "")))}


def call_row(call: Mapping[str, Any]) -> CallRow:
    """The row of a call as `query.merged` gives it, of entries whose `stream` is a number."""
    duration = call.get("duration_ms")
    texts = {name: _short(str(call.get(name) or "")) for name in (*_TOLD[:-1], "call_id")}
    return CallRow(
        id=int(call["stream"]) << STREAM_BITS | int(call["seq"]),
        time=micros(str(call.get("time", ""))),
        duration_ms=float(duration) if isinstance(duration, int | float) else None,
        **texts,
    )


def micros(time: str) -> int:
    """An entry's time as microseconds since the epoch, 0 for what is none."""
    try:
        return round(datetime.fromisoformat(time).timestamp() * 1_000_000)
    except (ValueError, OverflowError):
        return 0


def _short(text: str) -> str:
    """What is sorted by: bounded, and without what PostgreSQL has no character for."""
    return text[:_MAX_LENGTH].replace("\0", "\ufffd")
