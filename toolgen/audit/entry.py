"""One audit entry: its fields, its hash, and the chain it stands in. Pure, and frozen for ever."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

from toolgen.canonical import canonical, encodable

__all__ = ["FIELDS", "FIRST", "Entry", "hashed", "keyed_digest", "seal"]

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


def seal(fields: Entry, *, seq: int, stream: str, time: str, prev: str) -> tuple[str, bytes]:
    """The hash of a whole entry, and the canonical-JSON line it is written as: the fields that have a value, in their place in the chain.

    Raises `KeyError` for a field that is not in `FIELDS` and `CanonicalError` for a value that is not JSON.
    """
    pieces = {"seq": canonical(seq), "stream": canonical(stream), "time": canonical(time)}
    for name, value in fields.items():
        if name not in _KNOWN:
            raise KeyError(name)
        if value is not None and value not in _EMPTY:
            pieces[name] = canonical(value if type(value) is str else encodable(value))
    # The same bytes as `hashed` makes of the entry read back, but each field is written only once.
    digest = hashlib.sha256(prev.encode("ascii") + _joined(pieces)).hexdigest()
    pieces["prev"], pieces["hash"] = canonical(prev), canonical(digest)
    return digest, _joined(pieces) + b"\n"


def _joined(pieces: Mapping[str, bytes]) -> bytes:
    """An object of canonical values; field names are plain ASCII, so sorting them as text is sorting them as UTF-16."""
    return b"{" + b",".join(b'"%b":%b' % (name.encode("ascii"), pieces[name]) for name in sorted(pieces)) + b"}"


def keyed_digest(key: bytes, value: object) -> str:
    """What stands for a sensitive value: `hmac-sha256:` and the hex HMAC of its canonical form.

    Equal values of one log get equal digests, so that a reviewer who knows a value can look it up; nobody else learns it.
    """
    return "hmac-sha256:" + hmac.new(key, canonical(encodable(value)), hashlib.sha256).hexdigest()
