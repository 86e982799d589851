"""Exact serialization of a history: counts, sums as fractions, and its running calls."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import msgspec
from msgspec import Struct

from toolgen.core.errors import StateError
from toolgen.state.history import HistoryEntry, HistoryPage, Number, ToolTally, UsageHistory

__all__ = ["StoredHistory", "encoded", "read"]

_MAX_FLIGHT_S = 24 * 3600.0


class StoredHistory(Struct):
    """History and its running calls, each with a name and its start time. `version` is "" for one that was never written.

    `unsure`: the current stored state is unknown. Until `incomplete_until`, some counted calls are missing.
    """

    ledger: UsageHistory
    version: str = ""
    flying: dict[str, list[tuple[float, HistoryEntry]]] = {}
    incomplete_until: float = 0.0
    changed: bool = False
    unsure: bool = False


class _Tally(msgspec.Struct, array_like=True):
    succeeded: int
    counted: int
    sums: dict[str, str | None]


class _Page(msgspec.Struct, array_like=True):
    time: int
    tallies: dict[str, _Tally]
    labels: dict[str, int]


class _Flight(msgspec.Struct, array_like=True):
    name: str
    began: float
    time: int
    tool: str
    numbers: dict[str, str | None]
    labels: tuple[str, ...]


class _Ledger(msgspec.Struct, array_like=True):
    touched: float
    incomplete_until: float
    pages: list[_Page]
    flights: list[_Flight]


def encoded(kept: StoredHistory, now: float) -> bytes:
    """Return the bytes of the pages that still count."""
    ledger = kept.ledger
    for _ in ledger.pages(now):
        pass  # drops pages that no longer count
    times = {id(page): time for time, page in ledger.by_time.items()}
    return msgspec.msgpack.encode(
        _Ledger(
            touched=ledger.touched,
            incomplete_until=kept.incomplete_until,
            pages=[
                _Page(
                    time,
                    {
                        tool: _Tally(tally.succeeded, tally.counted, _texts(tally.sums))
                        for tool, tally in page.tallies.items()
                    },
                    page.labels,
                )
                for time, page in ledger.by_time.items()
            ],
            flights=[
                _Flight(name, began, times[id(entry.page)], entry.tool, _texts(entry.numbers), entry.labels)
                for name, entries in kept.flying.items()
                for began, entry in entries
                if id(entry.page) in times
            ],
        )
    )


def read(body: bytes, *, windowed: bool, now: float) -> StoredHistory:
    """Decode a stored history. A call whose worker never came back counts as failed. Raises `StateError`."""
    try:
        found = msgspec.msgpack.decode(body, type=_Ledger)
        ledger = UsageHistory(windowed=windowed)
        ledger.touched = found.touched
        for page in found.pages:
            tallies = {
                tool: ToolTally(tally.succeeded, tally.counted, _numbers(tally.sums))
                for tool, tally in page.tallies.items()
            }
            ledger.by_time[page.time] = HistoryPage(tallies, page.labels)
        kept = StoredHistory(ledger=ledger, incomplete_until=found.incomplete_until)
        for flight in found.flights:
            if now - flight.began <= _MAX_FLIGHT_S:
                entry = HistoryEntry(ledger.by_time[flight.time], flight.tool, _numbers(flight.numbers), flight.labels)
                kept.flying.setdefault(flight.name, []).append((flight.began, entry))
                ledger.flying += 1
    except (msgspec.MsgspecError, KeyError, ValueError) as error:
        raise StateError("the stored history of calls is not valid") from error
    return kept


def _texts(numbers: Mapping[str, Number | None]) -> dict[str, str | None]:
    return {name: None if number is None else str(number) for name, number in numbers.items()}


def _numbers(texts: dict[str, str | None]) -> dict[str, Number | None]:
    return {name: None if text is None else _number(text) for name, text in texts.items()}


def _number(text: str) -> Number:
    return Fraction(text) if "/" in text else int(text)
