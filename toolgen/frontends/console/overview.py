"""Overview page of the console: recent calls, how they ended, and what needs a person."""

from __future__ import annotations

from toolgen.frontends.console.approvals import waiting_rows
from toolgen.frontends.console.charts import bars, lines
from toolgen.frontends.console.http import Visit
from toolgen.frontends.console.log_verification import verdict_of
from toolgen.frontends.console.records import STATUSES, Filters
from toolgen.frontends.http.request import Response

__all__ = ["SPANS", "show"]


_MAX_REFUSALS = 8
SPANS = {
    "1h": ("hour", 3600.0, 60),
    "24h": ("day", 86_400.0, 48),
    "7d": ("week", 604_800.0, 56),
    "30d": ("month", 2_592_000.0, 60),
}
"""Time ranges of the page: name, seconds, and number of steps."""


async def show(visit: Visit) -> Response:
    """GET /console/overview?over=24h"""
    over = visit.request.parameters("over").get("over", "24h")
    over = over if over in SPANS else "24h"
    _, length, steps = SPANS[over]
    step = length / steps
    until = (visit.now // step + 1) * step  # whole steps, so that a reload changes only the newest
    figures = await visit.context.records.figures(since=until - length, until=until, steps=steps)
    refused = await visit.context.records.calls(Filters(status="refused", since=until - length), limit=8)
    refusals = await visit.context.records.rules(Filters(status="refused", since=until - length, until=until))
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
