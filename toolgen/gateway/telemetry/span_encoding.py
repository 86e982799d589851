"""Protobuf form of spans (opentelemetry/proto/trace/v1/trace.proto), written directly, because a message object per span costs several
times the span itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct

from toolgen.model.trace_context import Trace

__all__ = ["encoded_span", "encoded_spans"]

# Tags of fields: number << 3 | wire type.
_TRACE_ID, _SPAN_ID, _STATE, _PARENT_ID, _NAME = b"\n\x10", b"\x12\x08", b"\x1a", b"\x22\x08", b"\x2a"
_KIND, _ATTRIBUTE, _SPAN = b"\x30", b"\x4a", b"\x12"
_TIMES = Struct("<BQBQ")
_START, _END = 0x39, 0x41
_FLAGS = Struct("<2sL")
_ERROR = b"\x7a\x02\x18\x02"  # status: code: STATUS_CODE_ERROR
_UINT64 = 2**64 - 1
_SCOPE_SPANS, _RESOURCE_SPANS = b"\x12", b"\n"


def encoded_spans(resource: bytes, scope: bytes, spans: Sequence[bytes]) -> bytes:
    """Return an ExportTraceServiceRequest of encoded spans. `resource` and `scope` are messages in their protobuf form."""
    group = b"".join((b"\n", _sized(scope), *spans))
    return _RESOURCE_SPANS + _sized(b"".join((b"\n", _sized(resource), _SCOPE_SPANS, _sized(group))))


def encoded_span(
    trace: Trace,
    name: str,
    kind: int,
    times: tuple[int, int],
    attributes: tuple[tuple[str, str | int], ...],
    *,
    failed: bool = False,
    request: str = "",
) -> bytes:
    """Return a span as a field of ScopeSpans. `times` are its start and end, in nanoseconds since the epoch.

    `request` is the id of an MCP request. It is not among the attributes, because those of most spans are equal, and are encoded once.
    """
    span = b"".join(
        (
            _TRACE_ID,
            bytes.fromhex(trace.trace_id),
            _SPAN_ID,
            bytes.fromhex(trace.span_id),
            _STATE + _sized(trace.state.encode()) if trace.state else b"",
            _PARENT_ID + bytes.fromhex(trace.parent_id) if trace.parent_id else b"",
            _name_and_kind(name, kind),
            _TIMES.pack(_START, times[0], _END, times[1]),
            _attributes(attributes),
            _attribute("jsonrpc.request.id", request) if request else b"",
            _ERROR if failed else b"",
            _FLAGS.pack(b"\x85\x01", trace.flags),
        )
    )
    return _SPAN + _sized(span)


@lru_cache(maxsize=1024)
def _name_and_kind(name: str, kind: int) -> bytes:
    return b"".join((_NAME, _sized(_text(name)), _KIND, _varint(kind)))


@lru_cache(maxsize=4096)
def _attributes(pairs: tuple[tuple[str, str | int], ...]) -> bytes:
    return b"".join([_attribute(name, value) for name, value in pairs])


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
