"""What an OAuth client is told, so that it finds where its user signs in: the metadata of RFC 9728, and challenges of RFC 6750."""

from __future__ import annotations

from collections.abc import Iterable

from toolgen.gateway.facade import Facade
from toolgen.gateway.http import Rejected, Request, Response, json_response

__all__ = ["MCP", "WELL_KNOWN", "Resource"]

MCP = "/mcp"
WELL_KNOWN = "/.well-known/oauth-protected-resource"


class Resource:
    """/mcp as a protected resource. `url` is the gateway's public origin, "" where nobody said it: then nothing is told, because an
    address taken from a request is one that its sender chose."""

    def __init__(self, gateway: Facade, url: str) -> None:
        self._gateway = gateway
        self._url = url

    def metadata(self, request: Request) -> Response:
        """The metadata, for anybody: at the resource's own well-known address, and at the one without a path, where older clients look.

        Raises `Rejected` where there is none, as no user of an identity provider is known.
        """
        request.take("GET")
        issuers = sorted({rule.issuer for rule in self._gateway.providers})
        if not self._told():
            raise Rejected(404, "not_found", "no identity provider is announced here", suggestion="use an API key")
        scopes = _scopes(self._gateway)
        return json_response(
            {
                "resource": self._url + MCP,
                "resource_name": "toolgen",
                "authorization_servers": issuers,
                **({"scopes_supported": scopes} if scopes else {}),
                "bearer_methods_supported": ["header"],
            }
        )

    def challenge(self, request: Request, error: str = "", scopes: Iterable[str] = ()) -> tuple[bytes, bytes]:
        """The `WWW-Authenticate` header of a refusal (RFC 6750 section 3, RFC 9728 section 5.1).

        `scopes` are what a token must have; of a request without a good one, every provider's.
        """
        told = request.path == MCP and self._told()
        wanted = sorted(scopes) or (_scopes(self._gateway) if told else [])
        parts = {
            "error": error,
            "scope": " ".join(wanted),
            "resource_metadata": f"{self._url}{WELL_KNOWN}{MCP}" if told else "",
        }
        said = ", ".join(f'{name}="{value}"' for name, value in parts.items() if value)
        return b"www-authenticate", f"Bearer {said}".strip().encode("ascii")

    def _told(self) -> bool:
        return bool(self._url and self._gateway.providers)


def _scopes(gateway: Facade) -> list[str]:
    return sorted(frozenset[str]().union(*(rule.scopes for rule in gateway.providers)))
