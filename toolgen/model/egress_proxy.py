"""Proxy of the policy for connections of the gateway, with a reference to its password, never the password itself."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = ["THROUGH_PROXY", "EgressProxy", "ProxyRoute"]

THROUGH_PROXY = "egress.proxy"
"""Rule of a refusal: the connection is direct although the policy names a proxy."""


class EgressProxy(Struct, frozen=True, kw_only=True):
    """HTTP proxy that opens tunnels (CONNECT, RFC 9110 section 9.3.6).

    `password` is a reference (`${env:NAME}` or `${file:/path}`), `ca` a PEM file of additional authorities, for the proxy and for the
    services behind it. `resolve` is the side that resolves the names of services. `direct` addresses are reached without the proxy.
    """

    scheme: Literal["http", "https"]
    host: str
    port: int
    username: str = ""
    password: str = ""
    ca: str = ""
    resolve: Literal["proxy", "local"] = "proxy"
    direct: frozenset[tuple[str, int]] = frozenset()


class ProxyRoute(Struct, frozen=True):
    """Route to an address through a proxy; `host` is the host in the request to the proxy: a name, or a checked address."""

    proxy: EgressProxy
    host: str
