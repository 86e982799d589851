"""Audit records for the console: calls that fit a filter, all entries of a call, figures over a time range, and policies.

Figures are sums of many short steps. Each step is counted once and cached after it is over.

Calls come from the index of the audit log, which a filler updates while the console answers.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from msgspec import Struct, field

from toolgen.audit.index.filler import Filler
from toolgen.audit.index.index import PolicyUse, RecordIndex, RuleUse
from toolgen.audit.index.row import RecordFilter
from toolgen.config.settings import Settings
from toolgen.core.clock import Clock
from toolgen.core.errors import AuditError, SecretError
from toolgen.gateway.audit.reader import index_of

__all__ = [
    "MAX_COUNTED",
    "STATUSES",
    "CallPage",
    "CallTally",
    "Figures",
    "Filters",
    "IndexRecords",
    "RecordedCall",
    "Row",
    "TallyCache",
    "TimeBucket",
]

Row = Mapping[str, Any]
STATUSES = ("ok", "refused", "error", "pending", "cancelled", "unfinished")
"""How a call stands, in the order charts have them."""
MAX_COUNTED = 1_000_000
"""Calls that are counted at most."""


class Filters(Struct, frozen=True, kw_only=True):
    """Which calls are looked for; "" and None leave a thing open. Times are seconds since the epoch, of any entry of a call.
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
    """A page of calls, the newest first, where the next one begins ("" at the end), and how many there are in all, up to `MAX_COUNTED`."""

    rows: tuple[Row, ...]
    cursor: str
    count: int = 0


class TimeBucket(Struct, frozen=True, kw_only=True):
    """The calls that began in one step of time: how many by status, and how long they took, in milliseconds."""

    start: float
    counts: Mapping[str, int]
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None

    @property
    def total(self) -> int:
        return sum(self.counts.values())


class Share(Struct, frozen=True, kw_only=True):
    """Number of calls of a tool or a principal, and of those that did not succeed."""

    name: str
    total: int
    refused: int
    failed: int


class Figures(Struct, frozen=True, kw_only=True):
    """The calls of a time, step by step and altogether. `counted` is False while the index lacks too many of them to count any."""

    since: float
    until: float
    step: float
    buckets: tuple[TimeBucket, ...]
    whole: TimeBucket
    tools: tuple[Share, ...]
    principals: tuple[Share, ...]
    every_tool: tuple[Share, ...] = ()
    counted: bool = True


_MAX_SHARES = 8
_BASE = 1.02  # durations are kept to two percent, so that two steps can be added up
_MIN_MS = 0.01
_OPEN = ("pending", "unfinished")
_AGAIN_S = 60.0
_MAX_AGAIN = 2
_MAX_STEPS = 5000
_MINUTE, _HALF_HOUR = 60.0, 1800.0


class RecordedCall(Protocol):
    """Fields of a call that figures are made of. `time` is in microseconds since the epoch."""

    @property
    def time(self) -> int: ...
    @property
    def principal(self) -> str: ...
    @property
    def tool(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def duration_ms(self) -> float | None: ...


class CallTally(Struct):
    """Calls, counted. Two tallies add up to that of all their calls."""

    statuses: Counter[str] = field(default_factory=Counter)
    durations: Counter[int] = field(default_factory=Counter)
    tools: Counter[tuple[str, str]] = field(default_factory=Counter)
    principals: Counter[tuple[str, str]] = field(default_factory=Counter)

    def count(self, call: RecordedCall) -> None:
        """Counts one call."""
        status = call.status
        self.statuses[status] += 1
        self.tools[call.tool, status] += 1
        self.principals[call.principal, status] += 1
        if call.duration_ms is not None and status != "pending":  # one that waits for a person has not ended
            self.durations[round(math.log(max(call.duration_ms, _MIN_MS), _BASE))] += 1

    def add(self, other: CallTally) -> None:
        """Counts the calls of another tally too."""
        self.statuses.update(other.statuses)
        self.durations.update(other.durations)
        self.tools.update(other.tools)
        self.principals.update(other.principals)

    def bucket(self, start: float) -> TimeBucket:
        """Return the tally as a step of a chart."""
        return TimeBucket(
            start=start,
            counts=dict(self.statuses),
            p50=self._percentile(50),
            p95=self._percentile(95),
            p99=self._percentile(99),
        )

    def _percentile(self, percent: float) -> float | None:
        rank, seen = math.ceil(self.durations.total() * percent / 100), 0
        for power in sorted(self.durations):
            seen += self.durations[power]
            if seen >= rank:
                return _BASE**power
        return None


def _shares(counts: Counter[tuple[str, str]], length: int = _MAX_SHARES) -> tuple[Share, ...]:
    names: dict[str, Counter[str]] = {}
    for (name, status), count in counts.items():
        names.setdefault(name, Counter())[status] += count
    most = sorted(names.items(), key=lambda item: (-item[1].total(), item[0]))[:length]
    return tuple(
        Share(name=name, total=found.total(), refused=found["refused"] + found["cancelled"], failed=found["error"])
        for name, found in most
    )


class TallyCache:
    """Tallies of minutes and of half hours, made of calls when they are first asked for.

    A step is made again while it is not over; where a call in it has not ended, at most once a minute and two such steps at a time.
    `calls` is asked for those that began from one time up to another, in seconds. One thread at a time may use it.
    """

    def __init__(self, calls: Callable[[float, float], Iterable[RecordedCall]], clock: Clock) -> None:
        self._calls = calls
        self._clock = clock
        self._steps: dict[tuple[float, int], tuple[CallTally, float]] = {}
        self._sums: dict[tuple[float, int, int], tuple[list[CallTally], CallTally]] = {}

    def figures(self, since: float, until: float, steps: int, *, counted: bool = True) -> Figures:
        """Return the figures from `since` up to `until`, which are multiples of a step's length."""
        if len(self._steps) > _MAX_STEPS:
            self._steps.clear()
            self._sums.clear()
        step = (until - since) / steps
        grain = _HALF_HOUR if step % _HALF_HOUR == 0 else _MINUTE
        first, each = round(since / grain), max(1, round(step / grain))
        self._make(grain, range(first, first + each * steps))
        whole, buckets = CallTally(), []
        for index in range(steps):
            tally = self._together(grain, first + index * each, each)
            buckets.append(tally.bucket(since + index * step))
            whole.add(tally)
        return Figures(
            since=since,
            until=until,
            step=step,
            buckets=tuple(buckets),
            whole=whole.bucket(since),
            tools=_shares(whole.tools),
            principals=_shares(whole.principals),
            every_tool=_shares(whole.tools, len(whole.tools)),
            counted=counted,
        )

    def _make(self, grain: float, wanted: range) -> None:
        now = self._clock.now()
        due = [number for number in wanted if self._due(grain, number, now)]
        again = [number for number in wanted if number not in due and self._open(grain, number, now)]
        again.sort(key=lambda number: self._steps[grain, number][1])
        if grain == _HALF_HOUR:  # the newest are made of their minutes, of which few change
            due = [number for number in due if not self._make_of_minutes(number, now)]
        for start, end in _runs(sorted([*due, *again[:_MAX_AGAIN]])):
            made = {number: CallTally() for number in range(start, end)}
            for call in self._calls(start * grain, end * grain):
                made[min(end - 1, max(start, int(call.time / 1e6 // grain)))].count(call)
            self._steps |= {(grain, number): (tally, now) for number, tally in made.items()}

    def _make_of_minutes(self, number: int, now: float) -> bool:
        """Makes a half hour of its minutes; False where it is long over, and simply counted."""
        if (number + 1) * _HALF_HOUR <= now - 2 * _HALF_HOUR:
            return False
        each = round(_HALF_HOUR / _MINUTE)
        self._make(_MINUTE, range(number * each, (number + 1) * each))
        self._steps[_HALF_HOUR, number] = (self._together(_MINUTE, number * each, each), now)
        return True

    def _together(self, grain: float, first: int, each: int) -> CallTally:
        """The sum of some neighbouring steps, which is kept while they stay what they are."""
        steps = [self._steps[grain, number][0] for number in range(first, first + each)]
        if each == 1:
            return steps[0]
        known = self._sums.get((grain, first, each))
        if known is not None and all(one is other for one, other in zip(known[0], steps, strict=True)):
            return known[1]
        total = CallTally()
        for tally in steps:
            total.add(tally)
        self._sums[grain, first, each] = (steps, total)
        return total

    def _due(self, grain: float, number: int, now: float) -> bool:
        known = self._steps.get((grain, number))
        if known is None:
            return True
        _, made = known
        ended = (number + 1) * grain
        return made < ended + 5.0 and now >= made + 1.0  # what began at its end was perhaps not on record yet

    def _open(self, grain: float, number: int, now: float) -> bool:
        tally, made = self._steps[grain, number]
        return now >= made + _AGAIN_S and any(tally.statuses[status] for status in _OPEN)


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Numbers in their order as runs of neighbours, each from a number up to another."""
    start = end = None
    for number in numbers:
        if start is None or end != number:
            if start is not None and end is not None:
                yield start, end
            start = number
        end = number + 1
    if start is not None and end is not None:
        yield start, end


T = TypeVar("T")


class IndexRecords:
    """Records read from the index by a single thread. The index is opened for each query, because it may have been rebuilt.

    Methods raise `AuditError` if it cannot be read.
    """

    def __init__(self, settings: Settings, clock: Clock, filler: Filler) -> None:
        self._settings = settings
        self._filler = filler
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="console")
        self._index: RecordIndex | None = None
        self._clock = clock
        self._is_complete = True
        self._kept = TallyCache(self._samples, clock)

    def warnings(self) -> tuple[str, ...]:
        """Return why the records are incomplete, for example because the log is still being indexed."""
        return self._filler.warnings

    async def calls(self, filters: Filters, *, limit: int, cursor: str = "", counted: bool = False) -> CallPage:
        """Return calls that fit. The cursor is the index's own numbers. Raises `ValueError` for a cursor that is none."""
        after = _numbers(cursor) if cursor else None
        wanted = _wanted(filters)

        def read(index: RecordIndex) -> CallPage:
            page = index.calls(wanted, limit=limit, after=after)
            count = index.count_calls(wanted, most=MAX_COUNTED) if counted else 0
            return CallPage(rows=tuple(page.rows), cursor="-".join(map(str, page.next or ())), count=count)

        return await self._run(read)

    async def rules(self, filters: Filters) -> tuple[RuleUse, ...]:
        """Return the number of calls that each rule decided among those that fit, the most used first."""
        return await self._run(lambda index: tuple(index.rules(_wanted(filters))))

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
        """Return the figures from `since` up to `until`."""

        def read(_: RecordIndex) -> Figures:
            if self._is_complete:
                return self._kept.figures(since, until, steps)
            return TallyCache(lambda *_: (), self._clock).figures(since, until, steps, counted=False)

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
            raise AuditError("the password of the index of the log cannot be had") from error
        with opened as index:
            self._index = index
            try:
                return read(index)
            finally:
                self._index = None


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
