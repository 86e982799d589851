"""Fetching what a source's URL leads to, within bounds: no proxy but the policy's, no other origin, no compression, a size and a time."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx
from msgspec import Struct

from toolgen.connectors.executor import Permit
from toolgen.connectors.http.outbound.blocking import blocking_client, failure_of
from toolgen.connectors.references import UnsafeUrlError, canonical, is_below, joined
from toolgen.connectors.source import Fetched, SourceConfig
from toolgen.connectors.syntax import MAX_DOCUMENT_SIZE
from toolgen.core.clock import Clock, SystemClock
from toolgen.core.errors import DescriptionError
from toolgen.core.json_codec import indented_json

__all__ = ["Fetcher", "fetch"]

_SECONDS = 60.0  # for all of it
_STEP = 15.0  # for connecting, and for each read
_MAX_REDIRECTS = 3
_MAX_REFERENCES = 200  # asked for, whether they are there or not
_Result = TypeVar("_Result")
_SAVE = "download it, review it and name the file"
_LOGIN = "a description behind a login is downloaded, reviewed and named as a file"
_WRONG_PLACE = "check the URL: it is that of the description itself, often …/openapi.json"
_STATUS_ADVICE = {401: _LOGIN, 403: _LOGIN, 404: _WRONG_PLACE, 405: _WRONG_PLACE, 410: _WRONG_PLACE}


class Fetcher:
    """Fetches the documents that one description refers to: bounded altogether, and never from where it may not have them."""

    def __init__(self, allowed: tuple[str, ...], clock: Clock | None = None, *, permit: Permit | None = None) -> None:
        self._allowed, self._permit = allowed, permit
        self._clock = clock or SystemClock()
        self._until = self._clock.monotonic() + _SECONDS
        self._left = MAX_DOCUMENT_SIZE
        self._count = 0

    def fetch(self, url: str) -> Fetched:
        """Asks for one document by its canonical URL. Raises `DescriptionError`."""
        self._count += 1
        if self._count > _MAX_REFERENCES:
            raise DescriptionError(f"is one document too many (more than {_MAX_REFERENCES})", where=url)
        if not is_below(url, self._allowed):
            raise DescriptionError("is not listed under `refs:` of its source", where=url)
        bounds = _Bounds(until=self._until, largest=self._left, clock=self._clock, permit=self._permit)
        found, data = _get(url, bounds, self._followed)
        self._left -= len(data)
        kind = "json" if _is_json(data) else "yaml"
        name = f"ref-{hashlib.sha256(url.encode()).hexdigest()[:32]}.{kind}"
        return Fetched(filename=name, data=data, url=found if found != url else "")

    def _followed(self, url: str, location: str, where: str) -> str:
        try:
            target = canonical(joined(url, location).partition("#")[0])
        except UnsafeUrlError as error:
            raise DescriptionError(f"redirects to what {error}", where=where, suggestion=_SAVE) from error
        if not is_below(target, self._allowed):
            raise DescriptionError(
                "redirects to where `refs:` of its source does not lead",
                where=where,
                suggestion=f"if you trust it, list {'/'.join(target.split('/')[:3])}/ there too",
            )
        return target


class _Bounds(Struct, frozen=True, kw_only=True):
    until: float
    largest: int
    clock: Clock
    permit: Permit | None


def fetch(
    config: SourceConfig,
    clock: Clock | None = None,
    *,
    headers: Mapping[str, str] = MappingProxyType({}),
    permit: Permit | None = None,
) -> Fetched:
    """Asks `config.location`: for the document of an OpenAPI source, for the introspection of a GraphQL one, with these `headers`.
    `permit` decides about every connection, and through which proxy it goes.

    Raises `DescriptionError` for whatever keeps it from being fetched whole, and for a redirect to another origin.
    """
    if config.kind == "graphql":
        ask = partial(_introspection, config.location, headers, permit)
        return _in_time(ask, config.location.partition("?")[0], _SECONDS)
    clock = clock or SystemClock()
    bounds = _Bounds(until=clock.monotonic() + _SECONDS, largest=MAX_DOCUMENT_SIZE, clock=clock, permit=permit)
    _, data = _get(config.location, bounds, _followed)
    return Fetched(filename="openapi.json" if _is_json(data) else "openapi.yaml", data=data)


def _is_json(data: bytes) -> bool:
    return data.removeprefix(b"\xef\xbb\xbf")[:512].lstrip()[:1] in {b"{", b"["}


def _introspection(url: str, headers: Mapping[str, str], permit: Permit | None) -> Fetched:
    """Indented, and in an order of its own, so that two answers that say the same are the same and a reviewer can compare two copies."""
    from toolgen.connectors.graphql.introspection import introspect  # noqa: PLC0415 - costs what an OpenAPI source has no use for

    answer: Mapping[str, Any] = introspect(url, largest=MAX_DOCUMENT_SIZE, headers=headers, permit=permit)
    schema = answer.get("__schema")
    if isinstance(schema, dict):
        for key in ("types", "directives"):
            if isinstance(listed := schema.get(key), list):
                listed.sort(key=lambda one: str(one.get("name")) if isinstance(one, dict) else "")
    return Fetched(filename="introspection.json", data=indented_json(answer, sort_keys=True))


def _in_time(work: Callable[[], _Result], where: str, seconds: float) -> _Result:
    """Run `work` in a thread and return its result or raise its error. Raises `DescriptionError` when the time is over.

    A client's timeouts apply to a single read, and a server that sends a header line every few seconds never exceeds them. A read that is
    still running when the time is over continues in a daemon thread, whose result is ignored.
    """
    ending: SimpleQueue[tuple[_Result] | BaseException] = SimpleQueue()

    def run() -> None:
        try:
            ending.put((work(),))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            ending.put(error)

    Thread(target=run, name="fetch", daemon=True).start()
    try:
        outcome = ending.get(timeout=max(seconds, 0.0))
    except Empty:
        raise DescriptionError(f"takes longer than {_SECONDS:.0f} seconds", where=where, suggestion=_SAVE) from None
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome[0]


def _get(url: str, bounds: _Bounds, followed: Callable[[str, str, str], str]) -> tuple[str, bytes]:
    """Location and content of a fetched document; `followed` decides where a redirect may lead."""
    left = bounds.until - bounds.clock.monotonic()
    return _in_time(partial(_asked, url, bounds, followed), url.partition("?")[0], left)


def _asked(url: str, bounds: _Bounds, followed: Callable[[str, str, str], str]) -> tuple[str, bytes]:
    where = url.partition("?")[0]
    headers = {"Accept": "application/json, application/yaml, text/yaml, */*;q=0.5", "Accept-Encoding": "identity"}
    try:
        with blocking_client(bounds.permit, _STEP, headers) as client:
            for _ in range(_MAX_REDIRECTS + 1):
                with client.stream("GET", url) as response:
                    if response.has_redirect_location:
                        url = followed(url, response.headers["location"], where)
                        continue
                    return url, _body(response, where, bounds)
    except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError) as error:
        reason, suggestion = failure_of(error)
        raise DescriptionError(f"cannot be fetched: {reason}", where=where, suggestion=suggestion) from error
    raise DescriptionError(f"redirects more than {_MAX_REDIRECTS} times", where=where, suggestion=_SAVE)


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


def _body(response: httpx.Response, where: str, bounds: _Bounds) -> bytes:
    if response.status_code != 200:
        raise DescriptionError(
            f"answers {response.status_code}, not 200",
            where=where,
            suggestion=_STATUS_ADVICE.get(response.status_code, _SAVE),
        )
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        # Its size says nothing, and it was not asked for.
        raise DescriptionError("answers with a compressed body", where=where, suggestion=_SAVE)
    found = bytearray()
    for chunk in response.iter_raw():
        found += chunk
        if len(found) > bounds.largest:
            raise DescriptionError(f"is larger than {MAX_DOCUMENT_SIZE >> 20} MiB", where=where)
        if bounds.clock.monotonic() > bounds.until:
            raise DescriptionError(f"takes longer than {_SECONDS:.0f} seconds", where=where, suggestion=_SAVE)
    return bytes(found)
