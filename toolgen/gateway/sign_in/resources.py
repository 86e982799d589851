"""Resources that tokens are issued for (RFC 8707): the MCP addresses of the gateway, and the listed ones of other gateways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolgen.config.mcp_servers import McpServerSettings
from toolgen.gateway.sign_in.errors import OAuthError
from toolgen.model.call import ANY_OF

__all__ = ["Resources"]


class Resources:
    """Resources of a gateway at the origin `url`. An endpoint narrows a caller to its toolsets."""

    def __init__(self, url: str, servers: Mapping[str, McpServerSettings], others: Sequence[str] = ()) -> None:
        self.main = f"{url}/mcp"
        self._origin = url
        self._own: dict[str, frozenset[str]] = {self.main: frozenset()}
        for name, server in servers.items():
            if name and server.toolsets:
                self._own[f"{self.main}/{name}"] = frozenset({ANY_OF.join(sorted(server.toolsets))})
        self._others = frozenset(others)

    def chosen(self, asked: Sequence[str]) -> str:
        """Return the resource that a request means. Raises `OAuthError`.

        Clients without `resource` mean the gateway's main address. Some send the address with a slash at its end, or only the origin,
        although the metadata has https://host/mcp: these name no other resource, so they are treated like it.
        """
        if len(asked) > 1:
            raise OAuthError("invalid_target", "resource: only one is allowed")
        if not asked or asked[0] in {self._origin, f"{self._origin}/"}:
            return self.main
        for resource in (asked[0], asked[0].removesuffix("/")):
            if resource in self._own or resource in self._others:
                return resource
        raise OAuthError("invalid_target", f"the resource is not one of this gateway; expected {self.main}")

    def own(self, asked: Sequence[str]) -> str:
        """Return the resource of this gateway that a request means. Raises `OAuthError`.

        The subject of a client's own token is its id. Another gateway could take it for a person with that subject.
        """
        found = self.chosen(asked)
        if found not in self._own:
            raise OAuthError("invalid_target", f"a client's own token is for this gateway only; expected {self.main}")
        return found

    def toolsets(self, audience: object) -> frozenset[str] | None:
        """Return the toolsets that a token with this audience is narrowed to; None if it is not for this gateway."""
        return self._own.get(audience) if isinstance(audience, str) else None

    def title(self, resource: str) -> str:
        """Return the name of the endpoint of a resource; "" for the main one."""
        return resource.removeprefix(self.main).strip("/") if resource in self._own else resource
