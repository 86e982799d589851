"""History of calls by session and by principal: counts and sums without contents, bounded, with a mark for forgotten entries."""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from fractions import Fraction
from types import MappingProxyType
from typing import TypeAlias

import msgspec
from msgspec import Struct, field

from toolgen.core.clock import Clock

__all__ = [
    "BloomFilter",
    "Histories",
    "HistoryEntry",
    "HistoryPage",
    "HistoryView",
    "Number",
    "ToolTally",
    "UsageHistory",
    "exact",
]

_HOUR = 3600
_WINDOW_HOURS = 24
_IDLE = 24 * 3600.0
_FILTER_BITS = 1 << 19
_NO_TIME = 0
Number: TypeAlias = int | Fraction
"""Exact number; integers, which are most common, are added faster than fractions."""
_NO_NUMBERS: Mapping[str, Number | None] = MappingProxyType({})


class ToolTally(Struct):
    """Calls of one tool: successful ones, those with a possible effect, and the sums of their numbers over the latter."""

    succeeded: int = 0
    counted: int = 0
    sums: dict[str, Number | None] = {}


class HistoryPage(Struct):
    """Tallies of one period by tool, and the number of calls that set each label."""

    tallies: dict[str, ToolTally] = {}
    labels: dict[str, int] = {}


class HistoryEntry(msgspec.Struct, frozen=True):
    """Count of a call in a page of the history; it is subtracted again if the call was never made."""

    page: HistoryPage
    tool: str
    numbers: Mapping[str, Number | None]
    labels: tuple[str, ...]


class UsageHistory:
    """Calls of one session, or of one principal in the last 24 hours, with the precision of an hour."""

    __slots__ = ("_windowed", "by_time", "flying", "touched")

    def __init__(self, *, windowed: bool) -> None:  # the only difference between the two kinds
        self.by_time: dict[int, HistoryPage] = {}
        self._windowed = windowed
        self.flying = 0
        self.touched = 0.0

    def begin(
        self, now: float, tool: str, numbers: Mapping[str, Number | None], labels: tuple[str, ...]
    ) -> HistoryEntry:
        """Count a call that is about to start."""
        page = self.by_time.setdefault(int(now // _HOUR) if self._windowed else _NO_TIME, HistoryPage())
        tally = page.tallies.setdefault(tool, ToolTally())
        tally.counted += 1
        for name, number in numbers.items():
            held = tally.sums.get(name, 0)
            tally.sums[name] = None if held is None or number is None else held + number
        for label in labels:
            page.labels[label] = page.labels.get(label, 0) + 1
        self.flying += 1
        self.touched = now
        return HistoryEntry(page, tool, numbers, labels)

    def end(self, entry: HistoryEntry, outcome: str) -> None:
        """Record the outcome of a call: `ok`, `failed` (it may have had an effect), or `none` for one that never started. `later` is
        `ok` for a call that was counted as `failed` because it had no answer yet.
        """
        self.flying -= 1
        tally = entry.page.tallies[entry.tool]
        if outcome == "ok":
            tally.succeeded += 1
        elif outcome == "later":
            tally.succeeded += 1
            tally.counted -= 1
        elif outcome == "none":
            tally.counted -= 1
            for name, number in entry.numbers.items():
                held = tally.sums.get(name)
                if held is not None and number is not None:
                    tally.sums[name] = held - number
            for label in entry.labels:
                entry.page.labels[label] -= 1

    def label(self, now: float, labels: Iterable[str]) -> None:
        """Set labels that stay whatever the outcome of a call."""
        page = self.by_time.setdefault(int(now // _HOUR) if self._windowed else _NO_TIME, HistoryPage())
        for label in labels:
            page.labels[label] = page.labels.get(label, 0) + 1
        self.touched = now

    def pages(self, now: float) -> Iterator[HistoryPage]:
        """Return the pages that still count; older ones are dropped."""
        if self._windowed:
            oldest = int(now // _HOUR) - _WINDOW_HOURS
            for hour in [hour for hour in self.by_time if hour < oldest]:
                del self.by_time[hour]
        yield from self.by_time.values()


class HistoryView(msgspec.Struct, frozen=True):
    """History for conditions. Without a history there are no earlier calls; with `forgotten` every query raises `LookupError`."""

    ledger: UsageHistory | None
    now: float
    forgotten: bool = False

    def labels(self) -> list[str]:
        if self.ledger is None and not self.forgotten:
            return []
        return sorted({label for page in self._pages() for label, count in page.labels.items() if count > 0})

    def called(self, tools: str) -> int:
        return sum(tally.succeeded for tally in self._tallies(tools))

    def count(self, tools: str) -> int:
        return sum(tally.counted for tally in self._tallies(tools))

    def sum(self, tools: str, argument: str) -> int | float:
        total: Number = 0
        for tally in self._tallies(tools):
            held = tally.sums.get(argument, 0)
            if held is None:
                raise LookupError(argument)
            total += held
        return total.numerator if total.denominator == 1 else float(total)

    def _tallies(self, tools: str) -> Iterator[ToolTally]:
        for page in self._pages():
            for name, tally in page.tallies.items():
                if fnmatchcase(name, tools):
                    yield tally

    def _pages(self) -> Iterator[HistoryPage]:
        if self.forgotten:
            raise LookupError("forgotten")
        return iter(()) if self.ledger is None else self.ledger.pages(self.now)


class _PrincipalHistories(Struct):
    """Histories of one principal: of all its calls, and of its latest sessions."""

    whole: UsageHistory = field(default_factory=lambda: UsageHistory(windowed=True))
    sessions: OrderedDict[str, UsageHistory] = field(default_factory=OrderedDict)
    forgotten: BloomFilter | None = None


class Histories:
    """Histories of all principals. A session belongs to one principal: others cannot write to it, read it or evict it.

    `most_sessions` sessions per principal and `most_principals` principals are kept, the most recently used; an evicted entry, or one
    without use for a day, is marked as forgotten, and a query about it raises `LookupError` instead of returning nothing.
    """

    shared = False

    def __init__(self, clock: Clock, *, most_sessions: int = 1_000, most_principals: int = 10_000) -> None:
        self._clock = clock
        self._most_sessions, self._most_principals = most_sessions, most_principals
        self._shelves: OrderedDict[str, _PrincipalHistories] = OrderedDict()
        self._forgotten: BloomFilter | None = None
        self._flying: dict[str, list[tuple[UsageHistory, HistoryEntry]]] = {}

    def views(self, principal: str, session: str) -> tuple[HistoryView, HistoryView]:
        """Return the views for conditions: the session's and the principal's. Without a session id the session's view is empty."""
        now = self._clock.now()
        histories = self._shelves.get(principal)
        gone = self._forgotten is not None and principal in self._forgotten
        if histories is None:
            return HistoryView(None, now, forgotten=gone and session != ""), HistoryView(None, now, forgotten=gone)
        whole = HistoryView(histories.whole, now, forgotten=gone)
        if not session:
            return HistoryView(None, now), whole
        ledger = histories.sessions.get(session)
        if ledger is not None and ledger.flying == 0 and now - ledger.touched > _IDLE:
            self._forget(histories, session)
            ledger = None
        return HistoryView(
            ledger, now, forgotten=gone or (histories.forgotten is not None and session in histories.forgotten)
        ), whole

    def begin(
        self, call: str, principal: str, session: str, tool: str, numbers: Mapping[str, object], labels: Iterable[str]
    ) -> None:
        """Count a call before it starts; once more for each further tool inside it. `numbers` are its numeric arguments."""
        now = self._clock.now()
        histories = self._histories_of(principal)
        told: Mapping[str, Number | None] = _NO_NUMBERS
        if numbers:
            counted: dict[str, Number | None] = {}
            for name, value in numbers.items():
                counted[name] = value if type(value) is int else exact(value)
            told = counted
        ledgers = [histories.whole, *([self._session(histories, session)] if session else [])]
        entries = self._flying.setdefault(call, [])
        for ledger in ledgers:
            entries.append((ledger, ledger.begin(now, tool, told, tuple(labels))))

    def label(self, principal: str, session: str, labels: Iterable[str]) -> None:
        """Set labels of a principal, and of its session, for data found in an answer."""
        histories, told = self._histories_of(principal), tuple(labels)
        for ledger in (histories.whole, *([self._session(histories, session)] if session else [])):
            ledger.label(self._clock.now(), told)

    def flies(self, call: str) -> bool:
        """Return True if a call has started and its outcome is not recorded yet."""
        return call in self._flying

    def end(self, call: str, outcome: str) -> None:
        """Record the outcome of a call and all calls inside it, as `UsageHistory.end` does."""
        for ledger, entry in self._flying.pop(call, ()):
            ledger.end(entry, outcome)

    def _histories_of(self, principal: str) -> _PrincipalHistories:
        histories = self._shelves.get(principal)
        if histories is None:
            histories = self._shelves[principal] = _PrincipalHistories()
            if len(self._shelves) > self._most_principals:
                idle = next(
                    (name for name, one in self._shelves.items() if one.whole.flying == 0 and one is not histories),
                    None,
                )
                if idle is not None:
                    del self._shelves[idle]
                    self._forgotten = self._forgotten or BloomFilter()
                    self._forgotten.add(idle)
        self._shelves.move_to_end(principal)
        return histories

    def _session(self, histories: _PrincipalHistories, session: str) -> UsageHistory:
        ledger = histories.sessions.get(session)
        if ledger is None:
            ledger = histories.sessions[session] = UsageHistory(windowed=False)
            if len(histories.sessions) > self._most_sessions:
                idle = next(
                    (name for name, one in histories.sessions.items() if one.flying == 0 and one is not ledger), None
                )
                if idle is not None:
                    self._forget(histories, idle)
        histories.sessions.move_to_end(session)
        return ledger

    def _forget(self, histories: _PrincipalHistories, session: str) -> None:
        del histories.sessions[session]
        histories.forgotten = histories.forgotten or BloomFilter()
        histories.forgotten.add(session)


class BloomFilter:
    """Bloom filter of fixed size: it finds every added name, and rarely reports one that was not added, which fails closed."""

    __slots__ = ("_bits", "_key")

    def __init__(self) -> None:
        self._bits = bytearray(_FILTER_BITS // 8)
        self._key = secrets.token_bytes(16)

    def add(self, name: str) -> None:
        for bit in self._places(name):
            self._bits[bit >> 3] |= 1 << (bit & 7)

    def __contains__(self, name: str) -> bool:
        return all(self._bits[bit >> 3] >> (bit & 7) & 1 for bit in self._places(name))

    def _places(self, name: str) -> list[int]:
        digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16, key=self._key).digest()
        return [int.from_bytes(digest[at : at + 4]) % _FILTER_BITS for at in range(0, 16, 4)]


def exact(value: object) -> Number | None:
    """Return a number exactly, or None for any other value: its sum is then unknown."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value - value != 0:
        return None
    return int(value) if value == int(value) else Fraction(value)
