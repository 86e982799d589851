"""Audit entry: its fields, its hash, and the hash chain. The functions are pure, and this format never changes."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import msgspec

from toolgen.audit.entry_template import WrittenEntry
from toolgen.core.canonical import canonical, encoded, written_each
from toolgen.core.errors import CanonicalError

__all__ = [
    "FIELDS",
    "FIRST",
    "Entry",
    "hashed",
    "is_whole",
    "keyed_digest",
    "parsed",
    "seal",
    "shortened",
    "timestamp",
    "unsealed",
]

Entry = Mapping[str, Any]

FIRST = ""
"""Value of `prev` in the first entry of a stream."""

FIELDS = (
    "seq",
    "stream",
    "time",
    "event",
    "call_id",
    "principal",
    "tool",
    "tool_digest",
    "policy_digest",
    "verdict",
    "rule",
    "arguments",
    "status",
    "code",
    "duration_ms",
    "rows",
    "bytes",
    "sql",
    "on_behalf_of",
    "session",
    "client",
    "parent",
    "attempts",
    "repaired",
    "bound",
    "labels",
    "hidden",
    "message",
    "prev",
    "hash",
)
"""All fields of an entry (docs/reference/audit-format.md). Fields without a value are left out."""

_EMPTY: tuple[object, ...] = ("", (), [])
_DIGEST_LENGTH = 76
# Place of a field in the canonical form of its entry: before `hash`, between `hash` and `prev`, or after both.
_PART = {name: (name > "hash") + (name > "prev") for name in FIELDS if name not in {"hash", "prev"}}


def hashed(content: Entry, prev: str) -> str:
    """Return the hex SHA-256 of `prev` followed by the RFC 8785 form of the entry without `prev` and `hash`."""
    bare = {name: value for name, value in content.items() if name not in {"prev", "hash"}}
    return sha256(prev.encode("ascii") + canonical(bare)).hexdigest()


def seal(fields: Entry, *, seq: int, stream: str, time: str, prev: str) -> tuple[str, bytes]:
    """Return the hash of a whole entry, and its line in canonical JSON: the fields that have a value, with its place in the chain.

    Raises `KeyError` for a field that is not in `FIELDS` and `CanonicalError` for a value that is not JSON.
    """
    if type(fields) is WrittenEntry:
        return fields.seal(seq, stream, time, prev)
    parts: tuple[dict[str, object], ...] = ({}, {}, {"seq": seq, "stream": stream, "time": time})
    others: list[object] = [seq]  # all other fields are text
    for name, value in fields.items():
        part = parts[_PART[name]]
        if type(value) is str:
            if value:
                part[name] = value
        elif value or (value is not None and value not in _EMPTY):
            part[name] = value
            others.append(value)
    # Each field is serialised once: `hash` and `prev` are inserted between the serialised parts.
    before, between, behind = written_each(parts, others)
    before, between, behind = before[1:-1], between[1:-1], behind[1:-1]
    middle = b"%b," % between if between else b""
    first = b"%b," % before if before else b""
    digest = sha256(b"%b{%b%b%b}" % (prev.encode("ascii"), first, middle, behind)).hexdigest()
    line = b'{%b"hash":"%b",%b"prev":"%b",%b}\n' % (first, digest.encode(), middle, prev.encode("ascii"), behind)
    return digest, line


def unsealed(line: bytes, event: str, digest: str, prev: str) -> bytes | None:
    """Return the content that `seal` hashed, from a line without its line end: all but `hash` and `prev`. None if those are not in their
    places.

    The caller compares the hash: SHA-256 of `prev` and this content.
    """
    own = b'"event":"%b","hash":"%b",' % (event.encode(), digest.encode())
    before = b'"prev":"%b",' % prev.encode()
    start = line.rfind(own)
    end = start + len(own)
    place = line.find(before, end)
    if start < 0 or place < 0:
        return None
    return line[: end - len(digest) - 10] + line[end:place] + line[place + len(before) :]


def timestamp(seconds: float) -> str:
    """Return RFC 3339 in UTC with microseconds, the form of times in audit entries."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")[:26] + "Z"


def keyed_digest(key: bytes, value: object) -> str:
    """Return the digest in place of a sensitive value: `hmac-sha256:` and the hex HMAC of its canonical form.

    Equal values of one log get equal digests, so that a reviewer who knows a value can find it; the digest does not reveal it.
    """
    return "hmac-sha256:" + hmac.new(key, encoded(value), sha256).hexdigest()


def parsed(line: bytes) -> Entry | None:
    """Parse a line into an entry of a chain; None for any other line."""
    try:
        entry = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    complete = (
        isinstance(entry.get("seq"), int) and isinstance(entry.get("prev"), str) and isinstance(entry.get("hash"), str)
    )
    return entry if complete else None


def is_whole(entry: Entry | None) -> bool:
    """Return True if the hash of an entry matches its content."""
    try:
        return entry is not None and hashed(entry, entry["prev"]) == entry["hash"]
    except (CanonicalError, UnicodeEncodeError):
        return False


def shortened(entry: Entry, key: bytes) -> Entry | None:
    """Return an outcome without its message and with a keyed digest in place of its statement, like a sensitive one; None if that is not
    shorter."""
    if entry.get("event") != "outcome":
        return None
    statement = entry.get("sql")
    short = {name: value for name, value in entry.items() if name != "message"}
    if statement and not (isinstance(statement, str) and len(statement) <= _DIGEST_LENGTH):
        short["sql"] = keyed_digest(key, statement)
    elif not entry.get("message"):
        return None
    return short
