"""Idempotency keys on the wire: which header a system knows them by, and what makes a request harmless to repeat."""

from __future__ import annotations

from dataclasses import replace

from toolgen.execute.http.wire import Request
from toolgen.model.call import Call
from toolgen.model.tool import HttpBinding

__all__ = ["keyed", "repeatable"]

_KNOWN = frozenset({"idempotency-key", "x-idempotency-key"})


def repeatable(call: Call, configured: str) -> bool:
    """Whether sending the call twice does what sending it once does: by its method, or because the system knows its key."""
    return call.tool.idempotent or bool(_header(call, configured))


def keyed(request: Request, call: Call, configured: str) -> Request:
    """The request with the caller's key, or the call's own id, where it needs one and the system knows it.

    A key that is an argument stays as it was given.
    """
    if call.tool.idempotent or not (name := _header(call, configured)):
        return request
    if any(given.lower() == name.lower() for given, _ in request.headers):
        return request
    return replace(request, headers=(*request.headers, (name, call.idempotency_key or call.id)))


def _header(call: Call, configured: str) -> str:
    """The header's name as the description has it, else as toolgen.yaml has it; "" where neither does."""
    binding = call.tool.binding
    if isinstance(binding, HttpBinding):
        for parameter in binding.parameters:
            if parameter.in_ == "header" and parameter.name.lower() in _KNOWN:
                return parameter.name
    return configured
