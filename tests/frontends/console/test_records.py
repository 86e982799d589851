"""Figures added up out of steps: what they come to, and which calls are asked for again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from toolgen.core.clock import FixedClock
from toolgen.frontends.console.figures import TallyCache

DAY = 86_400.0


@dataclass
class Made:
    time: int
    status: str = "ok"
    principal: str = "bot"
    tool: str = "t"
    duration_ms: float | None = 10.0


@dataclass
class Log:
    """Calls, and for which times somebody asked."""

    calls: list[Made]
    asked: list[tuple[float, float]]

    def between(self, since: float, until: float) -> Iterable[Made]:
        self.asked.append((since, until))
        return [call for call in self.calls if since * 1e6 <= call.time < until * 1e6]


def at(seconds: float, status: str = "ok", **rest: object) -> Made:
    return Made(int(seconds * 1e6), status, **rest)  # type: ignore[arg-type]


def test_steps_add_up_to_the_whole_and_percentiles_are_within_two_percent() -> None:
    clock = FixedClock(10 * DAY)
    log = Log([at(9 * DAY + number * 60, duration_ms=float(number + 1)) for number in range(1000)], [])
    figures = TallyCache(log.between, clock).figures(9 * DAY, 10 * DAY, 48)
    assert sum(bucket.total for bucket in figures.buckets) == figures.whole.total == 1000
    assert figures.whole.p50 == pytest.approx(500, rel=0.02)
    assert figures.whole.p99 == pytest.approx(990, rel=0.02)
    assert [share.total for share in figures.tools] == [1000]


def test_a_month_and_a_day_say_the_same_of_the_same_calls() -> None:
    clock = FixedClock(60 * DAY)
    log = Log([at(59.5 * DAY, "refused"), at(59.6 * DAY, "error"), at(59.7 * DAY, "pending", duration_ms=4.0)], [])
    kept = TallyCache(log.between, clock)
    for days, steps in ((1, 48), (30, 60)):
        figures = kept.figures((60 - days) * DAY, 60 * DAY, steps)
        assert figures.whole.counts == {"refused": 1, "error": 1, "pending": 1}
        assert (figures.tools[0].refused, figures.tools[0].failed) == (1, 1)
        assert figures.whole.p99 == pytest.approx(10, rel=0.02)  # what waits for a person has not ended


def test_steps_that_are_over_are_not_asked_for_again() -> None:
    clock = FixedClock(10 * DAY + 10)
    log = Log([at(9.5 * DAY)], [])
    kept = TallyCache(log.between, clock)
    kept.figures(9 * DAY, 10 * DAY + 1800, 49)
    assert min(since for since, _ in log.asked) == 9 * DAY
    log.asked.clear()
    clock.advance(20)
    log.calls.append(at(10 * DAY + 20))
    figures = kept.figures(9 * DAY, 10 * DAY + 1800, 49)
    assert figures.whole.total == 2
    assert log.asked == [(10 * DAY, 10 * DAY + 1800)]


def test_a_call_that_ends_late_is_counted_as_it_ended() -> None:
    clock = FixedClock(10 * DAY)
    log = Log([at(9.5 * DAY, "pending")], [])
    kept = TallyCache(log.between, clock)
    assert kept.figures(9 * DAY, 10 * DAY, 48).whole.counts == {"pending": 1}
    log.calls[0].status = "ok"
    clock.advance(61)
    assert kept.figures(9 * DAY, 10 * DAY, 48).whole.counts == {"ok": 1}
    asked = len(log.asked)
    clock.advance(61)
    kept.figures(9 * DAY, 10 * DAY, 48)
    assert len(log.asked) == asked
