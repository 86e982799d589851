"""Spans of requests and of attempts at upstream systems, kept in a bounded queue until they are exported.

They have names, codes and times, by OpenTelemetry's conventions for MCP and GenAI, but no arguments, results or texts of errors.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgen.gateway.metrics.tracing import TracedRequest
from toolgen.gateway.telemetry.span_encoding import encoded_span
from toolgen.model.call import Call
from toolgen.model.result import Failed, Refused, Success
from toolgen.model.trace_context import Trace

__all__ = ["OtlpSpan", "SpanQueue"]

_INTERNAL, _SERVER, _CLIENT = 1, 2, 3  # kinds of spans, as OTLP numbers them
_SAMPLED = 1
_random = random.Random()  # noqa: S311 - ids of traces are no secrets
_bits, _share = _random.getrandbits, _random.random
Execute: TypeAlias = Callable[[Call], Coroutine[Any, Any, Success | Failed | Refused]]


class NoSpan(Struct, frozen=True):
    """Span of a request that is left out."""

    trace: None = None

    def end(self, error: str) -> None:
        """Do nothing."""


NO_SPAN = NoSpan()


class SpanQueue:
    """`Spans` and spans of upstream attempts. Above `size` the oldest spans are dropped and counted.

    Spans are encoded when they end, so that no call waits while thousands are encoded at once.
    `sample` is the share of traces that get spans, of those that begin here; in a trace of a caller, the caller decides.
    """

    def __init__(self, size: int = 8192, sample: float = 1.0) -> None:
        self._size, self._sample = size, sample
        self._ended: deque[bytes] = deque()
        self.dropped = 0

    @property
    def waiting(self) -> int:
        """Return the number of spans in the queue."""
        return len(self._ended)

    def _leaves_out(self, parent: Trace | None) -> bool:
        return parent is None and self._sample < 1.0 and _share() >= self._sample

    def begin(self, operation: TracedRequest) -> OtlpSpan | NoSpan:
        """Begin the span of an MCP request, below that of its caller."""
        if self._leaves_out(operation.parent):
            return NO_SPAN
        attributes: list[tuple[str, str | int]] = [("mcp.method.name", operation.method)]
        if operation.version:
            attributes.append(("mcp.protocol.version", operation.version))
        name = operation.method
        if operation.method == "tools/call":
            attributes.append(("gen_ai.operation.name", "execute_tool"))
        if operation.tool:
            attributes.append(("gen_ai.tool.name", operation.tool))
            name = f"{name} {operation.tool}"
        return OtlpSpan(self, name, _SERVER, operation.parent or below(None), attributes, operation.request)

    def of_rest_call(self, parent: Trace | None) -> OtlpSpan | NoSpan:
        """Begin the span of a call over REST. The tool is in the span of its execution: a caller may not see every name."""
        if self._leaves_out(parent):
            return NO_SPAN
        route = "/v1/tools/{name}/call"
        attributes: list[tuple[str, str | int]] = [("http.request.method", "POST"), ("http.route", route)]
        return OtlpSpan(self, f"POST {route}", _SERVER, parent or below(None), attributes)

    def executed(self, execute: Execute, call: Call) -> Coroutine[Any, Any, Success | Failed | Refused]:
        """Execute a call in a separate span, whose context is sent to the upstream system. A call of a request without a span has none."""
        if call.trace is None and self._sample < 1.0:
            return execute(call)
        trace = below(call.trace)
        tool = call.tool
        attributes: list[tuple[str, str | int]] = [
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", tool.name),
            ("toolgen.source", tool.source),
        ]
        span = OtlpSpan(self, f"execute_tool {tool.name}", _CLIENT, trace, attributes)
        return _in_span(span, execute, replace(call, trace=trace))

    def of_stage(self, name: str, trace: Trace | None) -> OtlpSpan:
        """Begin the span of a stage of a call, below that of its request."""
        return OtlpSpan(self, f"stage {name}", _INTERNAL, below(trace), [("toolgen.stage", name)])

    def put(self, span: bytes) -> None:
        """Add an ended span; if the queue is full, the oldest is dropped."""
        if len(self._ended) >= self._size:
            self._ended.popleft()
            self.dropped += 1
        self._ended.append(span)

    def put_back(self, spans: Sequence[bytes]) -> None:
        """Return unsent spans to the queue, as far as there is space."""
        room = max(0, self._size - len(self._ended))
        kept = spans[len(spans) - room :] if room < len(spans) else spans
        self.dropped += len(spans) - len(kept)
        self._ended.extendleft(reversed(kept))

    def take(self, most: int) -> list[bytes]:
        """Remove and return the oldest spans."""
        return [self._ended.popleft() for _ in range(min(most, len(self._ended)))]


class OtlpSpan:
    """Span of a started request or attempt."""

    __slots__ = ("_attributes", "_began", "_kind", "_name", "_queue", "_request", "trace")

    def __init__(
        self,
        queue: SpanQueue,
        name: str,
        kind: int,
        trace: Trace,
        attributes: list[tuple[str, str | int]],
        request: str = "",
    ) -> None:
        self.trace, self._request = trace, request
        self._queue, self._name, self._kind, self._attributes = queue, name, kind, attributes
        self._began = time.time_ns()

    def note(self, name: str, value: str | int) -> None:
        """Add an attribute."""
        self._attributes.append((name, value))

    def end(self, error: str) -> None:
        """End the span; `error` is the code of what went wrong, "" for success. A trace that its caller does not record has no spans."""
        if not self.trace.flags & _SAMPLED:
            return
        if error:
            self._attributes.append(("error.type", error))
        self._queue.put(
            encoded_span(
                self.trace,
                self._name,
                self._kind,
                (self._began, time.time_ns()),
                tuple(self._attributes),
                failed=bool(error),
                request=self._request,
            )
        )


async def _in_span(span: OtlpSpan, execute: Execute, call: Call) -> Success | Failed | Refused:
    error = "cancelled"
    try:
        result = await execute(call)
        error = _outcome(span, result)
    except Exception:
        error = "internal"
        raise
    finally:
        span.end(error)
    return result


def _outcome(span: OtlpSpan, result: Success | Failed | Refused) -> str:
    """Return the code of an outcome, "" for success. Status and number of attempts go into the span."""
    if not isinstance(result, Refused):
        if result.delivery.status is not None:
            span.note("http.response.status_code", result.delivery.status)
        if result.delivery.attempts is not None and result.delivery.attempts > 1:
            span.note("toolgen.attempts", result.delivery.attempts)
    return "" if isinstance(result, Success) else result.error.code


def below(parent: Trace | None) -> Trace:
    """Return a new position in a trace, below another; without one, in a new trace."""
    if parent is None:
        return Trace(trace_id=f"{_bits(128) or 1:032x}", span_id=f"{_bits(64) or 1:016x}", flags=_SAMPLED)
    return Trace(
        trace_id=parent.trace_id,
        span_id=f"{_bits(64) or 1:016x}",
        parent_id=parent.span_id,
        flags=parent.flags,
        state=parent.state,
    )
