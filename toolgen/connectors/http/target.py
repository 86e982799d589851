"""Destination of a URL: host and port that are checked and dialled. A URL that two parsers could read in different ways is refused."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

from msgspec import Struct

__all__ = ["Target"]

# Path and query contain only characters that no parser changes (WHATWG URL, section 1.3): none that it would percent-encode, no backslash.
_URL = re.compile(
    r"(?P<scheme>[A-Za-z]+)://(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s\[\]/?#@:\\%]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[!$&'()*+,./0-9:;=@A-Z\[\]^_a-z|~%-]*)?(?:\?(?P<query>[!$&()*+,./0-9:;=?@A-Z\[\]^_a-z`{|}~%\\-]*))?\Z"
)
# Most URLs: no dots and no escapes in the path, so no segments that a parser would resolve.
_PLAIN = re.compile(r"(https?://[A-Za-z0-9.:\[\]-]+)/[A-Za-z0-9_~/=&?+,-]*\Z")
_DOTS = re.compile(r"/(?:\.|%2e){1,2}(?=/|\Z)", re.IGNORECASE)
# RFC 1123, section 2.1, and underscores, which names of containers have.
_NAME = re.compile(r"(?=.{1,254}\Z)(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?\Z")
_NUMBER = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\.?\Z")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_MAX_PORT = 65_535


class Target(Struct, frozen=True, kw_only=True):
    """Destination of a URL. `literal` is True if the host is an address."""

    scheme: str
    host: str
    port: int
    literal: bool

    @staticmethod
    def of(url: str) -> Target:
        """Return the destination. Raises `ValueError` for a URL that is not http(s), has a user, or is not sent as it is written.

        An address is four decimal numbers, or IPv6 in brackets. Any other host that ends in a number is refused, because some
        parsers read it as an address.
        """
        plain = _PLAIN.match(url)
        return _read(url) if plain is None else _origin(plain[1])


def _read(url: str) -> Target:
    parts = _URL.match(url)
    if parts is None or (_DOTS.search(parts["path"]) if parts["path"] else "/" in (parts["query"] or "")):
        raise ValueError("the URL cannot be sent as it is written")
    scheme, host, port = parts["scheme"].lower(), parts["host"], parts["port"]
    if scheme not in _DEFAULT_PORTS:
        raise ValueError("the URL is not one of HTTP")
    number = _DEFAULT_PORTS[scheme] if port is None else int(port)
    if number > _MAX_PORT:
        raise ValueError("the port of the URL is too large")
    if host.startswith("["):
        return Target(scheme=scheme, host=_ipv6(host[1:-1]), port=number, literal=True)
    name = _ascii(host)
    if not _NUMBER.match(name.removesuffix(".").rpartition(".")[2]):
        return Target(scheme=scheme, host=name, port=number, literal=False)
    return Target(scheme=scheme, host=str(IPv4Address(name)), port=number, literal=True)


_origin = lru_cache(maxsize=256)(_read)


def _ipv6(text: str) -> str:
    """Return an address as RFC 5952 writes it, without decimal numbers."""
    address = IPv6Address(text)
    mapped = address.ipv4_mapped
    if mapped is None:
        return str(address)
    return f"::ffff:{int(mapped) >> 16:x}:{int(mapped) & 0xFFFF:x}"


def _ascii(host: str) -> str:
    """Return the name that is resolved, in lower case. Raises `ValueError`."""
    name = host.lower()
    if not name.isascii() or "xn--" in name:
        import idna  # noqa: PLC0415 - large tables, for few names

        name = idna.encode(host, uts46=True).decode("ascii")
    if not _NAME.match(name):
        raise ValueError("the URL has no name of a host")
    return name
