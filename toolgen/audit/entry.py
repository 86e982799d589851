"""One audit entry: its fields, its hash, and the chain it stands in. Pure, and frozen for ever."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

from toolgen.canonical import canonical, encodable

__all__ = ["FIELDS", "FIRST", "Entry", "hashed", "keyed_digest", "line_of", "seal"]

Entry = Mapping[str, Any]

FIRST = ""
"""What stands for `prev` in the first entry of a stream."""

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
    "prev",
    "hash",
)
"""Every field an entry may have (contracts.md, section Audit entry). A field without a value is left out."""

_KNOWN = frozenset(FIELDS)
_EMPTY: tuple[object, ...] = ("", (), [])


def hashed(content: Entry, prev: str) -> str:
    """The hex SHA-256 of `prev` followed by the RFC 8785 form of the entry without `prev` and `hash`."""
    bare = {name: value for name, value in content.items() if name not in {"prev", "hash"}}
    return hashlib.sha256(prev.encode("ascii") + canonical(bare)).hexdigest()


def seal(fields: Entry, *, seq: int, stream: str, time: str, prev: str) -> dict[str, Any]:
    """A whole entry: the fields that have a value, in their place in the chain.

    Raises `KeyError` for a field that is not in `FIELDS` and `CanonicalError` for a value that is not JSON.
    """
    content: dict[str, Any] = {"seq": seq, "stream": stream, "time": time}
    for name, value in fields.items():
        if name not in _KNOWN:
            raise KeyError(name)
        if value is not None and value not in _EMPTY:
            content[name] = encodable(value)
    digest = hashed(content, prev)
    content["prev"] = prev
    content["hash"] = digest
    return content


def line_of(entry: Entry) -> bytes:
    """The canonical-JSON line an entry is written as."""
    return canonical(entry) + b"\n"


def keyed_digest(key: bytes, value: object) -> str:
    """What stands for a sensitive value: `hmac-sha256:` and the hex HMAC of its canonical form.

    Equal values of one log get equal digests, so that a reviewer who knows a value can look it up; nobody else learns it.
    """
    return "hmac-sha256:" + hmac.new(key, canonical(encodable(value)), hashlib.sha256).hexdigest()
