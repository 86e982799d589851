"""Redirect URIs of clients: which may be registered, and which fits one that was (RFC 9700 section 4.1, RFC 8252)."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

__all__ = ["redirect_fault", "redirect_fits", "redirect_host"]

_MAX_LENGTH = 2048
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{1,60}\Z")
# Schemes that run a script, open a file, or are handled by the browser itself.
_UNSAFE = frozenset(
    {
        *("about", "blob", "chrome", "data", "file", "filesystem", "ftp", "http", "intent", "javascript"),
        *("mailto", "moz-extension", "chrome-extension", "resource", "vbscript", "view-source", "ws", "wss"),
    }
)


def redirect_fault(uri: str) -> str:
    """Return the reason why a client may not have this redirect URI; "" if it may.

    Permitted are https, http on loopback, and private schemes of applications (RFC 8252 section 7).
    """
    if not 0 < len(uri) <= _MAX_LENGTH or not uri.isascii() or not uri.isprintable() or " " in uri or "\\" in uri:
        return "is not a plain URI"
    parts = _parts(uri)
    if parts is None:
        return "is not a URI"
    if "#" in uri:
        return "has a fragment"
    if parts.username is not None or "@" in parts.netloc:
        return "names a user"
    if parts.scheme == "https":
        return "" if parts.hostname else "has no host"
    if parts.scheme == "http":
        return "" if parts.hostname in _LOOPBACK else "is not https, and not on loopback"
    if not _SCHEME.match(parts.scheme) or parts.scheme in _UNSAFE:
        return "has a scheme that no application may have for itself"
    return ""


def redirect_fits(registered: str, asked: str) -> bool:
    """Return True if a redirect URI is the registered one, character by character; on loopback any port (RFC 8252 section 7.3)."""
    if registered == asked:
        return True
    own, other = _parts(registered), _parts(asked)
    if own is None or other is None or own.scheme != "http" or own.hostname not in _LOOPBACK:
        return False
    if redirect_fault(asked):
        return False
    return _without_port(own) == _without_port(other)


def redirect_host(uri: str) -> str:
    """Return the name of a redirect URI's target for people: its host, or the scheme of an application."""
    parts = _parts(uri)
    if parts is None:
        return ""
    if parts.scheme in {"https", "http"}:
        return parts.hostname or ""
    return f"{parts.scheme}:"


def _without_port(parts: SplitResult) -> tuple[str, str | None, str, str]:
    return parts.scheme, parts.hostname, parts.path, parts.query


def _parts(uri: str) -> SplitResult | None:
    try:
        parts = urlsplit(uri)
        parts.port  # noqa: B018 - raises for what is none
    except ValueError:
        return None
    return parts if parts.scheme else None
