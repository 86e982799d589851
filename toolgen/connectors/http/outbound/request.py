"""Requests that are no tool calls, such as those to a token endpoint or a Vault: the request, its route and its response."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.resolver import Resolver, system_resolver
from toolgen.model.secret import Unprinted

__all__ = [
    "OutboundError",
    "OutboundRequest",
    "OutboundResponse",
    "RefusedError",
    "TlsMaterial",
    "UnreachableError",
    "Via",
]

_TOTAL_S = 10.0


class OutboundError(Exception):
    """Error without an answer. The text is for a person and never contains data that was sent or received."""


class RefusedError(OutboundError):
    """Error because nothing was sent: the policy does not open this place."""


class UnreachableError(OutboundError):
    """Error because there was no answer: no connection, a timeout, no name. A server with another answer was reached."""


class TlsMaterial(Unprinted, frozen=True, kw_only=True):
    """TLS client certificate with its key, and certificate authorities to trust besides the default ones: PEM, "" for none."""

    certificate: str = ""
    key: str = ""
    authorities: str = ""

    def __repr__(self) -> str:
        return "Tls(***)"


class Via(Struct, frozen=True, kw_only=True):
    """Route to a place: the policy that decides (`permit`; None: on behalf of the operator), the destination that it is asked about, and
    the TLS settings.
    """

    permit: Permit | None = None
    destination: Destination = field(default_factory=lambda: Destination(host="", port=0))
    resolver: Resolver = system_resolver
    tls: TlsMaterial = field(default_factory=TlsMaterial)
    total_s: float = _TOTAL_S


class OutboundRequest(Unprinted, frozen=True, kw_only=True):
    """Request; its headers and body may contain secrets. Without `reads` only the status of the answer is read."""

    method: str
    url: str
    headers: Mapping[str, str] = {}
    body: bytes = b""
    reads: bool = True

    def __repr__(self) -> str:
        return f"OutboundRequest({self.method} ***)"


class OutboundResponse(Unprinted, frozen=True, kw_only=True):
    """Complete answer."""

    status: int
    content_type: str
    body: bytes
    retry_after: str = ""
    dpop_nonce: str = ""
    cache_control: str = ""
    age: str = ""

    def __repr__(self) -> str:
        return f"OutboundResponse({self.status})"
