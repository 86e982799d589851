"""Fetching what a source's URL leads to, within bounds: no proxy, no other origin, no compression, a size and a time."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
import orjson

from toolgen.clock import Clock, SystemClock
from toolgen.errors import DescriptionError
from toolgen.sources.base import SourceConfig
from toolgen.sources.syntax import LARGEST_DOCUMENT

__all__ = ["Fetched", "fetch"]

_SECONDS = 60.0  # for all of it
_STEP = 15.0  # for connecting, and for each read
_MOST_REDIRECTS = 3
_SAVE = "download it, review it and name the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What a description said when it was asked. `filename` says what kind of text it is."""

    filename: str
    data: bytes


def fetch(config: SourceConfig, clock: Clock | None = None) -> Fetched:
    """Asks `config.location`: for the document of an OpenAPI source, for the introspection of a GraphQL one.

    Raises `DescriptionError` for whatever keeps it from being fetched whole, and for a redirect to another origin.
    """
    if config.kind == "graphql":
        return _introspection(config.location)
    data = _get(config.location, clock or SystemClock())
    is_json = data.removeprefix(b"\xef\xbb\xbf")[:512].lstrip()[:1] in {b"{", b"["}
    return Fetched(filename="openapi.json" if is_json else "openapi.yaml", data=data)


def _introspection(url: str) -> Fetched:
    """Indented, and in an order of its own, so that two answers that say the same are the same and a reviewer can compare two copies."""
    from toolgen.sources.graphql.introspect import introspect  # noqa: PLC0415 - costs what an OpenAPI source has no use for

    answer: Mapping[str, Any] = introspect(url, largest=LARGEST_DOCUMENT)
    schema = answer.get("__schema")
    if isinstance(schema, dict):
        for key in ("types", "directives"):
            if isinstance(listed := schema.get(key), list):
                listed.sort(key=lambda one: str(one.get("name")) if isinstance(one, dict) else "")
    options = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    return Fetched(filename="introspection.json", data=orjson.dumps(answer, option=options))


def _get(url: str, clock: Clock) -> bytes:
    until = clock.monotonic() + _SECONDS
    where = url.partition("?")[0]
    headers = {"Accept": "application/json, application/yaml, text/yaml, */*;q=0.5", "Accept-Encoding": "identity"}
    try:
        with httpx.Client(trust_env=False, follow_redirects=False, timeout=_STEP, headers=headers) as client:
            for _ in range(_MOST_REDIRECTS + 1):
                with client.stream("GET", url) as response:
                    if response.has_redirect_location:
                        url = _followed(url, response.headers["location"], where)
                        continue
                    return _body(response, where, until, clock)
    except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError) as error:
        raise DescriptionError(
            f"cannot be fetched: {type(error).__name__}", where=where, suggestion="check the URL and the network"
        ) from error
    raise DescriptionError(f"redirects more than {_MOST_REDIRECTS} times", where=where, suggestion=_SAVE)


def _followed(url: str, location: str, where: str) -> str:
    try:
        target = urljoin(url, location)
        same = _origin(target) == _origin(url)
    except ValueError:
        same, target = False, ""
    if not same:
        raise DescriptionError(
            "redirects to another origin", where=where, suggestion="if you trust that one, name its URL in toolgen.yaml"
        )
    return target.partition("#")[0]


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _body(response: httpx.Response, where: str, until: float, clock: Clock) -> bytes:
    if response.status_code != 200:
        raise DescriptionError(
            f"answers {response.status_code}, not 200",
            where=where,
            suggestion="a description behind a login is downloaded, reviewed and named as a file",
        )
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        # Its size says nothing, and it was not asked for.
        raise DescriptionError("answers with a compressed body", where=where, suggestion=_SAVE)
    found = bytearray()
    for chunk in response.iter_raw():
        found += chunk
        if len(found) > LARGEST_DOCUMENT:
            raise DescriptionError(f"is larger than {LARGEST_DOCUMENT >> 20} MiB", where=where)
        if clock.monotonic() > until:
            raise DescriptionError(f"takes longer than {_SECONDS:.0f} seconds", where=where, suggestion=_SAVE)
    return bytes(found)
