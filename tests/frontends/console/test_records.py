"""Figures of a time range: from the calls of minutes, which of them are read again, and from the sums of half hours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.projects import make_project
from toolgen.audit.config import AuditPlan
from toolgen.audit.index.filler import Filler
from toolgen.audit.log import AuditLog
from toolgen.config.settings import load
from toolgen.core.clock import FixedClock
from toolgen.frontends.console.figures import Figures, MinuteTallies, figures_of
from toolgen.frontends.console.records import IndexRecords
from toolgen.gateway.audit.reader import index_of

HOUR = 3_600.0
DAY = 24 * HOUR


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


def hour(minutes: MinuteTallies, until: float) -> Figures:
    return figures_of(until - HOUR, until, minutes.between(until - HOUR, until))


def test_minutes_add_up_to_the_whole_and_percentiles_are_within_two_percent() -> None:
    log = Log([at(9 * DAY + number * 3.6, duration_ms=float(number + 1)) for number in range(1000)], [])
    figures = hour(MinuteTallies(log.between, FixedClock(10 * DAY)), 9 * DAY + HOUR)
    assert len(figures.buckets) == 60
    assert sum(bucket.total for bucket in figures.buckets) == figures.whole.total == 1000
    assert figures.whole.p50 == pytest.approx(500, rel=0.02)
    assert figures.whole.p99 == pytest.approx(990, rel=0.02)
    assert [share.total for share in figures.tools] == [1000]


def test_minutes_that_are_over_are_not_read_again() -> None:
    clock = FixedClock(10 * DAY + 10)
    log = Log([at(10 * DAY - 600)], [])
    minutes = MinuteTallies(log.between, clock)
    hour(minutes, 10 * DAY + 60)
    assert min(since for since, _ in log.asked) == 10 * DAY + 60 - HOUR
    log.asked.clear()
    clock.advance(20)
    log.calls.append(at(10 * DAY + 20))
    assert hour(minutes, 10 * DAY + 60).whole.total == 2
    assert log.asked == [(10 * DAY, 10 * DAY + 60)]


def test_a_call_that_ends_late_is_counted_as_it_ended() -> None:
    clock = FixedClock(10 * DAY)
    log = Log([at(10 * DAY - 600, "pending")], [])
    minutes = MinuteTallies(log.between, clock)
    assert hour(minutes, 10 * DAY).whole.counts == {"pending": 1}
    log.calls[0].status = "ok"
    clock.advance(61)
    assert hour(minutes, 10 * DAY).whole.counts == {"ok": 1}
    asked = len(log.asked)
    clock.advance(61)
    hour(minutes, 10 * DAY)
    assert len(log.asked) == asked


async def test_an_hour_a_day_and_a_month_say_the_same_of_the_same_calls(tmp_path: Path) -> None:
    settings = load(make_project(tmp_path / "project"))
    until = 1_000_080_000.0  # a multiple of 12 hours
    clock = FixedClock(until - 1500)
    log = AuditLog(settings.audit_dir, clock, AuditPlan())
    log.open()
    for number, status in enumerate(["refused", "error", "pending", "ok"]):
        who = {"call_id": f"call_{number}", "principal": "bot", "tool": "t"}
        await log.append({"event": "intent", **who})
        if status != "ok":
            await log.append({"event": "outcome", **who, "status": status, "duration_ms": 10.0 * (number + 1)})
        clock.advance(60)
    await log.close()
    records = IndexRecords(settings, clock, Filler(lambda: index_of(settings), settings.audit_dir))
    for over, steps in ((HOUR, 60), (DAY, 48), (7 * DAY, 56), (30 * DAY, 60)):
        figures = await records.figures(since=until - over, until=until, steps=steps)
        assert figures.counted
        assert len(figures.buckets) == steps
        assert figures.whole.counts == {"refused": 1, "error": 1, "pending": 1, "unfinished": 1}
        assert figures.tools == figures.every_tool
        assert [(one.total, one.refused, one.failed) for one in figures.tools] == [(4, 1, 1)]
        assert [one.name for one in figures.principals] == ["bot"]
        assert figures.whole.p99 == pytest.approx(20, rel=0.02)  # what waits for a person has not ended
