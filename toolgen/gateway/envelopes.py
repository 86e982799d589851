"""Results of the road as the envelopes that callers are given."""

from __future__ import annotations

import msgspec

from toolgen.model.call import Call
from toolgen.model.content import plain_data
from toolgen.model.result import Cancelled, Envelope, Error, Failed, Meta, Pending, Refused, Result, Shape, Success
from toolgen.model.schema import Json
from toolgen.pipeline.chain import Trail
from toolgen.pipeline.given import legible

__all__ = ["ended", "enveloped", "invalid", "unmade"]


def unmade(name: str, error: Error) -> Envelope:
    """The envelope of something that never became a call, and so has no record: nobody known, or no arguments."""
    return ended(legible(str(name)), "", Refused(error=error), Trail(), 0.0)


def invalid(message: str) -> Error:
    """The error of what cannot be used as it was given."""
    return Error(code="validation", message=message, suggestion="correct it and call again", rule="arguments")


def enveloped(call: Call, result: Result, trail: Trail, duration_ms: float) -> Envelope:
    """The envelope of a call that was made, whatever became of it; under the id of the first, where it was a repetition."""
    replays = trail.facts.get("replays")
    return ended(call.tool.name, replays if isinstance(replays, str) else call.id, result, trail, duration_ms)


def ended(name: str, call_id: str, result: Result, trail: Trail, duration_ms: float) -> Envelope:
    """How something ended, under a name and an id."""
    meta = Meta(duration_ms=round(duration_ms, 3), truncated=False, audit_seq=trail.outcome_seq)
    match result:
        case Success(data=data, truncated=truncated, next_cursor=cursor, cut_at=cut_at, age_s=age, shape=shape):
            meta = msgspec.structs.replace(meta, truncated=truncated, next_cursor=cursor, cut_at=cut_at, age_s=age)
            plain, content = _read(data, shape)
            return Envelope(status="ok", tool=name, call_id=call_id, data=plain, error=None, meta=meta, content=content)
        case Failed(error=error, data=data, shape=shape):
            plain, content = _read(data, shape)
            return Envelope(
                status="error", tool=name, call_id=call_id, data=plain, error=error, meta=meta, content=content
            )
        case Refused(error=error):
            return Envelope(status="refused", tool=name, call_id=call_id, data=None, error=error, meta=meta)
        case Pending(error=error):
            return Envelope(status="pending", tool=name, call_id=call_id, data=None, error=error, meta=meta)
        case Cancelled(error=error):
            return Envelope(status="cancelled", tool=name, call_id=call_id, data=None, error=error, meta=meta)


def _read(data: Json, shape: Shape) -> tuple[Json, Json]:
    """The data for programs that know no blocks, and the content of MCP that it was, if it was."""
    return (data, None) if shape is not Shape.CONTENT or data is None else (plain_data(data), data)
