"""What of a call itself goes on the wire: its idempotency key, in the header that a system knows it by, and its place in a trace."""

from __future__ import annotations

from dataclasses import replace

from toolgen.execute.http.wire import Request
from toolgen.model.call import Call
from toolgen.model.headers import NO_KEY_HEADER
from toolgen.model.key_header import written
from toolgen.model.tool import Binding, HttpBinding, HttpKey

__all__ = ["keyed", "repeatable", "traced"]

_KNOWN = frozenset({"idempotency-key", "x-idempotency-key"})
_TRACE = frozenset({"traceparent", "tracestate"})


def repeatable(call: Call, configured: str) -> bool:
    """Whether sending the call twice does what sending it once does: by its method, or because the system knows its key."""
    return call.tool.idempotent or _key(call.tool.binding, configured) is not None


def keyed(request: Request, call: Call, configured: str) -> Request:
    """The request with the caller's key, or the call's own id, where it needs one and the system knows it.

    A key that is an argument stays as it was given.
    """
    key = _key(call.tool.binding, configured)
    if key is None or (call.tool.idempotent and not key.required):
        return request
    if any(given.lower() == key.header.lower() for given, _ in request.headers):
        return request
    text = written(call.tool.binding, call.idempotency_key or call.id)
    return replace(request, headers=(*request.headers, (key.header, text)))


def traced(request: Request, call: Call) -> Request:
    """The request with the place that its call has in a trace, in place of any that an argument gave."""
    if call.trace is None:
        return request
    kept = (header for header in request.headers if header[0].lower() not in _TRACE)
    return replace(request, headers=(*kept, *call.trace.headers))


def _key(binding: Binding, configured: str) -> HttpKey | None:
    """The header as the description has it, else as toolgen.yaml has it; None where neither does, or toolgen.yaml wants none."""
    if configured == NO_KEY_HEADER:
        return None
    if isinstance(binding, HttpBinding):
        if isinstance(binding.key, HttpKey):
            return binding.key
        for parameter in binding.parameters:
            if parameter.in_ == "header" and parameter.name.lower() in _KNOWN:
                return HttpKey(header=parameter.name)
    return HttpKey(header=configured) if configured else None
