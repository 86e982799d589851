"""Protobuf form of spans (opentelemetry/proto/trace/v1/trace.proto), written directly, because a message object per span costs several
times the span itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from struct import Struct

from toolgen.model.trace_context import Trace

__all__ = ["attribute", "described", "encoded_span", "encoded_spans", "failure", "trace_state"]

# Tags of fields: number << 3 | wire type.
_TRACE_ID, _SPAN_ID, _STATE, _PARENT_ID, _NAME = b"\n\x10", b"\x12\x08", b"\x1a", b"\x22\x08", b"\x2a"
_KIND, _ATTRIBUTE, _SPAN, _FLAGS = b"\x30", b"\x4a", b"\x12", b"\x85\x01"
_START, _END = 0x39, 0x41
_ERROR = b"\x7a\x02\x18\x02"  # status: code: STATUS_CODE_ERROR
_ROOT = Struct("<2s16s2s8sBQBQ2sL")
_BELOW = Struct("<2s16s2s8sBQBQ2sL2s8s")
_UINT64 = 2**64 - 1
_ONE_BYTE, _TWO_BYTES = 2**7, 2**14  # lengths below take this many bytes
_SCOPE_SPANS, _RESOURCE_SPANS = b"\x12", b"\n"


def encoded_spans(resource: bytes, scope: bytes, spans: Sequence[bytes]) -> bytes:
    """Return an ExportTraceServiceRequest of encoded spans. `resource` and `scope` are messages in their protobuf form."""
    group = b"".join((b"\n", _sized(scope), *spans))
    return _RESOURCE_SPANS + _sized(b"".join((b"\n", _sized(resource), _SCOPE_SPANS, _sized(group))))


def encoded_span(trace: Trace, began: int, ended: int, fields: bytes) -> bytes:
    """Return a span as a field of ScopeSpans. Times are in nanoseconds since the epoch; `fields` are the further fields of the span."""
    if trace.parent_id:
        place = _BELOW.pack(
            _TRACE_ID,
            bytes.fromhex(trace.trace_id),
            _SPAN_ID,
            bytes.fromhex(trace.span_id),
            _START,
            began,
            _END,
            ended,
            _FLAGS,
            trace.flags,
            _PARENT_ID,
            bytes.fromhex(trace.parent_id),
        )
    else:
        place = _ROOT.pack(
            _TRACE_ID,
            bytes.fromhex(trace.trace_id),
            _SPAN_ID,
            bytes.fromhex(trace.span_id),
            _START,
            began,
            _END,
            ended,
            _FLAGS,
            trace.flags,
        )
    size = len(place) + len(fields)
    length = bytes((size & 0x7F | 0x80, size >> 7)) if _ONE_BYTE <= size < _TWO_BYTES else _varint(size)
    return b"".join((_SPAN, length, place, fields))


def described(name: str, kind: int, attributes: Iterable[tuple[str, str | int]]) -> bytes:
    """Return the fields of a span that many spans share: name, kind and attributes."""
    fields = [_NAME, _sized(name.encode("utf-8", "replace")), _KIND, _varint(kind)]
    return b"".join(fields + [attribute(key, value) for key, value in attributes])


def attribute(name: str, value: str | int) -> bytes:
    """Return an attribute as a field of a span."""
    key = name.encode("utf-8", "replace")
    if isinstance(value, int):
        written = b"\x18" + _varint(value & _UINT64)
    else:
        text = value.encode("utf-8", "replace")
        if len(key) + len(text) + 6 < _ONE_BYTE:
            sizes = len(key) + len(text) + 6, len(key), len(text) + 2, len(text)
            return b"J%c\n%c%b\x12%c\n%c%b" % (sizes[0], sizes[1], key, sizes[2], sizes[3], text)
        written = b"\n" + _sized(text)
    return _ATTRIBUTE + _sized(b"\n" + _sized(key) + b"\x12" + _sized(written))


@lru_cache(maxsize=256)
def failure(code: str) -> bytes:
    """Return the fields of a span that ended with an error."""
    return attribute("error.type", code) + _ERROR


def trace_state(state: str) -> bytes:
    """Return the field with the `tracestate` of a span."""
    return _STATE + _sized(state.encode())


def _sized(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
