"""Rows of the index: the search columns of an entry, the content of its hash, and the conditions of a reviewer's filter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from toolgen.audit.entry import Entry, unsealed
from toolgen.audit.reader import merged
from toolgen.core.errors import ConfigError
from toolgen.model.database import DialectName

__all__ = [
    "NONE",
    "STATUSES",
    "STREAM_BITS",
    "VERDICTS",
    "CallRow",
    "Condition",
    "EntryRow",
    "RecordFilter",
    "call_conditions",
    "call_rows",
    "content_of",
    "entry_conditions",
    "micros",
    "row_of",
]

STREAM_BITS = 40
"""Bits of a row's id for the number of its entry; the higher bits are the number of its stream. Ids sort like streams."""

_MAX_LENGTH = 200
_TOLD = (
    "principal",
    "on_behalf_of",
    "tool",
    "verdict",
    "rule",
    "status",
    "code",
    "session",
    "policy_digest",
    "duration_ms",
)


class _EntryLine(msgspec.Struct):
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
    policy_digest: str = ""
    status: str = ""
    code: str | None = None
    session: str = ""
    client: str = ""
    message: str = ""
    duration_ms: float | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"")


_line = msgspec.json.Decoder(_EntryLine).decode


class EntryRow(Struct, frozen=True):
    """Row of an entry. `prev` and `hash` are the bytes of the digests; `body` is the content that was hashed besides `prev`: the entry
    without the two."""

    seq: int
    time: int  # microseconds since the epoch
    event: str
    call_id: str
    prev: bytes
    hash: bytes
    body: str
    told: Mapping[str, object]  # fields of a call for `query.merged`


class CallRow(Struct, frozen=True):
    """Row of a call, in the order of the columns of `audit_calls`. `id` is that of its intent's row."""

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
    began: int  # times of its first and last entries
    ended: int
    policy_digest: str
    words: str  # search words: `words_of` its entries

    def values(self) -> tuple[object, ...]:
        """Return the values to store: null for empty fields, so that they take no space in indexes."""
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
            self.began,
            self.ended,
            self.policy_digest or None,
            self.words,
        )


def row_of(line: bytes, stream: int) -> EntryRow | None:
    """Return the row of a complete line of a stream with this number; None if the line does not match its hash."""
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
    if found.call_id:
        said = msgspec.json.decode(found.arguments) if found.arguments else None
        told["words"] = words_of(found.event, said, (found.session, found.client, found.code or ""), found.message)
    return EntryRow(found.seq, micros(found.time), found.event, _short(found.call_id), prev, own, text, told)


def content_of(entries: Iterator[tuple[int, Entry]]) -> Iterator[dict[str, Any]]:
    """Yield entries with their stream numbers and the fields of a call: streams of several logs have the same names."""
    for stream, entry in entries:
        told = {name: entry[name] for name in _TOLD if name in entry}
        place = {name: entry.get(name) for name in ("seq", "time", "event")}
        about = tuple(str(entry.get(name) or "") for name in ("session", "client", "code"))
        place["words"] = words_of(
            str(entry.get("event")), entry.get("arguments"), about, str(entry.get("message") or "")
        )
        yield {**told, **place, "stream": stream, "call_id": _short(str(entry.get("call_id", "")))}


_DIGEST = re.compile("(?:hmac-)?sha256:[0-9a-f]{64}")
_CALL_ID = re.compile("call_[0-9a-f]{24}")
_MAX_WORDS = 20_000
_NOTED = ("note", "edited", "reason", "message")


def words_of(event: str, arguments: object, about: Sequence[str] = (), message: str = "") -> str:
    """Return what people search for in an entry: arguments, notes, message, and `about` (session, client and code), and neither digests
    nor ids."""
    if event == "identity":
        return ""
    if event == "decision" and isinstance(arguments, Mapping):
        arguments = {name: arguments[name] for name in _NOTED if name in arguments} or None
    texts = [*about, _CALL_ID.sub("", _DIGEST.sub("", message))]
    if arguments:
        texts.insert(0, _DIGEST.sub("", msgspec.json.encode(arguments).decode("utf-8", "replace")))
    return "\n".join(filter(None, texts))


def call_rows(found: Iterable[dict[str, Any]]) -> list[CallRow]:
    """Return the rows of the calls in entries from `content_of`, whose `stream` is a number."""
    words: dict[str, list[str]] = {}
    times: dict[str, list[int]] = {}

    def told() -> Iterator[dict[str, Any]]:
        for entry in found:
            call_id = str(entry["call_id"])
            entry = dict(entry)  # noqa: PLW2901 - the words are for the row alone
            if text := entry.pop("words", ""):
                words.setdefault(call_id, []).append(text)
            times.setdefault(call_id, []).append(micros(str(entry.get("time", ""))))
            yield entry

    return [
        _call_row(call, times[call["call_id"]], "\n".join(words.get(call["call_id"], ()))) for call in merged(told())
    ]


def _call_row(call: Mapping[str, Any], times: Sequence[int], words: str) -> CallRow:
    duration = call.get("duration_ms")
    texts = {name: _short(str(call.get(name) or "")) for name in (*_TOLD[:-1], "call_id")}
    return CallRow(
        id=int(call["stream"]) << STREAM_BITS | int(call["seq"]),
        time=micros(str(call.get("time", ""))),
        duration_ms=float(duration) if isinstance(duration, int | float) else None,
        began=min(times),
        ended=max(times),
        words=words[:_MAX_WORDS].replace("\0", "\ufffd"),
        **texts,
    )


def micros(time: str) -> int:
    """Return an entry's time as microseconds since the epoch, 0 for an invalid time."""
    try:
        return round(datetime.fromisoformat(time).timestamp() * 1_000_000)
    except (ValueError, OverflowError):
        return 0


def _short(text: str) -> str:
    """Return a text for sorting: bounded, and without the character that PostgreSQL cannot store."""
    return text[:_MAX_LENGTH].replace("\0", "\ufffd")


STATUSES = ("ok", "error", "refused", "pending", "cancelled", "unfinished")
VERDICTS = ("allow", "ask", "deny")
_CALL = ("principal", "on_behalf_of", "verdict", "rule", "status", "code", "session", "call_id")
_MAX_TEXT_LENGTH = 1000

Condition = tuple[str, Sequence[object]]


class RecordFilter(Struct, frozen=True, kw_only=True):
    """Filter for calls, or for entries of calls; an empty field matches everything. Times are microseconds since the epoch.

    `tool` may be a glob (`shop__*`). `text` is searched in the whole entry except its hash chain, ignoring case, without an index:
    in as many entries as the other fields leave. `event`, `stream` and `before`, an exclusive upper bound of the number, apply to entries
    only. `words` is searched in what `words_of` says, and `tools` are the names of some tools. With `any_entry` a call matches by the time
    from its first to its last entry.
    """

    since: int | None = None
    until: int | None = None
    principal: str = ""
    on_behalf_of: str = ""
    tool: str = ""
    verdict: str = ""
    rule: str = ""
    status: str = ""
    code: str = ""
    session: str = ""
    call_id: str = ""
    text: str = ""
    event: str = ""
    stream: str = ""
    before: int | None = None
    words: str = ""
    tools: tuple[str, ...] | None = None
    any_entry: bool = False

    def __post_init__(self) -> None:
        for name in (*_CALL, "tool", "text", "words", "event", "stream"):
            if len(getattr(self, name)) > _MAX_TEXT_LENGTH:
                raise ConfigError(f"{name}: has more than {_MAX_TEXT_LENGTH} characters, so nothing can match it")

    @property
    def of_calls(self) -> bool:
        """Return True if a field is set that only calls have, so that entries are found by their calls."""
        return any(getattr(self, name) for name in (*_CALL[:-1], "tool", "text", "words", "tools"))


NONE = RecordFilter()


def call_conditions(wanted: RecordFilter, dialect: DialectName) -> list[Condition]:
    """Return the conditions on `audit_calls c`."""
    found: list[Condition] = [(f"c.{name} = ?", (_kept(value),)) for name in _CALL if (value := getattr(wanted, name))]
    found += _between("c.time", wanted) if not wanted.any_entry else _overlapping(wanted)
    if wanted.words:
        like = "LIKE" if dialect == "sqlite" else "ILIKE"
        forms = dict.fromkeys((_kept(wanted.words), _in_json(wanted.words)))
        either = " OR ".join([f"c.words {like} ? ESCAPE '!'"] * len(forms))
        found.append((f"({either})", tuple(f"%{_plain(form)}%" for form in forms)))
    if wanted.tools is not None:
        found.append((f"c.tool IN ({', '.join('?' * len(wanted.tools)) or 'NULL'})", wanted.tools))
    if any(sign in wanted.tool for sign in "*?"):
        found.append(_glob("c.tool", wanted.tool, dialect))
    elif wanted.tool:
        found.append(("c.tool = ?", (_kept(wanted.tool),)))
    if wanted.text:
        condition, values = _holds("t.body", wanted.text, dialect)
        found.append((f"EXISTS (SELECT 1 FROM audit_entries t WHERE t.call_id = c.call_id AND {condition})", values))
    return found


def entry_conditions(wanted: RecordFilter) -> list[Condition]:
    """Return the conditions on `audit_entries e`, for fields that calls do not have."""
    found = _between("e.time", wanted)
    if wanted.call_id:
        found.append(("e.call_id = ?", (_kept(wanted.call_id),)))
    if wanted.event:
        found.append(("e.event = ?", (_kept(wanted.event),)))
    if wanted.stream:
        found.append(("e.stream IN (SELECT id FROM audit_streams WHERE name = ?)", (_kept(wanted.stream),)))
    if wanted.before is not None:
        found.append((f"e.id - e.stream * {1 << STREAM_BITS} < ?", (wanted.before,)))
    return found


def _overlapping(wanted: RecordFilter) -> list[Condition]:
    found: list[Condition] = []
    if wanted.since is not None:
        found.append(("c.ended >= ?", (wanted.since,)))
    if wanted.until is not None:
        found.append(("c.began < ?", (wanted.until,)))
    return found


def _in_json(text: str) -> str:
    return msgspec.json.encode(_kept(text)).decode()[1:-1]


def _between(column: str, wanted: RecordFilter) -> list[Condition]:
    found: list[Condition] = []
    if wanted.since is not None:
        found.append((f"{column} >= ?", (wanted.since,)))
    if wanted.until is not None:
        found.append((f"{column} < ?", (wanted.until,)))
    return found


def _glob(column: str, pattern: str, dialect: DialectName) -> Condition:
    pattern = _kept(pattern)
    if dialect == "sqlite":
        return f"{column} GLOB ?", (pattern.replace("[", "[[]"),)
    return f"{column} LIKE ? ESCAPE '!'", (_plain(pattern).replace("*", "%").replace("?", "_"),)


def _holds(column: str, text: str, dialect: DialectName) -> Condition:
    """Return the condition for a text within a JSON string, where quotes and control characters are escaped."""
    written = _in_json(text)
    like = "LIKE" if dialect == "sqlite" else "ILIKE"
    return f"{column} {like} ? ESCAPE '!'", (f"%{_plain(written)}%",)


def _plain(text: str) -> str:
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def _kept(text: str) -> str:
    """Return a text in the form that `index_row` stores."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
