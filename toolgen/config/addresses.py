"""Addresses of other servers in toolgen.yaml that are only safe as https, or as http on this machine."""

from __future__ import annotations

from urllib.parse import urlsplit

__all__ = ["is_secure_address"]

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def is_secure_address(text: str) -> bool:
    """Return True if this is an https address, or an http one of loopback."""
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
        parts.port  # noqa: B018 - raises for what is none
    except ValueError:
        return False
    secure = parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)
    return (
        bool(host) and secure and text.isascii() and text.isprintable() and parts.username is None and "#" not in text
    )
