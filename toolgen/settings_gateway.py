"""What toolgen.yaml says about the gateway's public address: the one that agents and their users know it by."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

from toolgen.errors import ConfigError

__all__ = ["read_public_url"]

_VISIBLE = re.compile(r"[\x21-\x7e]{1,300}\Z")
_HOST = re.compile(r"[a-z0-9._-]{1,253}\Z")
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


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return "%" not in host


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)
