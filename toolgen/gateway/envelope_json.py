"""An `Envelope` as the JSON programs read and the text agents read.

Results of the road as the envelopes that callers are given.
"""

from __future__ import annotations

import math

import msgspec
import orjson

from toolgen.gateway.json_body import encode, shallow
from toolgen.model.call import Call
from toolgen.model.mcp import plain_data
from toolgen.model.result import (
    Envelope,
    Error,
    Failed,
    Meta,
    Refused,
    Result,
    Shape,
    Success,
    bounded,
)
from toolgen.model.schema import Json
from toolgen.pipeline.input_validation import legible
from toolgen.pipeline.middleware import Trail
from toolgen.responses.answer_argument import ARGUMENT

__all__ = ["data_json", "data_text", "ended", "envelope_json", "enveloped", "error_text", "invalid", "unmade"]

_MAX_ANSWER_IN_ERROR_LENGTH = 4000


def envelope_json(envelope: Envelope, data: bytes | None = None) -> dict[str, object]:
    """contracts.md's Envelope, ready for `encode`. `data` are its data's bytes where they were made already."""
    shaped: dict[str, object] = {"status": envelope.status, "tool": envelope.tool, "call_id": envelope.call_id}
    if envelope.data is not None:
        shaped["data"] = envelope.data if data is None else orjson.Fragment(data)
    if envelope.error is not None:
        shaped["error"] = shallow(envelope.error)
    shaped["meta"] = shallow(envelope.meta)
    return shaped


def data_json(data: Json) -> bytes:
    """The bytes of an answer's data; encoded once and used for the text form and the structured one."""
    return encode(data)


def data_text(envelope: Envelope, data: bytes) -> str:
    """What the agent reads of a success: text as it is, anything else as JSON, and a note when there is more to be had."""
    text = envelope.data if isinstance(envelope.data, str) else data.decode("utf-8")
    if not envelope.meta.truncated and not envelope.meta.next_cursor:
        return text
    where = f" at {envelope.meta.cut_at}" if envelope.meta.cut_at else ""
    note = f"The answer was cut short{where}." if envelope.meta.truncated else "There is more."
    if envelope.meta.next_cursor:
        note += f" The rest starts at the cursor {envelope.meta.next_cursor}"
        if envelope.meta.cut_at:
            note += f" (call again with the same arguments and {ARGUMENT}.cursor)"
    return f"{text}\n\n[{note}]"


def error_text(envelope: Envelope) -> str:
    """What the agent reads of anything that is not a success: some clients drop the error mark, so the text says everything."""
    error = envelope.error or Error(code="internal", message="the gateway gave no reason")
    parts = [f"{error.code}: {error.message}"]
    if envelope.status == "pending":
        parts.append(f"Nothing has been carried out yet; call id {envelope.call_id}.")
    if error.retry_after_s is not None:
        parts.append(f"Try again in {math.ceil(error.retry_after_s)} s.")
    if error.suggestion:
        parts.append(f"What to do: {error.suggestion}")
    if error.help_url:
        parts.append(f"More: {error.help_url}")
    if envelope.data is not None:
        parts.append(
            f"The system answered: {bounded(encode(envelope.data).decode('utf-8'), _MAX_ANSWER_IN_ERROR_LENGTH)}"
        )
    return "\n".join(parts)


def unmade(name: str, error: Error) -> Envelope:
    """The envelope of something that never became a call, and so has no record: nobody known, or no arguments."""
    return ended(legible(str(name)), "", Refused(error=error), Trail(), 0.0)


def invalid(message: str) -> Error:
    """The error of what cannot be used as it was given."""
    return Error(code="validation", message=message, suggestion="correct it and call again", rule="arguments")


def enveloped(call: Call, result: Result, trail: Trail, duration_ms: float) -> Envelope:
    """The envelope of a call that was made, whatever became of it; under the id of the first, where it was a repetition."""
    return ended(call.tool.name, trail.replays or call.id, result, trail, duration_ms)


def ended(name: str, call_id: str, result: Result, trail: Trail, duration_ms: float) -> Envelope:
    """How something ended, under a name and an id."""
    meta = Meta(duration_ms=round(duration_ms, 3), truncated=False, audit_seq=trail.outcome_seq)
    data: Json = None
    content: Json = None
    if isinstance(result, Success | Failed):
        data = result.data
        if result.shape is Shape.CONTENT and data is not None:  # programs that know no blocks are given what they hold
            data, content = plain_data(data), data
    error = None
    if isinstance(result, Success):
        meta = msgspec.structs.replace(
            meta,
            truncated=result.truncated,
            next_cursor=result.next_cursor,
            cut_at=result.cut_at,
            age_s=result.age_s,
        )
    else:
        error = result.error
    return Envelope(
        status=result.status, tool=name, call_id=call_id, data=data, error=error, meta=meta, content=content
    )
