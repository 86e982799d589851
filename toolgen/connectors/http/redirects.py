"""Permitted redirects (RFC 9110, section 15.4): within one origin, and with another request of the same kind."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import unquote_plus, urljoin, urlsplit

from msgspec.structs import replace

from toolgen.connectors.http.request_builder import HttpRequest

__all__ = ["MAX_HOPS", "moved", "origin_of", "resolved"]

MAX_HOPS = 3
_SAFE = frozenset({"GET", "HEAD", "QUERY"})
_ANY_METHOD = frozenset({307, 308})
_SAFE_ONLY = frozenset({301, 302, 303})
_MAX_LOCATION_LENGTH = 8192
_PORTS = {"http": 80, "https": 443}


def moved(request: HttpRequest, status: int, location: str, secret_names: Collection[str]) -> HttpRequest | None:
    """Return the request of a redirect, without credentials; None if it must not be followed.

    `request` is the one that was sent, before it was signed. 301, 302 and 303 are only followed for reads: others would become another
    request. A redirect to another origin is never followed, so no credential is sent there. Repeated credentials in the query are removed,
    because the next request is signed again.
    """
    if status not in _ANY_METHOD and not (status in _SAFE_ONLY and request.method in _SAFE):
        return None
    url = resolved(request.url, location, secret_names)
    return None if url is None else replace(request, url=url)


def resolved(
    base: str, location: str, secret_names: Collection[str], origins: Collection[tuple[str, str, int]] = ()
) -> str | None:
    """Return the URL in a service's answer to a request for `base`; None if it must not be requested.

    It is on the same origin, or one of `origins`, and has no user name. Parameters of its query with one of the secret names are removed.
    """
    if (
        not location
        or len(location) > _MAX_LOCATION_LENGTH
        or not location.isascii()
        or not location.isprintable()
        or "\\" in location
    ):
        return None
    try:
        to = urlsplit(urljoin(base, location))
        there = origin_of(to.geturl())
        known = there in origins or there == origin_of(base)
    except (ValueError, KeyError):
        return None
    if not known or "@" in to.netloc:
        return None
    names = {name.casefold() for name in secret_names}
    kept = [
        pair for pair in to.query.split("&") if pair and unquote_plus(pair.partition("=")[0]).casefold() not in names
    ]
    return f"{to.scheme}://{to.netloc}{to.path or '/'}" + (f"?{'&'.join(kept)}" if kept else "")


def origin_of(url: str) -> tuple[str, str, int]:
    """Return the origin of a URL (RFC 6454, section 4). Raises `ValueError` and `KeyError` if it has none."""
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError("no host")
    return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]
