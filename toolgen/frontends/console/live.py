"""Live list of the newest calls: one query a second for all viewers together, and none without viewers.

A viewer may filter by tool, principal or outcome; viewers with the same filter share the results.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from urllib.parse import urlencode

from msgspec import Struct, field

from toolgen.core.background import cancel
from toolgen.core.errors import AuditError, StateError
from toolgen.frontends.console.calls import filters_of, known_names
from toolgen.frontends.console.http import Visit
from toolgen.frontends.console.records import STATUSES, Filters, IndexRecords
from toolgen.frontends.console.rendering import render
from toolgen.frontends.http.mount_path import mount_path, mounted_at
from toolgen.frontends.http.request import EventStream, Rejected, Response

__all__ = ["Live", "newest"]

# A text is not a filter here: it would be searched in every entry, every second.
_FIELDS = ("principal", "tool", "status")
_ROWS = 50
_LOOK_S = 1.0
_QUIET_LOOKS = 10
_MAX_LOOKS = 300  # maximum queries of a stream; then the browser connects again automatically
_MAX_EACH = 4
_MAX_OPEN = 64


async def newest(visit: Visit) -> Response:
    """GET /console/live"""
    given = visit.request.parameters(*_FIELDS)
    found = await visit.context.records.calls(filters_of(given), limit=_ROWS)
    kept = urlencode({name: value for name, value in given.items() if value})
    return visit.page(
        "live.html",
        at="live",
        rows=found.rows,
        given=given,
        statuses=STATUSES,
        known=known_names(visit),
        filtered=bool(kept),
        events=f"/console/live/events{'?' if kept else ''}{kept}",
    )


class _Watched(Struct):
    """Latest rows of a query and the event of their next change, shared by all clients with that query."""

    rows: bytes = b""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    open: int = 0

    def tell(self, rows: bytes) -> None:
        self.rows = rows
        news, self.news = self.news, asyncio.Event()
        news.set()


class Live:
    """Source of the live list: one query a second for all viewers, while there are any."""

    def __init__(self, records: IndexRecords) -> None:
        self._records = records
        self._open: Counter[str] = Counter()
        self._watched: dict[tuple[Filters, str], _Watched] = {}  # as many as there are streams, at most
        self._looking: asyncio.Task[None] | None = None
        self._closed = False

    def events(self, visit: Visit) -> EventStream:
        """Return a stream of the rows: at once, and after every change. Raises `Rejected` if too many pages are open."""
        filters = filters_of(visit.request.parameters(*_FIELDS))
        who = visit.person.principal.id
        if self._open[who] >= _MAX_EACH or self._open.total() >= _MAX_OPEN:
            raise Rejected(429, "rate_limited", "too many live pages are open", suggestion="close some of them")
        return EventStream(events=self._listened(visit, who, filters))

    def end(self) -> None:
        """End every stream, because the gateway stops."""
        self._closed = True
        for watched in self._watched.values():
            watched.tell(watched.rows)

    async def close(self) -> None:
        """End the streams and the queries."""
        self.end()
        if self._looking is not None:
            await cancel(self._looking)

    async def _listened(self, visit: Visit, who: str, filters: Filters) -> AsyncIterator[bytes]:
        self._open[who] += 1
        key = filters, mount_path()
        watched = self._watched.setdefault(key, _Watched())
        watched.open += 1
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            async for event in self._events(visit, watched):
                yield event
        finally:
            watched.open -= 1
            if not watched.open:
                del self._watched[key]
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]

    async def _events(self, visit: Visit, watched: _Watched) -> AsyncIterator[bytes]:
        """Yield events; the stream ends within a second after the session, or after its roles do not open this page any more."""
        told, quiet = b"", 0
        for _ in range(_MAX_LOOKS):
            if self._closed or visit.request.caller_connection.disconnected() or not await _welcome(visit):
                return
            news = watched.news
            if watched.rows != told:
                told, quiet = watched.rows, 0
                yield told
            elif (quiet := quiet + 1) % _QUIET_LOOKS == 0:
                yield b": still here\n\n"
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await news.wait()

    async def _look(self) -> None:
        while self._open and not self._closed:
            for (filters, path), watched in tuple(self._watched.items()):
                with suppress(AuditError):  # the page itself shows that no new data comes
                    found = await self._records.calls(filters, limit=_ROWS)
                    with mounted_at(path):
                        rows = _event(render("live_rows.html", rows=found.rows, filtered=filters != Filters()))
                    if rows != watched.rows:
                        watched.tell(rows)
            await asyncio.sleep(_LOOK_S)


async def _welcome(visit: Visit) -> bool:
    try:
        person = await visit.again()
    except StateError:
        return False
    return person is not None and person.viewer


def _event(text: str) -> bytes:
    """Return a server-sent event; each line of the text is a `data` line (WHATWG HTML, section 9.2.6)."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines() if line.strip())
    return f"event: rows\n{lines}\n".encode("utf-8", "replace")
