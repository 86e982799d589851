"""Tracing of each MCP request. Arguments, results and error texts are not traced."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from toolgen.model.trace_context import Trace

__all__ = ["METHODS", "Span", "Spans", "TracedRequest"]

METHODS = frozenset(
    {
        "completion/complete",
        "initialize",
        "logging/setLevel",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/directory/read",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "skills/get",
        "skills/list",
        "tasks/cancel",
        "tasks/get",
        "tasks/list",
        "tasks/result",
        "tasks/update",
        "tools/call",
        "tools/list",
    }
)
"""Method names in spans and metrics; other names are text of the client."""


class TracedRequest(Struct, frozen=True, kw_only=True):
    """MCP request: its method, the tool if the caller may see it, the protocol version and the request id."""

    method: str
    tool: str
    version: str
    request: str
    parent: Trace | None


class Span(Protocol):
    """Span of a started request. `trace` is its trace context, None if nothing is traced.

    A protocol, because OpenTelemetry is optional, and its implementation is imported only if it is installed.
    """

    @property
    def trace(self) -> Trace | None: ...

    def end(self, error: str) -> None:
        """End the span; `error` is `tool_error`, a JSON-RPC code, `internal`, or "" for success."""


class Spans(Protocol):
    """Receiver of spans."""

    def begin(self, operation: TracedRequest) -> Span: ...

    def of_rest_call(self, parent: Trace | None) -> Span:
        """Begin the span of a call over REST."""
