"""Stored envelopes of calls, for their callers and for callers of equal calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from toolgen.gateway.calls.json_body import encode, envelope_json
from toolgen.model.result import Envelope, Error, Meta

__all__ = ["envelope_of", "joined_envelope", "without_result"]


def envelope_of(kept: Mapping[str, Any]) -> Envelope:
    """Return the envelope of a call that ended, from its stored JSON."""
    return Envelope(
        status=kept["status"],
        tool=kept["tool"],
        call_id=kept["call_id"],
        data=kept.get("data"),
        error=msgspec.convert(kept["error"], Error) if "error" in kept else None,
        meta=msgspec.convert(kept["meta"], Meta),
        content=kept.get("content"),
        parts=kept.get("parts", False),
    )


def joined_envelope(envelope: Envelope, own: Meta) -> Envelope:
    """Return the envelope for the caller of a call that was not made, because it joined an equal one. `own` are the measurements of that
    call itself."""
    if envelope.status != "pending" or envelope.error is None:
        meta = msgspec.structs.replace(envelope.meta, joined=True, dropped=own.dropped)
        return msgspec.structs.replace(envelope, meta=meta)
    message = f"the same call, {envelope.call_id}, is already waiting: {envelope.error.message}"
    error = msgspec.structs.replace(envelope.error, message=message)
    return msgspec.structs.replace(envelope, error=error, meta=own)


def without_result(envelope: Envelope) -> dict[str, Any]:
    """Return the envelope of a call as JSON, with a short text in place of a result for which there is no room."""
    size = len(encode(envelope_json(envelope)))
    text = (
        f"This call ended ({envelope.status}), and is recorded. Its result ({size} bytes) was not kept: results of earlier calls use all "
        "the storage of this caller. Do not make a call that writes again; read what it changed."
    )
    meta = msgspec.structs.replace(envelope.meta, truncated=True)
    return envelope_json(msgspec.structs.replace(envelope, data=text, content=None, meta=meta))
