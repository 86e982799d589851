"""What toolgen.yaml says about the gateway itself: the address that agents know it by, the proxies in front of it, and how it stops."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TypeAlias
from urllib.parse import urlsplit

from toolgen.errors import ConfigError
from toolgen.policy.duration import parse_duration
from toolgen.strict_yaml import Document

__all__ = ["Networks", "contains", "read_drain", "read_networks", "read_public_url"]

Networks: TypeAlias = tuple[IPv4Network | IPv6Network, ...]

_VISIBLE = re.compile(r"[\x21-\x7e]{1,300}\Z")
_HOST = re.compile(r"[a-z0-9._-]{1,253}\Z")
_LONGEST_DRAIN_S = 3600.0
_DEFAULT = {"https": 443, "http": 80}


def read_public_url(given: str | None, where: str) -> str:
    """The origin (`https://tools.example.com`, a port only where it is not the usual one), "" where none is given.

    Raises `ConfigError`. Tokens travel to it, so it is https; http is for loopback alone (RFC 9728 section 7, RFC 8252 section 8.3).
    """
    if given is None:
        return ""
    try:
        parts = urlsplit(given)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        parts, host, port = urlsplit(""), "", None
    if not _VISIBLE.match(given) or parts.scheme not in _DEFAULT or not (_HOST.match(host) or _is_address(host)):
        raise ConfigError(
            "url: is not an address like https://tools.example.com",
            where=where,
            suggestion="give the address that agents use, behind whatever proxy there is",
        )
    if parts.username is not None or parts.path not in {"", "/"} or "?" in given or "#" in given:
        raise ConfigError(
            "url: takes scheme, host and port alone",
            where=where,
            suggestion="leave user, path, query and fragment away; the gateway adds /mcp itself",
        )
    if parts.scheme != "https" and not _is_loopback(host):
        raise ConfigError(
            "url: must be https, because tokens are sent to it",
            where=where,
            suggestion="http is taken for 127.0.0.1, [::1] and localhost alone",
        )
    named = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{named}" + (f":{port}" if port not in {None, _DEFAULT[parts.scheme]} else "")


def read_drain(given: str, where: str) -> float:
    """How long calls in flight have to end when the gateway stops, in seconds. Raises `ConfigError`."""
    seconds = parse_duration(given)
    if seconds is None or not 1 <= seconds <= _LONGEST_DRAIN_S:
        raise ConfigError(
            "drain: takes 1s to 1h",
            where=where,
            suggestion="give a little less than what the system around waits before it kills",
        )
    return seconds


def read_networks(given: Sequence[str], document: Document, *path: str, danger: str) -> Networks:
    """The networks of a list like `["10.0.0.0/8"]`. Raises `ConfigError`; `danger` is what could happen if everybody were in one."""
    networks = []
    for index, text in enumerate(given):
        where = document.where(*path, index)
        try:
            network = ip_network(text)
        except ValueError as error:
            raise ConfigError(f"'{text[:60]}' is no network like 10.0.0.0/8", where=where) from error
        if network.prefixlen == 0:
            raise ConfigError(f"{text} is everybody: {danger}", where=where)
        networks.append(network)
    return tuple(networks)


def contains(networks: Networks, peer: str) -> bool:
    """Whether an address is in one of these networks; text that is no address is in none."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return any(address in network for network in networks)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return "%" not in host


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)
