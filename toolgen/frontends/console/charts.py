"""Charts of the console as the numbers that a template draws: bars by status, lines of percentiles, and their axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct

from toolgen.frontends.console.figures import Figures
from toolgen.frontends.console.records import STATUSES
from toolgen.frontends.console.text_format import figure

__all__ = ["Bars", "PercentileLines", "Tick", "bars", "lines"]


WIDTH, HEIGHT = 720.0, 190.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 8.0, 10.0, 24.0
_GAP = 0.22
_TIMES = 6
_PERCENTILES = ("p50", "p95", "p99")


class Tick(Struct, frozen=True, kw_only=True):
    """Mark on an axis: its position and its label."""

    at: float
    label: str


class _Bar(Struct, frozen=True, kw_only=True):
    x: float
    y: float
    width: float
    height: float
    status: str
    label: str


class Bars(Struct, frozen=True, kw_only=True):
    """Stacked bars, each with the label that is shown while the pointer is on it."""

    bars: tuple[_Bar, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


class PercentileLines(Struct, frozen=True, kw_only=True):
    """Line for each percentile, as the `points` of polylines: one for each run of steps with values."""

    lines: tuple[tuple[str, tuple[str, ...]], ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


def bars(figures: Figures) -> Bars:
    """Return the bars of the calls in each step, stacked by outcome."""
    top = _nice(max((bucket.total for bucket in figures.buckets), default=0))
    slot = (WIDTH - _LEFT - _RIGHT) / len(figures.buckets)
    found = []
    for index, bucket in enumerate(figures.buckets):
        level = 0
        for status in STATUSES:
            count = bucket.counts.get(status, 0)
            if not count:
                continue
            level += count
            found.append(
                _Bar(
                    x=round(_LEFT + slot * (index + _GAP / 2), 2),
                    y=round(_up(level, top), 2),
                    width=round(slot * (1 - _GAP), 2),
                    height=round(_up(level - count, top) - _up(level, top), 2),
                    status=status,
                    label=f"{_label(bucket.start, figures)}: {count} {status}",
                )
            )
    return Bars(bars=tuple(found), across=_across(figures), up=_scale(top, ""))


def lines(figures: Figures) -> PercentileLines:
    """Durations of calls."""
    values = [getattr(bucket, name) for bucket in figures.buckets for name in _PERCENTILES]
    top = _nice(max((value for value in values if value is not None), default=0))
    slot = (WIDTH - _LEFT - _RIGHT) / len(figures.buckets)
    drawn = []
    for name in _PERCENTILES:
        runs: list[list[str]] = [[]]
        for index, bucket in enumerate(figures.buckets):
            value = getattr(bucket, name)
            if value is None:
                runs.append([])
            else:
                runs[-1].append(f"{_LEFT + slot * (index + 0.5):.1f},{_up(value, top):.1f}")
        drawn.append((name, tuple(" ".join(_visible(run, slot)) for run in runs if run)))
    return PercentileLines(lines=tuple(drawn), across=_across(figures), up=_scale(top, " ms"))


def _visible(run: Sequence[str], slot: float) -> Sequence[str]:
    """Return the points of a line; a single point becomes a short line."""
    if len(run) > 1:
        return run
    x, _, y = run[0].partition(",")
    return f"{float(x) - slot * 0.3:.1f},{y}", f"{float(x) + slot * 0.3:.1f},{y}"


def _up(value: float, top: float) -> float:
    return HEIGHT - _BOTTOM - value / top * (HEIGHT - _TOP - _BOTTOM)


def _nice(most: float) -> float:
    """Return the next round number for the top of an axis, at least `most`: 1, 2 or 5 times a power of ten."""
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= most)


def _scale(top: float, unit: str) -> tuple[Tick, ...]:
    return tuple(
        Tick(at=round(_up(top * part, top), 1), label=f"{figure(top * part)}{unit if part else ''}")
        for part in (0, 0.5, 1)
    )


def _across(figures: Figures) -> tuple[Tick, ...]:
    every = max(1, math.ceil(len(figures.buckets) / _TIMES))
    slot = (WIDTH - _LEFT - _RIGHT) / len(figures.buckets)
    return tuple(
        Tick(at=round(_LEFT + slot * (index + 0.5), 1), label=_label(figures.buckets[index].start, figures))
        for index in range(every // 2, len(figures.buckets), every)
    )


def _label(start: float, figures: Figures) -> str:
    form = "%H:%M" if figures.until - figures.since <= 86_400 else "%m-%d %H:%M" if figures.step < 86_400 else "%m-%d"
    return datetime.fromtimestamp(start, UTC).strftime(form)
