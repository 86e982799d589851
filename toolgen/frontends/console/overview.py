"""The first page: what has been called lately, how it went, and what needs somebody.

Charts as the numbers a template draws: bars by status, lines of percentiles, and their axes.

What is paused, and pausing and resuming: on record as by the command line.

Whether the log is what was written: the last verification, the checkpoints, and verifying again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from toolgen.audit.files import segments, stream_names
from toolgen.audit.keys import public_keys
from toolgen.core.errors import AuditError, ConfigError
from toolgen.frontends.console.approvals import waiting_rows
from toolgen.frontends.console.http import ActionResult, Verified, Visit, figure
from toolgen.frontends.console.records import STATUSES, Figures, Filters
from toolgen.frontends.http.request import Response

__all__ = ["SPANS", "Bars", "PercentileLines", "Tick", "bars", "lines", "pause", "resume", "show", "verify"]

WIDTH, HEIGHT = 720.0, 190.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 8.0, 10.0, 24.0
_GAP = 0.22
_TIMES = 6
_PERCENTILES = ("p50", "p95", "p99")


class Tick(Struct, frozen=True, kw_only=True):
    """A mark on an axis: where, and what is written there."""

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
    """Stacked bars, with what is said to somebody who points at one."""

    bars: tuple[_Bar, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


class PercentileLines(Struct, frozen=True, kw_only=True):
    """A line for each percentile, as the `points` of polylines: one for each run of steps that have values."""

    lines: tuple[tuple[str, tuple[str, ...]], ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


def bars(figures: Figures) -> Bars:
    """The calls of each step, stacked by how they ended."""
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
    """A single point is drawn as a short line."""
    if len(run) > 1:
        return run
    x, _, y = run[0].partition(",")
    return f"{float(x) - slot * 0.3:.1f},{y}", f"{float(x) + slot * 0.3:.1f},{y}"


def _up(value: float, top: float) -> float:
    return HEIGHT - _BOTTOM - value / top * (HEIGHT - _TOP - _BOTTOM)


def _nice(most: float) -> float:
    """A round number that is no less, to be the top of an axis: 1, 2 or 5 times a power of ten."""
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


SPANS = {
    "1h": ("hour", 3600.0, 60),
    "24h": ("day", 86_400.0, 48),
    "7d": ("week", 604_800.0, 56),
    "30d": ("month", 2_592_000.0, 60),
}
"""What may be looked at: its name, how many seconds it is, and in how many steps it is shown."""


async def show(visit: Visit) -> Response:
    """GET /console/overview?over=24h"""
    over = visit.request.parameters("over").get("over", "24h")
    over = over if over in SPANS else "24h"
    _, length, steps = SPANS[over]
    step = length / steps
    until = (visit.now // step + 1) * step  # whole steps, so that a reload moves nothing but the newest
    figures = await visit.context.records.figures(since=until - length, until=until, steps=steps)
    refused = await visit.context.records.calls(Filters(status="refused", since=until - length), limit=8)
    refusals = await visit.context.records.rules(Filters(status="refused", since=until - length))
    rows = await waiting_rows(visit)
    return visit.page(
        "overview.html",
        at="overview",
        over=over,
        spans=SPANS,
        figures=figures,
        bars=bars(figures),
        lines=lines(figures),
        statuses=STATUSES,
        refused=refused.rows,
        rows=rows,
        refusals=refusals[:_MAX_REFUSALS],
        oldest=min((row.item.asked for row in rows), default=None),
        verdict=verdict_of(visit.context.verification.last),
        verification=visit.context.verification,
        pauses=visit.gateway.pausing.all(),
    )


_KINDS = ("principal", "source", "tool")


async def show_pauses(visit: Visit) -> Response:
    """GET /console/pauses"""
    given = visit.request.parameters("done")
    return _page(visit, notice=visit.done_notice(given.get("done", "")))


async def pause(visit: Visit) -> Response:
    """POST /console/pauses: calls of a principal, of a source or of tools are refused from now on."""
    visit.request.parameters()
    kind, name, reason = (visit.form.get(field, "").strip() for field in ("kind", "name", "reason"))
    target = {item: name if item == kind else "" for item in _KINDS}
    try:
        wrong = await visit.gateway.pausing.pause(**target, reason=reason, by=visit.person.principal.id)
    except ConfigError as error:
        return _page(
            visit, status=400, notice=ActionResult("Not paused", error.message, kind="bad", field="name", label="Name")
        )
    if wrong:
        return _page(visit, notice=ActionResult("Paused", wrong, kind="bad"))
    return visit.done("/console/pauses", "paused", f"{kind} {name}")


async def resume(visit: Visit) -> Response:
    """POST /console/pauses/resume: ends one pause."""
    visit.request.parameters()
    principal, source, tool = (visit.form.get(kind, "") for kind in _KINDS)
    try:
        await visit.gateway.pausing.resume((principal, source, tool), by=visit.person.principal.id)
    except ConfigError as error:
        return _page(visit, status=409, notice=ActionResult("Not resumed", error.message, kind="bad"))
    return visit.done("/console/pauses", "resumed", principal or source or tool)


def _page(visit: Visit, *, status: int = 200, notice: ActionResult | None = None) -> Response:
    return visit.page(
        "pauses.html",
        at="pauses",
        status=status,
        notice=notice,
        pauses=visit.gateway.pausing.all(),
        given=visit.form,
        names=_names(visit),
    )


def _names(visit: Visit) -> list[str]:
    """Return the names that can be paused."""
    return [
        *visit.gateway.callers.principals,
        *sorted(visit.gateway.manifest.sources),
        *sorted(visit.gateway.manifest.tools),
    ]


class _StreamFigures(Struct, frozen=True, kw_only=True):
    name: str
    files: int
    bytes: int


_MAX_REFUSALS = 8
_WAIT_S = 1.0  # most logs are verified by then, and the page has the result at once


def verdict_of(last: Verified | None) -> str:
    """Return the result of a verification in words."""
    if last is None:
        return "Not verified"
    if last.report is None:
        return "Not readable"
    if not last.report.ok:
        return "Broken"
    return "Intact" if last.report.signed else "Intact, unsigned"


async def show_log(visit: Visit) -> Response:
    """GET /console/record"""
    given = visit.request.parameters("done")
    folder = visit.gateway.settings.audit_dir
    streams, keys = await asyncio.to_thread(_disk, folder)
    last = visit.context.verification.last
    return visit.page(
        "record.html",
        at="record",
        asked=bool(given.get("done")),
        verdict=verdict_of(last),
        verification=visit.context.verification,
        streams=streams,
        keys=keys,
        places=visit.gateway.settings.audit.places,
        folder=str(folder),
    )


async def verify(visit: Visit) -> Response:
    """POST /console/record/verify: begins it."""
    visit.request.parameters()
    visit.context.verification.begin()
    await visit.context.verification.ended(_WAIT_S)
    return visit.done("/console/record", "verified")


def _disk(folder: Path) -> tuple[tuple[_StreamFigures, ...], tuple[str, ...]]:
    """The streams of a log and the public keys beside it; nothing where there is no log yet."""
    try:
        found = []
        for name in stream_names(folder):
            with segments(folder, name) as files:
                sizes = [segment.path.stat().st_size for segment, _ in files]
            found.append(_StreamFigures(name=name, files=len(sizes), bytes=sum(sizes)))
        return tuple(found), tuple(sorted(public_keys((), folder)))
    except (AuditError, OSError):
        return (), ()
