"""Spans of requests and of attempts at upstream systems, kept in a bounded queue until they are exported.

They have names, codes and times, by OpenTelemetry's conventions for MCP and GenAI, but no arguments, results or texts of errors.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from toolgen.gateway.metrics.tracing import TracedRequest
from toolgen.gateway.telemetry.span_encoding import attribute, described, failure, trace_state
from toolgen.model.call import Call
from toolgen.model.result import Failed, Refused, Success
from toolgen.model.trace_context import Trace

__all__ = ["EndedSpan", "OtlpSpan", "SpanQueue"]

_INTERNAL, _SERVER, _CLIENT = 1, 2, 3  # kinds of spans, as OTLP numbers them
_SAMPLED = 1
_MAX_KINDS = 4096
_NOT_ZERO = 1 << 64 | 1  # neither id may be zero (W3C Trace Context, section 3.2.2)
_random = random.Random()  # noqa: S311 - ids of traces are no secrets
_bits, _share = _random.getrandbits, _random.random
_ROUTE = "/v1/tools/{name}/call"
_REST_CALL = described(f"POST {_ROUTE}", _SERVER, [("http.request.method", "POST"), ("http.route", _ROUTE)])
_attribute = lru_cache(maxsize=256)(attribute)


EndedSpan: TypeAlias = tuple[Trace, int, int, bytes]
"""Ended span: its trace, when it began and ended (nanoseconds since the epoch), and its encoded fields."""


class NoSpan(Struct, frozen=True):
    """Span of a request that is left out."""

    trace: None = None

    def end(self, error: str) -> None:
        """Do nothing."""


NO_SPAN = NoSpan()


class SpanQueue:
    """`Spans` and spans of upstream attempts. Above `size` the oldest spans are dropped and counted.

    Spans are kept with the fields that their kind shares in encoded form, and encoded when they are sent, some hundred at a time.
    `sample` is the share of traces that get spans, of those that begin here; in a trace of a caller, the caller decides.
    """

    def __init__(self, size: int = 32_768, sample: float = 1.0) -> None:
        self._size, self._sample = size, sample
        self._ended: deque[EndedSpan] = deque(maxlen=size)
        self.dropped = 0
        self._kinds: dict[tuple[str, ...], bytes] = {}

    @property
    def waiting(self) -> int:
        """Return the number of spans in the queue."""
        return len(self._ended)

    def begin(self, operation: TracedRequest) -> OtlpSpan | NoSpan:
        """Begin the span of an MCP request, below that of its caller."""
        trace = operation.parent
        if trace is None:
            if self._sample < 1.0 and _share() >= self._sample:
                return NO_SPAN
            trace = _root()
        kind = (operation.method, operation.tool, operation.version)
        fields = self._kinds.get(kind) or self._described(kind, f"{kind[0]} {kind[1]}".strip(), _SERVER, _of_mcp(*kind))
        return OtlpSpan(self, trace, time.time_ns(), fields + attribute("jsonrpc.request.id", operation.request))

    def of_rest_call(self, parent: Trace | None) -> OtlpSpan | NoSpan:
        """Begin the span of a call over REST. The tool is in the span of its execution: a caller may not see every name."""
        if parent is None:
            if self._sample < 1.0 and _share() >= self._sample:
                return NO_SPAN
            parent = _root()
        return OtlpSpan(self, parent, time.time_ns(), _REST_CALL)

    def of_execution(self, call: Call) -> OtlpSpan | None:
        """Begin the span of an execution, whose context is sent to the upstream system; None for a call whose request has no span."""
        trace, tool = call.trace, call.tool
        if trace is None:
            if self._sample < 1.0:
                return None
            trace = _root()
        elif not trace.flags & _SAMPLED:
            return None
        else:
            trace = _below(trace)
        kind = (tool.source, tool.name)
        fields = self._kinds.get(kind) or self._described(kind, f"execute_tool {tool.name}", _CLIENT, _of_tool(*kind))
        return OtlpSpan(self, trace, time.time_ns(), fields)

    def of_stage(self, name: str, trace: Trace | None) -> OtlpSpan:
        """Begin the span of a stage of a call, below that of its request."""
        fields = self._kinds.get((name,)) or self._described(
            (name,), f"stage {name}", _INTERNAL, [("toolgen.stage", name)]
        )
        return OtlpSpan(self, _root() if trace is None else _below(trace), time.time_ns(), fields)

    def _described(
        self, key: tuple[str, ...], name: str, kind: int, attributes: Iterable[tuple[str, str | int]]
    ) -> bytes:
        """Encode the fields that spans of one kind share, once."""
        if len(self._kinds) >= _MAX_KINDS:
            self._kinds.clear()
        fields = self._kinds[key] = described(name, kind, attributes)
        return fields

    def put(self, span: EndedSpan) -> None:
        """Add an ended span; if the queue is full, the oldest is dropped."""
        self.dropped += len(self._ended) == self._size
        self._ended.append(span)

    def put_back(self, spans: Sequence[EndedSpan]) -> None:
        """Return unsent spans to the queue, as far as there is space."""
        room = max(0, self._size - len(self._ended))
        kept = spans[len(spans) - room :] if room < len(spans) else spans
        self.dropped += len(spans) - len(kept)
        self._ended.extendleft(reversed(kept))

    def take(self, most: int) -> list[EndedSpan]:
        """Remove and return the oldest spans."""
        return [self._ended.popleft() for _ in range(min(most, len(self._ended)))]


class OtlpSpan(Struct, gc=False):
    """Span of a started request, execution or stage. `fields` are its encoded fields, without those of its trace and times."""

    queue: SpanQueue
    trace: Trace
    began: int
    fields: bytes

    def end(self, error: str) -> None:
        """End the span; `error` is the code of what went wrong, "" for success. A trace that its caller does not record has no spans."""
        trace = self.trace
        if trace.flags & _SAMPLED:
            fields = self.fields
            if error:
                fields += failure(error)
            if trace.state:
                fields += trace_state(trace.state)
            self.queue.put((trace, self.began, time.time_ns(), fields))

    def executed(self, result: Success | Failed | Refused) -> None:
        """End the span of an execution with its outcome: the status of the answer, the number of attempts, and the code of an error."""
        if not isinstance(result, Refused):
            if (status := result.delivery.status) is not None:
                self.fields += _attribute("http.response.status_code", status)
            if (attempts := result.delivery.attempts) is not None and attempts > 1:
                self.fields += _attribute("toolgen.attempts", attempts)
        self.end("" if isinstance(result, Success) else result.error.code)


def _of_mcp(method: str, tool: str, version: str) -> Iterable[tuple[str, str | int]]:
    yield "mcp.method.name", method
    if version:
        yield "mcp.protocol.version", version
    if method == "tools/call":
        yield "gen_ai.operation.name", "execute_tool"
    if tool:
        yield "gen_ai.tool.name", tool


def _of_tool(source: str, name: str) -> Iterable[tuple[str, str | int]]:
    yield "gen_ai.operation.name", "execute_tool"
    yield "gen_ai.tool.name", name
    yield "toolgen.source", source


def _root() -> Trace:
    """Return a position in a new trace."""
    ids = (_bits(192) | _NOT_ZERO).to_bytes(24, "big").hex()
    return Trace(trace_id=ids[:32], span_id=ids[32:], flags=_SAMPLED)


def _below(parent: Trace) -> Trace:
    """Return a new position below another one."""
    return Trace(
        trace_id=parent.trace_id,
        span_id=(_bits(64) | 1).to_bytes(8, "big").hex(),
        parent_id=parent.span_id,
        flags=parent.flags,
        state=parent.state,
    )
