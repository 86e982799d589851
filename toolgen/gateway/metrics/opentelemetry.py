"""Spans of OpenTelemetry, named by its conventions for MCP; the extra `otel` installs only its API.

Their destination is configured by the operator, as for any program: `opentelemetry-instrument toolgen serve`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TracerProvider,
    TraceState,
)

from toolgen.gateway.metrics.tracing import TracedRequest
from toolgen.model.trace_context import Trace

__all__ = ["OpenTelemetry"]


class OpenTelemetry:
    """Factory of spans at a provider: that of the process unless another is given."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = otel.get_tracer("toolgen", version("toolgen"), provider)

    def begin(self, operation: TracedRequest) -> _Span:
        """Start a server span, below the caller's span if the request names one."""
        attributes = {
            "mcp.method.name": operation.method,
            "mcp.protocol.version": operation.version,
            "jsonrpc.request.id": operation.request,
            "gen_ai.tool.name": operation.tool,
            "gen_ai.operation.name": "execute_tool" if operation.method == "tools/call" else "",
        }
        return self._begun(f"{operation.method} {operation.tool}".strip(), operation.parent, attributes)

    def of_rest_call(self, parent: Trace | None) -> _Span:
        """Begin the span of a call over REST, whose tool is not named: a caller may not see every name."""
        route = "/v1/tools/{name}/call"
        return self._begun(f"POST {route}", parent, {"http.request.method": "POST", "http.route": route})

    def _begun(self, name: str, parent: Trace | None, attributes: Mapping[str, str]) -> _Span:
        span = self._tracer.start_span(
            name,
            context=_context(parent),
            kind=SpanKind.SERVER,
            attributes={name: value for name, value in attributes.items() if value},
            record_exception=False,
            set_status_on_exception=False,
        )
        return _Span(span, parent)


class _Span:
    """OpenTelemetry span and the trace it belongs to."""

    def __init__(self, span: otel.Span, parent: Trace | None) -> None:
        self._span = span
        self._parent = parent

    @property
    def trace(self) -> Trace | None:
        """Return the context of the span; if it is not recorded, it has no id, and the call uses the caller's context."""
        found, parent = self._span.get_span_context(), self._parent
        span_id = f"{found.span_id:016x}"
        if not found.is_valid or (parent is not None and span_id == parent.parent_id):
            return parent
        return Trace(
            trace_id=f"{found.trace_id:032x}",
            span_id=span_id,
            parent_id="" if parent is None else parent.parent_id,
            flags=int(found.trace_flags),
            state=found.trace_state.to_header(),
        )

    def end(self, error: str) -> None:
        """End the span; an error is given by its code only."""
        if error:
            self._span.set_attribute("error.type", error)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()


def _context(parent: Trace | None) -> Context | None:
    if parent is None or not parent.parent_id:
        return None
    place = SpanContext(
        int(parent.trace_id, 16),
        int(parent.parent_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(parent.flags),
        trace_state=TraceState.from_header([parent.state]) if parent.state else None,
    )
    return otel.set_span_in_context(NonRecordingSpan(place), Context())
