"""Metadata of the protected resource (RFC 9728) and challenges (RFC 6750): they show an OAuth client where its user signs in."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from msgspec import Struct

from toolgen.config.gateway import mount_of
from toolgen.frontends.http.request import Rejected, Request, Response, json_response
from toolgen.gateway.protocol import Facade

__all__ = ["MCP", "WELL_KNOWN", "OwnIssuer", "ProtectedResource"]

MCP = "/mcp"
WELL_KNOWN = "/.well-known/oauth-protected-resource"


class OwnIssuer(Struct, frozen=True, kw_only=True):
    """Gateway as the authorization server of its resources: of `/mcp`, and of the `endpoints` below it."""

    issuer: str
    scope: str
    endpoints: frozenset[str]


class ProtectedResource:
    """/mcp as a protected resource. `url` is the gateway's public address, "" if it is not configured: then no metadata is published,
    because the sender of a request chooses the address in it. `own` is None if people sign in at their identity provider itself."""

    def __init__(self, gateway: Facade, url: str, own: OwnIssuer | None = None) -> None:
        self._gateway = gateway
        self._url = url
        parts = urlsplit(url)
        self._well_known = f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path}"  # RFC 9728, section 3.1
        if mount_of(url):  # the root is somebody else's, and may lead elsewhere
            self._well_known = f"{url}{WELL_KNOWN}"
        self._own = own

    def metadata(self, request: Request, path: str = MCP) -> Response:
        """Return the metadata, without a credential: at the resource's own well-known address, and at the one without a path for older
        clients.

        Raises `Rejected` if there is none, because no identity provider is configured.
        """
        request.take("GET")
        issuers = sorted({rule.issuer for rule in self._gateway.callers.providers})
        if not self._told() or not self._is_resource(path):
            raise Rejected(404, "not_found", "no identity provider is announced here", suggestion="use an API key")
        scopes = self._scopes()
        if self._own is not None:
            issuers = [self._own.issuer]
        return json_response(
            {
                "resource": self._url + path,
                "resource_name": "toolgen",
                "authorization_servers": issuers,
                **({"scopes_supported": scopes} if scopes else {}),
                "bearer_methods_supported": ["header"],
            }
        )

    def challenge(self, request: Request, error: str = "", scopes: Iterable[str] = ()) -> tuple[bytes, bytes]:
        """Return the `WWW-Authenticate` header of a refusal (RFC 6750 section 3, RFC 9728 section 5.1).

        `scopes` are those that a token must have; without a valid token, the scopes of every provider.
        """
        told = (request.path == MCP or request.path.startswith(f"{MCP}/")) and self._told()
        wanted = sorted(scopes) or (self._scopes() if told else [])
        parts = {
            "error": error,
            "scope": " ".join(wanted),
            "resource_metadata": f"{self._well_known}{self._of(request.path)}" if told else "",
        }
        said = ", ".join(f'{name}="{value}"' for name, value in parts.items() if value)
        return b"www-authenticate", f"Bearer {said}".strip().encode("ascii")

    def _told(self) -> bool:
        return bool(self._url and self._gateway.callers.providers)

    def _is_resource(self, path: str) -> bool:
        return path == MCP or (self._own is not None and path.removeprefix(f"{MCP}/") in self._own.endpoints)

    def _of(self, path: str) -> str:
        """Return the path of the resource that a path belongs to."""
        own = path.removesuffix("/")
        return own if self._is_resource(own) else MCP

    def _scopes(self) -> list[str]:
        if self._own is not None:
            return [self._own.scope]
        return sorted(frozenset[str]().union(*(rule.scopes for rule in self._gateway.callers.providers)))
