"""Proxy that connections of the gateway go through, as the policy names it. It holds a reference to a password, never the password."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = ["THROUGH_PROXY", "EgressProxy", "ProxyRoute"]

THROUGH_PROXY = "egress.proxy"
"""Rule of the refusal of a direct connection where the policy names a proxy."""


class EgressProxy(Struct, frozen=True, kw_only=True):
    """HTTP proxy that is asked for tunnels (CONNECT, RFC 9110 section 9.3.6).

    `password` is a reference (`${env:NAME}` or `${file:/path}`), `ca` a PEM file of authorities that are trusted as well, for the proxy and
    for the services behind it. `resolve` says who resolves the names of services. `direct` places are connected to without the proxy.
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
    """Way to a place through a proxy; `host` is what the proxy is told: a name, or an address that was checked."""

    proxy: EgressProxy
    host: str
