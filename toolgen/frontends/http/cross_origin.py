"""Cross-origin resource sharing (Fetch standard, CORS protocol) for web pages of the origins in `gateway: {cors: …}`.

It covers the routes of agents: /mcp, /v1 and the metadata of the protected resource. The console never answers another origin, and no
answer allows cookies: a page has to send a credential itself.
"""

from __future__ import annotations

import re

from msgspec import Struct

from toolgen.frontends.http.request import Answer, Headers, Rejected, Request, Response

__all__ = ["CrossOrigin"]

_COVERED = re.compile(r"/(?:mcp|v1/.*|openapi\.json|\.well-known/oauth-protected-resource(?:/mcp)?)/?\Z", re.DOTALL)
_METHODS = b"GET, POST"
_EXPOSED = b"Mcp-Session-Id, Retry-After, WWW-Authenticate"
_KEPT_S = b"600"
_HEADER = re.compile(
    r"(?:accept|accept-language|authorization|content-type|idempotency-key|last-event-id|traceparent|x-conversation-id"
    r"|mcp-(?:protocol-version|session-id|method|name|param-[!#$%&'*+.^_`|~0-9a-z-]{1,128}))\Z"
)


class CrossOrigin(Struct, frozen=True, kw_only=True):
    """Allowed origins, as browsers write them (`https://chat.example.com`); an empty set allows nothing."""

    origins: frozenset[bytes] = frozenset()

    def allows(self, request: Request) -> bool:
        """Return True if the request comes from a page of a listed origin, for a route that such pages may use."""
        return request.headers.get(b"origin") in self.origins and _COVERED.match(request.path) is not None

    def preflight(self, request: Request) -> Response:
        """Answer a browser's preflight request for such a page. It has no credential by the standard, and the answer reveals nothing.

        Raises `Rejected` for an OPTIONS request that is no preflight.
        """
        if not request.text(b"access-control-request-method"):
            raise Rejected(405, "bad_request", "OPTIONS is for a browser's preflight", headers=((b"allow", _METHODS),))
        asked = request.text(b"access-control-request-headers").lower().split(",")
        names = sorted({name for name in map(str.strip, asked) if _HEADER.match(name)})
        headers = [(b"access-control-allow-methods", _METHODS), (b"access-control-max-age", _KEPT_S)]
        if names:
            headers.append((b"access-control-allow-headers", ", ".join(names).encode("ascii")))
        return Response(status=204, headers=tuple(headers))

    def shared(self, request: Request, answer: Answer) -> Answer:
        """Return the answer with the headers that let a page of a listed origin read it."""
        headers: Headers = (
            (b"access-control-allow-origin", request.headers[b"origin"]),
            (b"access-control-expose-headers", _EXPOSED),
            (b"vary", b"Origin"),
        )
        return request.finish(answer, headers)
