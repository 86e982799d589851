"""The first page: what has been called lately, how it went, and what needs somebody."""

from __future__ import annotations

from toolgen.console.charts import bars, lines
from toolgen.console.records import STATUSES, Filters
from toolgen.console.visit import Visit
from toolgen.gateway.http import Response

__all__ = ["SPANS", "show"]

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
    figures = await visit.backstage.records.figures(since=until - length, until=until, steps=steps)
    refused = await visit.backstage.records.calls(Filters(status="refused", since=until - length), limit=8)
    waiting = await visit.gateway.approvals.answerable(visit.person.principal)
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
        waiting=waiting,
        verification=visit.backstage.verification,
        pauses=visit.gateway.pausing.all(),
    )
