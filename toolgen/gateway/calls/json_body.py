"""JSON of requests and answers: strict reading of a body, and the JSON form of an `Envelope`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from toolgen.core.json_codec import FRAMED_DEPTH, MAX_DEPTH, decode_json, deeper_than, encode_json
from toolgen.model.call import Call
from toolgen.model.excerpt import bounded
from toolgen.model.mcp_content import blocks_of, plain_data, structured_of
from toolgen.model.result import Envelope, Error, Failed, Meta, Refused, Result, Shape, Success
from toolgen.model.schema import Json, Schema
from toolgen.pipeline.input_validation import legible
from toolgen.pipeline.middleware import CallContext
from toolgen.policy.arguments import meant_names

__all__ = [
    "MAX_BODY_SIZE",
    "MAX_DEPTH",
    "MAX_VALUES",
    "Malformed",
    "decode",
    "encode",
    "ended",
    "envelope_json",
    "enveloped",
    "identifier",
    "invalid",
    "unmade",
    "with_dropped",
]

MAX_BODY_SIZE = 1_048_576
MAX_VALUES = 65_536

_MAX_DROPPED = 20
_MAX_NAME_LENGTH = 64

T = TypeVar("T")
# For text that may not be JSON: an unterminated string matches to the end, so that there is no backtracking.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_PATH = re.compile(r" - at `(?:key in )?\$([^`]*)`\Z")
_STEP = re.compile(r"\.([^.\[]+)|\[([^\]]*)\]")
_UNKNOWN = re.compile(r"unknown field `([^`]*)`")
_IDENTIFIER = re.compile(r"[\x21-\x7e]{1,128}\Z")


class Malformed(ValueError):  # noqa: N818  (an error of the body)
    """Bytes that are not the expected JSON. `pointer` is the JSON pointer of the faulty part, "" for the whole."""

    def __init__(self, message: str, *, pointer: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.pointer = pointer


def decode(data: bytes, kind: type[T]) -> T:
    """Decode the JSON value in `data` as `kind`. Raises `Malformed`, whose text never contains a value that was sent.

    A repeated member is refused (RFC 7493, section 2.3): a proxy that inspected the body before may have read the other one.
    """
    openings = data.count(b"[") + data.count(b"{")
    if openings > MAX_DEPTH and deeper_than(data, MAX_DEPTH):
        raise Malformed(f"the JSON is nested more than {MAX_DEPTH} levels deep")
    if openings + data.count(b",") >= MAX_VALUES and _values(data) > MAX_VALUES:
        raise Malformed(f"the JSON has more than {MAX_VALUES} values")
    try:
        value = msgspec.json.decode(data, type=kind)
        if not _repeats(data):
            return value
    except msgspec.ValidationError as error:
        message, pointer = _explained(str(error))
        raise Malformed(message, pointer=pointer) from None
    except msgspec.DecodeError as error:
        raise Malformed(f"the body is not JSON: {error}") from None
    except UnicodeDecodeError:
        raise Malformed("the body is not UTF-8") from None
    except (RecursionError, ValueError):
        raise Malformed("the body is not JSON that this gateway supports") from None
    raise Malformed("an object has two members of one name")


def identifier(text: str) -> bool:
    """Return True if text from outside is valid as an id in audit entries: 1 to 128 visible ASCII characters."""
    return _IDENTIFIER.match(text) is not None


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, msgspec.Raw):  # in a value that the encoder did not accept
        return decode_json(bytes(value), FRAMED_DEPTH)
    raise TypeError(type(value).__name__)


encode = partial(encode_json, default=_plain)
"""Encoder of compact JSON for any answer: a value without a JSON form becomes a text about it (`json_codec`)."""


def _repeats(data: bytes) -> bool:
    """Return True if an object has a duplicate member. Each member has one colon outside of strings, and a parsed object has each name
    once.

    Strings are removed only if the counts differ because of colons in them; otherwise this takes about a microsecond for a small body.
    """
    members, todo = 0, [msgspec.json.decode(data)]
    while todo:
        value = todo.pop()
        if type(value) is dict:
            members += len(value)
            todo += value.values()
        elif type(value) is list:
            todo += value
    return data.count(b":") != members and _STRING.sub(b"", data).count(b":") != members


def _values(data: bytes) -> int:
    """Return a lower bound of the number of values: a list of two bytes takes sixty bytes of memory, so values are counted before they are
    created."""
    bare = _STRING.sub(b"", data)
    return bare.count(b",") + bare.count(b"[") + bare.count(b"{") + 1


def _explained(text: str) -> tuple[str, str]:
    """Return msgspec's message and path (`$.a[0].b`) as a message and an RFC 6901 pointer."""
    pointer = ""
    if found := _PATH.search(text):
        text = text[: found.start()]
        for name, index in _STEP.findall(found[1]):
            if index == "...":  # msgspec does not name the key of a mapping
                break
            pointer += "/" + (name or index).replace("~", "~0").replace("/", "~1")
    if unknown := _UNKNOWN.search(text):
        pointer += "/" + unknown[1].replace("~", "~0").replace("/", "~1")
    return text[0].lower() + text[1:], pointer


def envelope_json(envelope: Envelope, data: bytes | None = None) -> dict[str, object]:
    """Return an envelope ready for `encode` (docs/reference/answers.md). `data` are the encoded bytes of its data, if they exist
    already."""
    shaped: dict[str, object] = {"status": envelope.status, "tool": envelope.tool, "call_id": envelope.call_id}
    if envelope.data is not None:
        shaped["data"] = envelope.data if data is None else msgspec.Raw(data)
    if envelope.error is not None:
        shaped["error"] = msgspec.to_builtins(envelope.error)
    shaped["meta"] = msgspec.to_builtins(envelope.meta)
    return shaped


def unmade(name: str, error: Error) -> Envelope:
    """Return the envelope of a request that never became a call, and so has no record: an unknown caller, or invalid arguments."""
    return ended(legible(str(name)), "", Refused(error=error), CallContext(), 0.0)


def invalid(message: str) -> Error:
    """Return the error for an invalid value."""
    return Error(code="validation", message=message, suggestion="correct it and call again", rule="arguments")


def enveloped(call: Call, result: Result, call_context: CallContext, duration_ms: float) -> Envelope:
    """Return the envelope of a call that was made, whatever its outcome; a repetition has the id of the first call."""
    if not isinstance(result, Success):
        result = _documented(call, result)
    envelope = ended(call.tool.name, call_context.replays or call.id, result, call_context, duration_ms)
    return with_dropped(envelope, call.tool.input_schema, [*call.dropped], call.bound) if call.dropped else envelope


def with_dropped(envelope: Envelope, schema: Schema, names: Sequence[str], bound: Sequence[str] = ()) -> Envelope:
    """Return the envelope with the arguments that were dropped because the tool's schema has no such names."""
    if not names:
        return envelope
    told = meant_names(schema, names[:_MAX_DROPPED], bound)
    dropped = tuple(
        {"argument": bounded(name, _MAX_NAME_LENGTH)} | ({"nearest": nearest} if nearest else {})
        for name, nearest in told.items()
    )
    return replace(envelope, meta=replace(envelope.meta, dropped=dropped))


def _documented(call: Call, result: Result) -> Result:
    """Return the result, with a link to the operation's documentation if the error is about the call and has no link."""
    match result, call.tool.binding.help_url:
        case Failed(error=error) | Refused(error=error), str(url) if not error.help_url:
            if isinstance(result, Failed) or error.code == "validation":
                return replace(result, error=replace(error, help_url=url))
    return result


def ended(name: str, call_id: str, result: Result, call_context: CallContext, duration_ms: float) -> Envelope:
    """Return the notification that something ended, under a name and an id."""
    meta = Meta(duration_ms=round(duration_ms, 3), truncated=False, audit_seq=call_context.outcome_seq)
    data: Json = None
    content: Json = None
    if isinstance(result, Success | Failed):
        data, meta = result.data, replace(meta, row_notes=result.row_notes)
        if (
            result.shape is Shape.CONTENT and data is not None
        ):  # programs that do not support blocks get the content of the blocks
            data, content = plain_data(data), data
    error, cursor_argument, empty_status = None, "", 0
    if isinstance(result, Success):
        delivery = result.delivery
        if content is not None and not blocks_of(content) and structured_of(content) is None:
            data = content = None
            empty_status = HTTPStatus.NO_CONTENT
        elif data is None and delivery.bytes == 0:
            empty_status = delivery.status or HTTPStatus.NO_CONTENT
        cursor_argument = result.cursor_argument
        partial: Sequence[object] | None = None
        if result.shape is Shape.GRAPHQL:
            data, partial = _beside(data)
        meta = replace(
            meta,
            truncated=result.truncated,
            next_cursor=result.next_cursor,
            cut_at=result.cut_at,
            age_s=result.age_s,
            partial=partial,
            more=result.more,
            unread_fields=result.unread_fields,
        )
    else:
        error = result.error
    return Envelope(
        status=result.status,
        tool=name,
        call_id=call_id,
        data=data,
        error=error,
        meta=meta,
        content=content,
        cursor_argument=cursor_argument,
        parts=isinstance(result, Success) and result.shape is Shape.PARTS,
        empty_status=empty_status,
        media=result.media if isinstance(result, Success) else None,
    )


def _beside(data: Json) -> tuple[Json, Sequence[object]]:
    """Return data and the errors beside it. Redaction may have hidden all of the data, or the errors."""
    if not isinstance(data, Mapping):
        return data, [{"message": "withheld"}]
    errors = data.get("errors")
    return data.get("data"), errors if isinstance(errors, list) else [{"message": str(errors)}]
