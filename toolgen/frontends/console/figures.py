"""Figures over a time range for the console: from sums of half hours, which the index has, or from the calls of each minute."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from toolgen.audit.index.sums import RecordedCall, Sum, duration_class, duration_of
from toolgen.core.clock import Clock

__all__ = ["CallTally", "Figures", "MinuteTallies", "TimeBucket", "figures_of"]


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
_MINUTE = 60.0
_OPEN = ("pending", "unfinished")
_AGAIN_S = 60.0
_MAX_AGAIN = 2
_MAX_MINUTES = 5000


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
            self.durations[duration_class(call.duration_ms)] += 1

    def take(self, one: Sum) -> None:
        """Add a sum of the index."""
        match one.kind:
            case "status":
                self.statuses[one.status] += one.calls
            case "duration":
                self.durations[int(one.name)] += one.calls
            case "tool":
                self.tools[one.name, one.status] += one.calls
            case "principal":
                self.principals[one.name, one.status] += one.calls

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
        for number in sorted(self.durations):
            seen += self.durations[number]
            if seen >= rank:
                return duration_of(number)
        return None


def figures_of(
    since: float, until: float, parts: Sequence[CallTally], names: Iterable[Sum] = (), *, counted: bool = True
) -> Figures:
    """Return the figures of a time range in equal parts. `names` are the sums of tools and principals that the parts do not have."""
    step = (until - since) / len(parts)
    whole = CallTally()
    for tally in parts:
        whole.add(tally)
    for one in names:
        whole.take(one)
    return Figures(
        since=since,
        until=until,
        step=step,
        buckets=tuple(tally.bucket(since + number * step) for number, tally in enumerate(parts)),
        whole=whole.bucket(since),
        tools=_shares(whole.tools),
        principals=_shares(whole.principals),
        every_tool=_shares(whole.tools, len(whole.tools)),
        counted=counted,
    )


def _shares(counts: Counter[tuple[str, str]], length: int = _MAX_SHARES) -> tuple[Share, ...]:
    names: dict[str, Counter[str]] = {}
    for (name, status), count in counts.items():
        names.setdefault(name, Counter())[status] += count
    most = sorted(names.items(), key=lambda item: (-item[1].total(), item[0]))[:length]
    return tuple(
        Share(name=name, total=found.total(), refused=found["refused"] + found["cancelled"], failed=found["error"])
        for name, found in most
    )


class MinuteTallies:
    """Cache of the tallies of minutes, which are computed from calls on first use.

    A minute is computed again while it is not over; afterwards, if a call in it has not ended, at most once a minute and two such minutes
    at a time. `calls` returns the calls that began from one time up to another, in seconds. One thread at a time may use it.
    """

    def __init__(self, calls: Callable[[float, float], Iterable[RecordedCall]], clock: Clock) -> None:
        self._calls = calls
        self._clock = clock
        self._minutes: dict[int, tuple[CallTally, float]] = {}

    def between(self, since: float, until: float) -> list[CallTally]:
        """Return the tally of each minute from `since` up to `until`, which are multiples of a minute."""
        if len(self._minutes) > _MAX_MINUTES:
            self._minutes.clear()
        wanted = range(round(since / _MINUTE), round(until / _MINUTE))
        now = self._clock.now()
        due = [number for number in wanted if self._is_due(number, now)]
        again = [number for number in wanted if number not in due and self._is_open(number, now)]
        again.sort(key=lambda number: self._minutes[number][1])
        for start, end in _runs(sorted([*due, *again[:_MAX_AGAIN]])):
            made = {number: CallTally() for number in range(start, end)}
            for call in self._calls(start * _MINUTE, end * _MINUTE):
                made[min(end - 1, max(start, int(call.time / 1e6 // _MINUTE)))].count(call)
            self._minutes |= {number: (tally, now) for number, tally in made.items()}
        return [self._minutes[number][0] for number in wanted]

    def _is_due(self, number: int, now: float) -> bool:
        known = self._minutes.get(number)
        if known is None:
            return True
        _, made = known
        ended = (number + 1) * _MINUTE
        return made < ended + 5.0 and now >= made + 1.0  # calls that began at its end may have been recorded later

    def _is_open(self, number: int, now: float) -> bool:
        tally, made = self._minutes[number]
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
