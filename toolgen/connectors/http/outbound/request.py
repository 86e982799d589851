"""A request that is no tool call, to a token endpoint or a Vault: what is asked, by whose leave, and what came back."""

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
    """There is no answer. The text is for a person and never holds what was sent or said."""


class RefusedError(OutboundError):
    """There is no answer because nothing was sent: the policy does not open this place."""


class UnreachableError(OutboundError):
    """There is no answer because nobody gave one: no connection, no time, no name. Who answered something else was reached."""


class TlsMaterial(Unprinted, frozen=True, kw_only=True):
    """TLS client certificate with its key, and certificate authorities to trust besides the default ones: PEM, "" for none."""

    certificate: str = ""
    key: str = ""
    authorities: str = ""

    def __repr__(self) -> str:
        return "Tls(***)"


class Via(Struct, frozen=True, kw_only=True):
    """Route to a place: whose verdict is asked (None: on behalf of the operator), as what, and how TLS is made."""

    permit: Permit | None = None
    destination: Destination = field(default_factory=lambda: Destination(host="", port=0))
    resolver: Resolver = system_resolver
    tls: TlsMaterial = field(default_factory=TlsMaterial)
    total_s: float = _TOTAL_S


class OutboundRequest(Unprinted, frozen=True, kw_only=True):
    """A request; its headers and body may hold secrets. Without `reads` the body of the answer is left alone: its status is all."""

    method: str
    url: str
    headers: Mapping[str, str] = {}
    body: bytes = b""
    reads: bool = True

    def __repr__(self) -> str:
        return f"OutboundRequest({self.method} ***)"


class OutboundResponse(Unprinted, frozen=True, kw_only=True):
    """An answer, whole."""

    status: int
    content_type: str
    body: bytes
    retry_after: str = ""

    def __repr__(self) -> str:
        return f"OutboundResponse({self.status})"
