"""Egress rules: the addresses that the gateway may connect to, checked again with the resolved address before every connection."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from types import MappingProxyType
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from toolgen.model.egress_proxy import THROUGH_PROXY, EgressProxy
from toolgen.model.excerpt import bounded
from toolgen.model.verdict import Allow, Deny, Verdict

__all__ = ["Egress", "Place", "destination_of", "parse_allowed"]

Place = tuple[str, int]
"""Host in lower case, without a trailing dot, and a port."""

_PORTS = {"http": 80, "https": 443}
_HOST_PORT = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):(\d{1,5})\Z")
_NAT64 = ip_network("64:ff9b::/96")
# Closed unless an entry lists the place, even if private_networks is allow: cloud metadata and platform services at addresses that look
# public or private, and special-purpose blocks (IANA registries) that this version of Python's ipaddress treats as global.
_SPECIAL = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "100.64.0.0/10",
        "168.63.129.16/32",
        "192.0.0.0/24",
        "192.88.99.0/24",
        "64:ff9b:1::/48",
        "3fff::/20",
        "5f00::/16",
        "fd00:ec2::/32",
        "fd20:ce::/32",
    )
)
_NO_SOURCES: Mapping[str, frozenset[Place]] = MappingProxyType({})
# Names that lead to the proxy's own machine, and those of cloud metadata services: a proxy that resolves them reaches what no request may.
_LOCAL_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"})
_METADATA_NAMES = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
)
_GLOBAL_UNICAST = ip_network("2000::/3")  # all that RFC 4291 section 2.4 has assigned so far


class Egress(Struct, frozen=True, kw_only=True):
    """Egress rules. `allow` holds (host, port) pairs that are open at any address; if there are any, other public places are closed.

    `private_networks` opens loopback and private addresses (RFC 1918, RFC 4193), but never link-local, shared, multicast or reserved ones,
    where cloud metadata services are: those need an entry in `allow`. `sources` narrows: a source in it reaches only its own places, and
    only if the other rules allow them. `same_origin` permits redirects to the same origin.
    Connections over HTTP go through `proxy`, except to its `direct` places.
    """

    allow: frozenset[Place] = frozenset()
    private_networks: bool = False
    sources: Mapping[str, frozenset[Place]] = field(default_factory=lambda: _NO_SOURCES)
    same_origin: bool = False
    proxy: EgressProxy | None = None

    def check(self, host: str, port: int, address: str = "", *, source: str = "") -> Verdict:
        """Return the verdict on one destination of a source; `address` is the resolved IP address, or "" while it is not known."""
        name = host.strip("[]").rstrip(".").lower()
        if source in self.sources and (name, port) not in self.sources[source]:
            return _deny(
                host,
                port,
                f"it is not listed under egress.sources.{source}",
                suggestion=f"a reviewer can list host:port under egress.sources.{source} in the policy",
            )
        if (name, port) in self.allow:
            return Allow(rule="egress.allow")
        literal = _literal(address or name)
        if literal is None:
            if address:
                return _deny(host, port, "its address is not an IP address")
            return Allow(rule="egress") if not self.allow or self.private_networks else _unlisted(host, port)
        if literal.is_loopback or _is_private(literal):
            if self.private_networks:
                return Allow(rule="egress.private_networks")
            return _deny(host, port, "it is a loopback or private address and private_networks is deny")
        if not _is_public(literal):
            return _deny(host, port, "its address is link-local, shared, multicast or reserved")
        return _unlisted(host, port) if self.allow else Allow(rule="egress")

    def check_redirect(self, host: str, port: int, address: str = "", *, source: str = "") -> Verdict:
        """Return the verdict on following a redirect of this place to its own origin; its target is checked too."""
        if self.same_origin:
            return self.check(host, port, address, source=source)
        return _deny(host, port, "redirects are not followed", suggestion="set `egress.redirects` in the policy")

    def check_database(self, host: str, port: int, address: str, *, source: str = "") -> Verdict:
        """Return the verdict on a database server. Its address comes from the operator, and databases are usually in loopback and private
        networks, so these are open.

        Other rules apply as for requests: public servers need `allow`, and addresses that are closed to all requests stay closed.
        """
        return replace(self, private_networks=True).check(host, port, address, source=source)

    def check_keys(self, host: str, port: int, address: str, *, source: str = "") -> Verdict:
        """Return the verdict on the key set of an identity provider. Its URL in the policy permits that place and no other.

        `allow` need not list it as well; but a place in a reserved network, such as cloud metadata, needs `allow`.
        """
        if (host.strip("[]").rstrip(".").lower(), port) in self.allow:
            return Allow(rule="egress.allow")
        return replace(self, allow=frozenset(), private_networks=True).check(host, port, address)

    def check_proxy(self, host: str, port: int, address: str, *, source: str = "") -> Verdict:
        """Return the verdict on the address of the proxy. The policy names it, so it may be in a private network."""
        return replace(self, sources=_NO_SOURCES).check_keys(host, port, address)

    def routed(self, verdict: Verdict, host: str, port: int, address: str, *, proxied: bool) -> Verdict:
        """Return a verdict, with the proxy if the connection goes through it. The resolved address of a place that is not `direct` is
        refused unless the proxy connects to it (`proxied`): code without support for proxies cannot connect."""
        proxy, name = self.proxy, host.strip("[]").rstrip(".").lower()
        if proxy is None or not isinstance(verdict, Allow) or (name, port) in proxy.direct:
            return verdict
        if address and not proxied:
            return Deny(
                rule=THROUGH_PROXY,
                code="egress_refused",
                reason=f"the gateway does not connect to {bounded(host, 100)}:{port}: connections go through egress.proxy",
                suggestion="a reviewer can list host:port under egress.direct in the policy",
            )
        if not address and proxy.resolve == "proxy" and (name, port) not in self.allow:
            if name in _METADATA_NAMES:
                return _deny(host, port, "it is the name of a metadata service")
            local = name in _LOCAL_NAMES or name.endswith(".localhost")
            if local and verdict.rule != "egress.private_networks" and not self.private_networks:
                return _deny(host, port, "it is the name of the proxy's own machine and private_networks is deny")
        return Allow(rule=verdict.rule, proxy=proxy)


def parse_allowed(text: str) -> tuple[str, int] | None:
    """Parse `api.example.com:443` or `[::1]:8080` into (host, port) in lower case; None for any other text."""
    found = _HOST_PORT.match(text)
    if found is None or not 0 < int(found[3]) < 65536:
        return None
    return (found[1] or found[2]).rstrip(".").lower(), int(found[3])


@lru_cache(maxsize=1024)
def _literal(text: str) -> IPv4Address | IPv6Address | None:
    """Return an IP address; every form that embeds an IPv4 address in an IPv6 one is unwrapped."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is None and int(address) >> 32 == 0 and int(address) > 1:
            inner = IPv4Address(int(address))  # IPv4-compatible, deprecated by RFC 4291 section 2.5.5.1
        return inner or address
    return address


@lru_cache(maxsize=1024)
def _is_private(address: IPv4Address | IPv6Address) -> bool:
    return address.is_private and _is_ordinary(address)


@lru_cache(maxsize=1024)
def _is_public(address: IPv4Address | IPv6Address) -> bool:
    allocated = isinstance(address, IPv4Address) or address in _GLOBAL_UNICAST
    return allocated and address.is_global and _is_ordinary(address)


def _is_ordinary(address: IPv4Address | IPv6Address) -> bool:
    return not (
        any(address in network for network in _SPECIAL)
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
        or address.is_unspecified
    )


def _deny(
    host: str,
    port: int,
    reason: str,
    *,
    suggestion: str = "a reviewer can list host:port under egress.allow in the policy",
) -> Deny:
    return Deny(
        rule="egress",
        code="egress_refused",
        reason=f"the gateway does not connect to {bounded(host, 100)}:{port}: {reason}",
        suggestion=suggestion,
    )


def _unlisted(host: str, port: int) -> Deny:
    return _deny(host, port, "it is not listed under egress.allow")


def destination_of(egress: Egress, url: str, source: str) -> Verdict:
    """Return the verdict on the destination of a request, as far as its name decides."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS[parts.scheme]
        host = parts.hostname or ""
    except (ValueError, KeyError):
        host, port = "", 0
    if not host:
        return Deny(
            rule="egress",
            code="egress_refused",
            reason="the tool has no usable server address",
            suggestion="set server: (or endpoint:) for its source in toolgen.yaml",
        )
    return egress.check(host, port, source=source)
