"""What a tracing library is told of each MCP request, whichever it is; nothing of arguments, results or the texts of errors."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from toolgen.model.call import Trace

__all__ = ["METHODS", "Span", "Spans", "TracedRequest"]

METHODS = frozenset(
    {
        "initialize",
        "ping",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "server/discover",
        "tasks/cancel",
        "tasks/get",
        "tasks/list",
        "tasks/result",
        "tasks/update",
        "tools/call",
        "tools/list",
    }
)
"""The methods that are named in spans and metrics; others are text of the client."""


class TracedRequest(Struct, frozen=True, kw_only=True):
    """One request: its method, the tool where the caller may see it, the protocol's version and the request's id."""

    method: str
    tool: str
    version: str
    request: str
    parent: Trace | None


class Span(Protocol):
    """One request, begun. `trace` is where it stands, None where nothing is traced."""

    @property
    def trace(self) -> Trace | None: ...

    def end(self, error: str) -> None:
        """It is over; `error` is `tool_error`, a code of JSON-RPC, `internal`, or "" where it went well."""


class Spans(Protocol):
    """Where spans go."""

    def begin(self, operation: TracedRequest) -> Span: ...
