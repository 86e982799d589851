"""Headers that `auth:` of a source names, each with a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolgen.core.errors import ConfigError
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.auth_schemes import HEADERS, SCHEMES
from toolgen.model.http import GATEWAY_HEADERS

__all__ = ["check_headers"]

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}\Z")  # RFC 9110, section 5.6.2
_OWN_HEADERS = (GATEWAY_HEADERS - {"authorization", "cookie"}) | {"apollo-require-preflight", "user-agent"}


def check_headers(auth: Mapping[str, Any], document: YamlDocument, path: tuple[str, ...]) -> None:
    """Check `headers` of `auth`. Raises `ConfigError` for names that are none, the gateway's own, or sent by another credential."""
    headers = auth.get(HEADERS)
    if headers is None and HEADERS not in auth:
        return
    if not isinstance(headers, dict) or not headers or not all(isinstance(one, str) for one in headers.values()):
        raise ConfigError(
            "headers: takes the names of headers, each with its secret",
            where=document.where(*path, HEADERS),
            suggestion='write it like {X-Access-Token: "${env:SHOP_TOKEN}"}',
        )
    shown = {_header_of(scheme): scheme for scheme in auth if scheme in SCHEMES}
    for name in headers:
        where, lower = document.where(*path, HEADERS, name), name.lower()
        if not _HEADER.match(name):
            raise ConfigError(f"headers: '{name[:40]}' is not the name of a header", where=where)
        if lower in _OWN_HEADERS or lower.startswith(("sec-", "proxy-")):
            raise ConfigError(f"headers: {name[:40]} belongs to the gateway", where=where)
        if lower in shown:
            raise ConfigError(f"headers: {name[:40]} is already sent by {shown[lower]}", where=where)
        shown[lower] = name


def _header_of(scheme: str) -> str:
    return SCHEMES[scheme].name.lower() or "authorization"
