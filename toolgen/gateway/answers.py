"""An `Envelope` as the JSON programs read and the text agents read."""

from __future__ import annotations

import math

import orjson

from toolgen.gateway.wire import encode, shallow
from toolgen.model.result import Envelope, Error, bounded
from toolgen.model.schema import Json
from toolgen.pipeline.reading import ARGUMENT

__all__ = ["data_json", "data_text", "envelope_json", "error_text"]

_LONGEST_ANSWER_IN_ERROR = 4000


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
        parts.append(f"The system answered: {bounded(encode(envelope.data).decode('utf-8'), _LONGEST_ANSWER_IN_ERROR)}")
    return "\n".join(parts)
