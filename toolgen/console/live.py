"""The newest calls as they come: a page that anybody can reload, and the same rows as Server-Sent Events for its script."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress

from toolgen.console.records import Filters, Records
from toolgen.console.request import Visit
from toolgen.console.responses import render
from toolgen.errors import AuditError, StateError
from toolgen.gateway.asgi.request import Rejected, Response, Stream

__all__ = ["Live", "show"]

_ROWS = 50
_LOOK_S = 1.0
_QUIET_LOOKS = 10
_MAX_LOOKS = 300  # after which the browser asks again, as it does by itself
_MAX_EACH = 4
_MAX_OPEN = 64


async def show(visit: Visit) -> Response:
    """GET /console/live"""
    visit.request.parameters()
    found = await visit.backstage.records.calls(Filters(), limit=_ROWS)
    return visit.page("live.html", at="live", rows=found.rows)


class Live:
    """Looks once a second for everybody who watches, while anybody does."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._open: Counter[str] = Counter()
        self._rows = b""
        self._news = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._closed = False

    def events(self, visit: Visit) -> Stream:
        """The rows, at once and whenever they change. Raises `Rejected` where too many watch."""
        visit.request.parameters()
        who = visit.person.principal.id
        if self._open[who] >= _MAX_EACH or self._open.total() >= _MAX_OPEN:
            raise Rejected(429, "rate_limited", "too many live pages are open", suggestion="close some of them")
        return Stream(events=self._watched(visit, who))

    def end(self) -> None:
        """Ends every stream: the gateway goes."""
        self._closed = True
        self._tell(self._rows)

    async def close(self) -> None:
        """Looks no more."""
        self.end()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait((self._looking,))

    async def _watched(self, visit: Visit, who: str) -> AsyncIterator[bytes]:
        self._open[who] += 1
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            async for event in self._events(visit):
                yield event
        finally:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]

    async def _events(self, visit: Visit) -> AsyncIterator[bytes]:
        """Ends within a second once the session has, or its roles open this page no more."""
        told, quiet = b"", 0
        for _ in range(_MAX_LOOKS):
            if self._closed or visit.request.presence.left() or not await _welcome(visit):
                return
            news = self._news
            if self._rows != told:
                told, quiet = self._rows, 0
                yield told
            elif (quiet := quiet + 1) % _QUIET_LOOKS == 0:
                yield b": still here\n\n"
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await news.wait()

    async def _look(self) -> None:
        while self._open and not self._closed:
            with suppress(AuditError):  # the page says by itself that nothing new comes
                found = await self._records.calls(Filters(), limit=_ROWS)
                rows = _event(render("live_rows.html", rows=found.rows))
                if rows != self._rows:
                    self._tell(rows)
            await asyncio.sleep(_LOOK_S)

    def _tell(self, rows: bytes) -> None:
        self._rows = rows
        news, self._news = self._news, asyncio.Event()
        news.set()


async def _welcome(visit: Visit) -> bool:
    try:
        person = await visit.again()
    except StateError:
        return False
    return person is not None and person.viewer


def _event(text: str) -> bytes:
    """One event, whose lines each begin as its data (WHATWG HTML, section 9.2.6)."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines() if line.strip())
    return f"event: rows\n{lines}\n".encode("utf-8", "replace")
