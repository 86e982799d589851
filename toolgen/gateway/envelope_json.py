"""An `Envelope` as the JSON programs read and the text agents read.

Results of the road as the envelopes that callers are given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

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
from toolgen.model.tool import HttpBinding
from toolgen.pipeline.input_validation import legible
from toolgen.pipeline.middleware import Trail
from toolgen.policy.arguments import meant_names
from toolgen.responses.answer_argument import ARGUMENT

__all__ = [
    "data_json",
    "data_text",
    "dropped_text",
    "ended",
    "envelope_json",
    "enveloped",
    "error_text",
    "invalid",
    "unmade",
]

_MAX_ANSWER_IN_ERROR_LENGTH = 4000
_MAX_DROPPED = 20
_MAX_NAME_LENGTH = 64


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
    if envelope.meta.partial:
        text += f"\n\n[Some of it is missing: {bounded(encode(envelope.meta.partial).decode('utf-8'), _MAX_ANSWER_IN_ERROR_LENGTH)}]"
    if left_out := dropped_text(envelope):
        text = f"{text}\n\n[{left_out}]"
    if not envelope.meta.truncated and not envelope.meta.next_cursor:
        return text
    where = f" at {envelope.meta.cut_at}" if envelope.meta.cut_at else ""
    note = f"The answer was cut short{where}." if envelope.meta.truncated else "There is more."
    if envelope.meta.next_cursor:
        note += f" The rest starts at the cursor {envelope.meta.next_cursor}"
        if envelope.meta.cut_at:
            note += f" (call again with the same arguments and {ARGUMENT}.cursor)"
    return f"{text}\n\n[{note}]"


def dropped_text(envelope: Envelope) -> str:
    """What the agent reads of arguments that the tool has not; "" where there are none."""
    if not envelope.meta.dropped:
        return ""
    named = (
        f"'{one['argument']}'" + (f" (did you mean '{one['nearest']}'?)" if "nearest" in one else "")
        for one in envelope.meta.dropped
    )
    return f"Left out, as the tool has no such argument: {', '.join(named)}."


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
    if left_out := dropped_text(envelope):
        parts.append(left_out)
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
    envelope = ended(call.tool.name, trail.replays or call.id, _documented(call, result), trail, duration_ms)
    if not call.dropped:
        return envelope
    told = meant_names(call.tool.input_schema, call.dropped[:_MAX_DROPPED], call.bound)
    dropped = tuple(
        {"argument": bounded(name, _MAX_NAME_LENGTH)} | ({"nearest": nearest} if nearest else {})
        for name, nearest in told.items()
    )
    return msgspec.structs.replace(envelope, meta=msgspec.structs.replace(envelope.meta, dropped=dropped))


def _documented(call: Call, result: Result) -> Result:
    """The result, with where its operation is documented if it says what is wrong with a call and not where to read more."""
    match result, call.tool.binding:
        case Failed(error=error) | Refused(error=error), HttpBinding(help_url=str(url)) if not error.help_url:
            if isinstance(result, Failed) or error.code == "validation":
                return replace(result, error=msgspec.structs.replace(error, help_url=url))
    return result


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
        partial: Sequence[object] | None = None
        if result.shape is Shape.GRAPHQL:
            data, partial = _beside(data)
        meta = msgspec.structs.replace(
            meta,
            truncated=result.truncated,
            next_cursor=result.next_cursor,
            cut_at=result.cut_at,
            age_s=result.age_s,
            partial=partial,
        )
    else:
        error = result.error
    return Envelope(
        status=result.status, tool=name, call_id=call_id, data=data, error=error, meta=meta, content=content
    )


def _beside(data: Json) -> tuple[Json, Sequence[object]]:
    """Data, and the errors that were told beside it. A policy may have hidden all of it, or the errors."""
    if not isinstance(data, Mapping):
        return data, [{"message": "withheld"}]
    errors = data.get("errors")
    return data.get("data"), errors if isinstance(errors, list) else [{"message": str(errors)}]
