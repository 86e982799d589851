"""The record by its index, brought up to date beside each answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from toolgen.audit.index import Index
from toolgen.audit.index_filler import Filler
from toolgen.audit.index_filter import Filter
from toolgen.clock import Clock
from toolgen.console.figures import Call, Kept
from toolgen.console.records import Figures, Filters, Found, Row
from toolgen.errors import AuditError, SecretError
from toolgen.gateway.project import index_of
from toolgen.settings import Settings

__all__ = ["IndexRecords"]

T = TypeVar("T")


class IndexRecords:
    """One thread asks, and opens the index each time: it may have been made anew."""

    def __init__(self, settings: Settings, clock: Clock, filler: Filler) -> None:
        self._settings = settings
        self._filler = filler
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="console")
        self._index: Index | None = None
        self._kept = Kept(self._samples, clock)

    def warnings(self) -> tuple[str, ...]:
        return self._filler.warnings

    async def calls(self, filters: Filters, *, limit: int, cursor: str = "") -> Found:
        """The cursor is the index's own numbers."""
        after = _numbers(cursor) if cursor else None
        wanted = Filter(
            principal=filters.principal,
            tool=filters.tool,
            status=filters.status,
            rule=filters.rule,
            text=filters.text,
            since=_micros(filters.since),
            until=_micros(filters.until),
        )

        def read(index: Index) -> Found:
            page = index.calls(wanted, limit=limit, after=after)
            return Found(rows=tuple(page.rows), cursor="-".join(map(str, page.next or ())))

        return await self._run(read)

    async def story(self, call_id: str) -> tuple[Row, ...]:
        return await self._run(lambda index: tuple(index.story(call_id)))

    async def figures(self, *, since: float, until: float, steps: int) -> Figures:
        return await self._run(lambda _: self._kept.figures(since, until, steps))

    def _samples(self, since: float, until: float) -> Iterable[Call]:
        if self._index is None:
            raise AuditError("the index of the log is not open")
        return self._index.samples(Filter(since=_micros(since), until=_micros(until)))

    async def _run(self, read: Callable[[Index], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._work, read)

    def _work(self, read: Callable[[Index], T]) -> T:
        self._filler.bring_up()
        try:
            opened = index_of(self._settings)
        except SecretError as error:
            raise AuditError("the password of the index of the log cannot be had") from error
        with opened as index:
            self._index = index
            try:
                return read(index)
            finally:
                self._index = None


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1e6)


def _numbers(cursor: str) -> tuple[int, int]:
    time, _, number = cursor.partition("-")
    if len(cursor) > 40 or not (time.isdecimal() and number.isdecimal()):
        raise ValueError("no cursor of ours")
    found = int(time), int(number)
    if max(found) >= 2**63:
        raise ValueError("no cursor of ours")
    return found
