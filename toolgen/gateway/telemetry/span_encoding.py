"""Protobuf form of spans (opentelemetry/proto/trace/v1/trace.proto), written directly, because a message object per span costs several
times the span itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct

from toolgen.gateway.telemetry.spans import EndedSpan

__all__ = ["encoded_spans"]

# Tags of fields: number << 3 | wire type.
_TRACE_ID, _SPAN_ID, _STATE, _PARENT_ID, _NAME = b"\n\x10", b"\x12\x08", b"\x1a", b"\x22\x08", b"\x2a"
_KIND, _ATTRIBUTE, _SPAN = b"\x30", b"\x4a", b"\x12"
_TIMES = Struct("<BQBQ")
_START, _END = 0x39, 0x41
_FLAGS = Struct("<2sL")
_ERROR = b"\x7a\x02\x18\x02"  # status: code: STATUS_CODE_ERROR
_UINT64 = 2**64 - 1
_SCOPE_SPANS, _RESOURCE_SPANS = b"\x12", b"\n"


def encoded_spans(resource: bytes, scope: bytes, spans: Sequence[EndedSpan]) -> bytes:
    """Return an ExportTraceServiceRequest. `resource` and `scope` are messages in their protobuf form."""
    parts = [_SPAN + _sized(_span(one)) for one in spans]
    group = b"".join((b"\n", _sized(scope), *parts))
    return _RESOURCE_SPANS + _sized(b"".join((b"\n", _sized(resource), _SCOPE_SPANS, _sized(group))))


def _span(one: EndedSpan) -> bytes:
    trace = one.trace
    return b"".join(
        (
            _TRACE_ID,
            bytes.fromhex(trace.trace_id),
            _SPAN_ID,
            bytes.fromhex(trace.span_id),
            _STATE + _sized(trace.state.encode()) if trace.state else b"",
            _PARENT_ID + bytes.fromhex(trace.parent_id) if trace.parent_id else b"",
            _name_and_kind(one.name, one.kind),
            _TIMES.pack(_START, one.began, _END, one.ended),
            *[_attribute(name, value) for name, value in one.attributes],
            _ERROR if one.failed else b"",
            _FLAGS.pack(b"\x85\x01", trace.flags),
        )
    )


@lru_cache(maxsize=1024)
def _name_and_kind(name: str, kind: int) -> bytes:
    return b"".join((_NAME, _sized(_text(name)), _KIND, _varint(kind)))


@lru_cache(maxsize=4096, typed=True)
def _attribute(name: str, value: str | int) -> bytes:
    """Return an attribute with its tag."""
    written = b"\n" + _sized(_text(value)) if isinstance(value, str) else b"\x18" + _varint(value & _UINT64)
    return _ATTRIBUTE + _sized(b"\n" + _sized(_text(name)) + b"\x12" + _sized(written))


def _text(value: str) -> bytes:
    return value.encode("utf-8", "replace")


def _sized(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
