"""Cache of documents that clients publish: one fetch for concurrent requests, kept as long as their server permits, within bounds."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from msgspec import Struct

from toolgen.core.background import cancel
from toolgen.core.clock import Clock

__all__ = ["ClientDocumentCache", "DocumentError", "HostLimits", "LoadedDocument", "lifetime_of"]

T = TypeVar("T")
RETRY_S = 10.0
"""Minimum time between two fetches of a document that lacks what a request needs: a client can send any key id."""
_FAILED_S = 30.0
_MAX_KNOWN = 500
_MAX_HOSTS = 1000
_BURST = 30.0
_EACH_S = 2.0
_MAX_AGE = re.compile(r"max-age=\"?([0-9]{1,10})\"?\Z")


class DocumentError(Exception):
    """Fault of a document. The text is a fixed sentence, without any part of the document. `busy`: its host was asked too often."""

    def __init__(self, text: str, *, busy: bool = False) -> None:
        super().__init__(text)
        self.busy = busy


class LoadedDocument(Struct, Generic[T], frozen=True):
    """Document, and the seconds for which it may be kept."""

    value: T
    seconds: float


class _Entry(Struct, Generic[T], frozen=True):
    value: T | None
    fault: DocumentError | None
    fetched: float
    until: float


class HostLimits:
    """Token buckets of hosts, for fetches that unauthenticated requests can cause: 30 at once, and one in two seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, host: str) -> bool:
        """Count a fetch from a host; return False if there were too many."""
        now = self._clock.monotonic()
        tokens, at = self._buckets.get(host, (_BURST, now))
        tokens = min(_BURST, tokens + (now - at) / _EACH_S)
        self._buckets[host] = (tokens - 1 if tokens >= 1 else tokens, now)
        self._buckets.move_to_end(host)
        while len(self._buckets) > _MAX_HOSTS:
            self._buckets.popitem(last=False)
        return tokens >= 1


class ClientDocumentCache(Generic[T]):
    """Documents by address. `load` fetches and reads one, or raises `DocumentError`, which is kept for `failed_s`."""

    def __init__(
        self, load: Callable[[str], Awaitable[LoadedDocument[T]]], clock: Clock, *, failed_s: float = _FAILED_S
    ) -> None:
        self._load = load
        self._clock = clock
        self._failed_s = failed_s
        self._known: OrderedDict[str, _Entry[T]] = OrderedDict()
        self._tasks: dict[str, asyncio.Task[_Entry[T]]] = {}

    async def get(self, address: str, fits: Callable[[T], bool] = lambda _: True) -> T:
        """Return the document at an address. One that does not fit the request is fetched again, unless it is only seconds old.

        Raises `DocumentError`.
        """
        entry, now = self._known.get(address), self._clock.monotonic()
        if entry is not None and entry.value is not None and not fits(entry.value) and now - entry.fetched >= RETRY_S:
            entry = None
        if entry is None or entry.until <= now:
            entry = await self._fetched(address)
        else:
            self._known.move_to_end(address)
        if entry.value is None:
            raise entry.fault or DocumentError("cannot be fetched from here")
        return entry.value

    async def close(self) -> None:
        """Cancel the fetches that run."""
        await cancel(*self._tasks.values())

    async def _fetched(self, address: str) -> _Entry[T]:
        """Return the entry of a new fetch, or of the one that already runs: a request that ends does not end it for the others."""
        task = self._tasks.get(address)
        if task is None:
            task = self._tasks[address] = asyncio.create_task(self._fetch(address))
            task.add_done_callback(lambda _: self._tasks.pop(address, None))
        return await asyncio.shield(task)

    async def _fetch(self, address: str) -> _Entry[T]:
        try:
            loaded = await self._load(address)
        except DocumentError as error:
            now = self._clock.monotonic()
            entry = _Entry[T](None, error, now, now if error.busy else now + self._failed_s)
        else:
            now = self._clock.monotonic()
            entry = _Entry[T](loaded.value, None, now, now + loaded.seconds)
        if entry.until > now:
            self._known[address] = entry
            self._known.move_to_end(address)
            while len(self._known) > _MAX_KNOWN:
                self._known.popitem(last=False)
        else:
            self._known.pop(address, None)
        return entry


def lifetime_of(cache_control: str, age: str, *, usual_s: float, longest_s: float) -> float:
    """Return the seconds for which an answer may be kept (RFC 9111 sections 4.2 and 5.2.2), at most `longest_s`; 0 if it may not be."""
    directives = [one.strip().lower() for one in cache_control.split(",")]
    if any(one.partition("=")[0] in {"no-store", "no-cache"} for one in directives):
        return 0.0
    ages = [float(found[1]) for one in directives if (found := _MAX_AGE.match(one))]
    if not ages:
        return usual_s
    spent = float(age) if age.isascii() and age.isdigit() and len(age) <= 10 else 0.0
    return max(0.0, min(min(ages) - spent, longest_s))
