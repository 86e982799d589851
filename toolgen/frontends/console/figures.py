"""Figures over a time range for the console: sums of many short steps. Each step is counted once and cached after it is over."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from msgspec import Struct, field

from toolgen.core.clock import Clock

__all__ = ["CallTally", "Figures", "RecordedCall", "TallyCache", "TimeBucket"]


class TimeBucket(Struct, frozen=True, kw_only=True):
    """Calls that began in one step of time: their number by status, and percentiles of their durations in milliseconds."""

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
    """Calls in a time range, by step and in total. `counted` is False while the index lacks too many calls to show numbers."""

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
_MINUTE, _HALF_HOUR = 60.0, 1800.0
_OPEN = ("pending", "unfinished")
_AGAIN_S = 60.0
_MAX_AGAIN = 2
_MAX_STEPS = 5000


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
    """Counts of calls. The sum of two tallies is the tally of all their calls."""

    statuses: Counter[str] = field(default_factory=Counter)
    durations: Counter[int] = field(default_factory=Counter)
    tools: Counter[tuple[str, str]] = field(default_factory=Counter)
    principals: Counter[tuple[str, str]] = field(default_factory=Counter)

    def count(self, call: RecordedCall) -> None:
        """Count one call."""
        status = call.status
        self.statuses[status] += 1
        self.tools[call.tool, status] += 1
        self.principals[call.principal, status] += 1
        if call.duration_ms is not None and status != "pending":  # a call that waits for a person has not ended
            self.durations[round(math.log(max(call.duration_ms, _MIN_MS), _BASE))] += 1

    def add(self, other: CallTally) -> None:
        """Add the counts of another tally."""
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
    """Cache of tallies of minutes and of half hours, which are computed from calls on first use.

    A step is computed again while it is not over; afterwards, if a call in it has not ended, at most once a minute and two such steps at a
    time. `calls` returns the calls that began from one time up to another, in seconds. One thread at a time may use it.
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
        if grain == _HALF_HOUR:  # the newest are sums of their minutes, of which few change
            due = [number for number in due if not self._make_of_minutes(number, now)]
        for start, end in _runs(sorted([*due, *again[:_MAX_AGAIN]])):
            made = {number: CallTally() for number in range(start, end)}
            for call in self._calls(start * grain, end * grain):
                made[min(end - 1, max(start, int(call.time / 1e6 // grain)))].count(call)
            self._steps |= {(grain, number): (tally, now) for number, tally in made.items()}

    def _make_of_minutes(self, number: int, now: float) -> bool:
        """Compute a half hour as the sum of its minutes; returns False if it has been over for long, and its calls are counted instead."""
        if (number + 1) * _HALF_HOUR <= now - 2 * _HALF_HOUR:
            return False
        each = round(_HALF_HOUR / _MINUTE)
        self._make(_MINUTE, range(number * each, (number + 1) * each))
        self._steps[_HALF_HOUR, number] = (self._together(_MINUTE, number * each, each), now)
        return True

    def _together(self, grain: float, first: int, each: int) -> CallTally:
        """Return the sum of some neighbouring steps; it is cached while they do not change."""
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
        return made < ended + 5.0 and now >= made + 1.0  # calls that began at its end may have been recorded later

    def _open(self, grain: float, number: int, now: float) -> bool:
        tally, made = self._steps[grain, number]
        return now >= made + _AGAIN_S and any(tally.statuses[status] for status in _OPEN)


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield sorted numbers as runs of neighbours: the first number, and the one after the last."""
    start = end = None
    for number in numbers:
        if start is None or end != number:
            if start is not None and end is not None:
                yield start, end
            start = number
        end = number + 1
    if start is not None and end is not None:
        yield start, end
