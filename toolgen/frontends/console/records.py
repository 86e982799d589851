"""Audit records for the console, read from the index: calls that fit a filter, all entries of a call, and policies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from msgspec import Struct

from toolgen.audit.index.filler import Filler
from toolgen.audit.index.index import PolicyUse, RecordIndex, RuleUse
from toolgen.audit.index.row import RecordFilter
from toolgen.audit.index.sums import HALF_HOUR, RecordedCall
from toolgen.config.settings import Settings
from toolgen.core.clock import Clock
from toolgen.core.errors import AuditError, SecretError
from toolgen.frontends.console.figures import CallTally, Figures, MinuteTallies, figures_of
from toolgen.gateway.audit.reader import index_of

__all__ = ["MAX_COUNTED", "STATUSES", "CallPage", "Filters", "IndexRecords", "Row"]

T = TypeVar("T")
Row = Mapping[str, Any]
STATUSES = ("ok", "refused", "error", "pending", "cancelled", "unfinished")
"""Statuses of calls, in the order of charts."""
_EVER = 1 << 40  # more half hours than any record has
MAX_COUNTED = 1_000_000
"""Maximum number of calls that are counted."""


class Filters(Struct, frozen=True, kw_only=True):
    """Filter for calls; "" and None do not filter. Times are seconds since the epoch, of any entry of a call.
    `text` is looked for in arguments, notes, messages, sessions, clients and codes; `tools` are the names of tools."""

    principal: str = ""
    tool: str = ""
    status: str = ""
    rule: str = ""
    text: str = ""
    session: str = ""
    tools: tuple[str, ...] | None = None
    since: float | None = None
    until: float | None = None


class CallPage(Struct, frozen=True, kw_only=True):
    """Page of calls, the newest first, the cursor of the next page ("" at the end), and the total number of calls, up to `MAX_COUNTED`."""

    rows: tuple[Row, ...]
    cursor: str
    count: int = 0


class IndexRecords:
    """Records read from the index by a single thread. The index is opened for each query, because it may have been rebuilt.

    Methods raise `AuditError` if it cannot be read.
    """

    def __init__(self, settings: Settings, clock: Clock, filler: Filler) -> None:
        self._settings = settings
        self._filler = filler
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="console")
        self._index: RecordIndex | None = None
        self._is_complete = True
        self._minutes = MinuteTallies(self._samples, clock)

    def warnings(self) -> tuple[str, ...]:
        """Return why the records are incomplete, for example because the log is still being indexed."""
        return self._filler.warnings

    async def calls(self, filters: Filters, *, limit: int, cursor: str = "", counted: bool = False) -> CallPage:
        """Return calls that fit. The cursor is the index's own numbers. Raises `ValueError` for an invalid cursor."""
        after = _numbers(cursor) if cursor else None
        wanted = _wanted(filters)

        def read(index: RecordIndex) -> CallPage:
            page = index.calls(wanted, limit=limit, after=after)
            count = index.count_calls(wanted, most=MAX_COUNTED) if counted else 0
            return CallPage(rows=tuple(page.rows), cursor="-".join(map(str, page.next or ())), count=count)

        return await self._run(read)

    async def rules(self, filters: Filters) -> tuple[RuleUse, ...]:
        """Return the number of calls that each rule decided among those that fit, the most used first.

        Calls of half hours, or of all times, that are filtered by their status alone are not read: their sums are.
        """
        since, until = filters.since, filters.until
        first = _half_hour(since) if since is not None else -_EVER
        end = _half_hour(until) if until is not None else _EVER
        if first is None or end is None or filters != Filters(status=filters.status, since=since, until=until):
            return await self._run(lambda index: tuple(index.rules(_wanted(filters))))
        return await self._run(lambda index: tuple(index.rules_between(first, end, filters.status)))

    async def story(self, call_id: str) -> tuple[Row, ...]:
        """Return every entry of a call, in the order of their times."""
        return await self._run(lambda index: tuple(index.story(call_id)))

    async def policies(self) -> tuple[PolicyUse, ...]:
        """Return the policies that decided recorded calls, the one of the latest call first."""
        return await self._run(lambda index: tuple(index.policies()))

    async def pairs(self, *, since: float, most: int) -> tuple[tuple[str, str], ...]:
        """Return principals and the tools that they called since a time, by the newest `most` calls."""
        found = await self.calls(Filters(since=since), limit=most)
        return tuple({(str(row.get("principal") or ""), str(row.get("tool") or "")): None for row in found.rows})

    async def figures(self, *, since: float, until: float, steps: int) -> Figures:
        """Return the figures from `since` up to `until`, in steps of a minute or of some half hours."""

        def read(index: RecordIndex) -> Figures:
            if not self._is_complete:
                return figures_of(since, until, [CallTally() for _ in range(steps)], counted=False)
            first, end = _half_hour(since), _half_hour(until)
            if first is None or end is None or (end - first) % steps:
                return figures_of(since, until, self._minutes.between(since, until))
            each = (end - first) // steps
            parts = [CallTally() for _ in range(steps)]
            for one in index.sums_of_parts(first, each, steps):
                parts[one.part].take(one)
            return figures_of(since, until, parts, index.sums_of_names(first, end))

        return await self._run(read)

    def _samples(self, since: float, until: float) -> Iterable[RecordedCall]:
        if self._index is None:
            raise AuditError("the index of the log is not open")
        return self._index.samples(RecordFilter(since=_micros(since), until=_micros(until)))

    async def _run(self, read: Callable[[RecordIndex], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._work, read)

    def _work(self, read: Callable[[RecordIndex], T]) -> T:
        self._is_complete = self._filler.is_complete()
        try:
            opened = index_of(self._settings)
        except SecretError as error:
            raise AuditError("the password of the index of the log cannot be read") from error
        with opened as index:
            self._index = index
            try:
                return read(index)
            finally:
                self._index = None


def _half_hour(seconds: float) -> int | None:
    """Return the number of the half hour that begins at a time, None if none does."""
    number, left = divmod(round(seconds * 1e6), HALF_HOUR)
    return None if left else number


def _wanted(filters: Filters) -> RecordFilter:
    return RecordFilter(
        principal=filters.principal,
        tool=filters.tool,
        status=filters.status,
        rule=filters.rule,
        words=filters.text,
        session=filters.session,
        tools=filters.tools,
        since=_micros(filters.since),
        until=_micros(filters.until),
        any_entry=True,
    )


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
