"""Documents that a description may load by `$ref`: URLs below the prefixes that toolgen.yaml lists, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from types import MappingProxyType
from urllib.parse import urljoin, urlsplit, urlunsplit

from msgspec import Struct, field

from toolgen.connectors.pins import Pin

__all__ = ["Remote", "UnsafeUrlError", "canonical", "is_below", "is_loopback", "joined"]

_CHARACTERS = re.compile(r"[\x21-\x7e]+\Z")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_HOST = re.compile(r"[a-z0-9._-]+\Z|[0-9a-f:.]+\Z")
_UNRESERVED = re.compile(r"%(?:2[dD]|3[0-9]|4[1-9a-fA-F]|5[0-9aAfF]|6[1-9a-fA-F]|7[0-9aAeE])")
# What a server might read as another path than the one that was compared: / . \ % ; ? # and controls, encoded.
_AMBIGUOUS = re.compile(r"%(?:2[eEfF5]|5[cC]|3[bBfF]|23|[01][0-9a-fA-F]|7[fF]|(?![0-9a-fA-F]{2}))")
_PORTS = {"http": 80, "https": 443}


class UnsafeUrlError(ValueError):
    """A URL that is no plain address of a document; its text says why, to follow "the reference …"."""


class Remote(Struct, frozen=True, kw_only=True):
    """Remote documents that one description may refer to.

    `base` is the description's own URL, empty for a file. `pins` are the accepted documents by canonical URL.
    """

    base: str = ""
    allowed: tuple[str, ...] = ()
    pins: Mapping[str, Pin] = field(default_factory=lambda: MappingProxyType({}))


def canonical(url: str) -> str:
    """The one spelling of a document's URL, by which it is allowed, pinned and recognised.

    Raises `UnsafeUrlError` for everything that two readers could take for two documents, and for plain http beyond this machine.
    """
    if not _CHARACTERS.match(url) or "\\" in url or len(url) > 2000:
        raise UnsafeUrlError("holds a character that no URL has")
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError as error:
        raise UnsafeUrlError("is not a URL") from error
    if parts.scheme not in _PORTS or not host or not _HOST.match(host):
        raise UnsafeUrlError("is not an http(s) URL of a host")
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise UnsafeUrlError("holds a user name")
    if "?" in url or parts.query:
        raise UnsafeUrlError("has a query, which could be a credential")
    if parts.scheme == "http" and not is_loopback(host):
        raise UnsafeUrlError("is over plain http, so it could be anybody's")
    path = _UNRESERVED.sub(lambda match: chr(int(match[0][1:], 16)), parts.path or "/")
    if _AMBIGUOUS.search(path) or any(one.partition(";")[0] in {".", ".."} for one in path.split("/")):
        raise UnsafeUrlError("has a path that servers read in different ways")
    netloc = f"[{host}]" if ":" in host else host
    if port is not None and port != _PORTS[parts.scheme]:
        netloc = f"{netloc}:{port}"
    return urlunsplit((parts.scheme, netloc, path, "", ""))


def joined(base: str, target: str) -> str:
    """A reference as its document means it (RFC 3986, section 5). What cannot be joined comes back as no http(s) URL at all."""
    if _SCHEME.match(target):
        return target  # `https:///a` is absolute and broken, not a path (section 5.2.2, strictly)
    try:
        return urljoin(base, target)
    except ValueError:
        return f"unreadable:{target}"


def is_below(url: str, allowed: Iterable[str]) -> bool:
    """Return True if a canonical URL equals one in `allowed` or is below it: same origin, same first path segments."""
    parts = urlsplit(url)
    segments = parts.path.split("/")
    for prefix in allowed:
        other = urlsplit(prefix)
        wanted = other.path.removesuffix("/").split("/")
        if (parts.scheme, parts.netloc) == (other.scheme, other.netloc) and segments[: len(wanted)] == wanted:
            return True
    return False


def is_loopback(host: str) -> bool:
    """Return True if a host is always this machine, independent of DNS."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
