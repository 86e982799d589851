"""How a GraphQL service is shown credentials: its description says nothing about them, so these are the ways `auth:` can name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from toolgen.model.manifest import SecurityScheme

__all__ = ["HEADERS", "SCHEMES", "with_headers"]

SCHEMES = MappingProxyType(
    {
        "bearer": SecurityScheme(type="http", scheme="bearer"),
        "basic": SecurityScheme(type="http", scheme="basic"),
        "api_key": SecurityScheme(type="apiKey", in_="header", name="X-API-Key"),
    }
)
HEADERS = "headers"
"""The key of `auth:` below which names of headers stand, each with its secret."""


def with_headers(
    schemes: Mapping[str, SecurityScheme], auth: Mapping[str, object]
) -> tuple[Mapping[str, SecurityScheme], Mapping[str, object]]:
    """The schemes and credentials of a source with `headers: {NAME: secret}` taken apart: a scheme for each header."""
    named = auth.get(HEADERS)
    if not isinstance(named, Mapping):
        return schemes, auth
    own = {f"{HEADERS}.{name}": SecurityScheme(type="apiKey", in_="header", name=name) for name in named}
    shown = {f"{HEADERS}.{name}": secret for name, secret in named.items()}
    return {**schemes, **own}, {**{key: one for key, one in auth.items() if key != HEADERS}, **shown}
