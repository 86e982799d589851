"""What is paused, and pausing and resuming: on record as by the command line."""

from __future__ import annotations

from toolgen.console.answers import redirect
from toolgen.console.visit import Visit
from toolgen.errors import ConfigError
from toolgen.gateway.http import Response

__all__ = ["pause", "resume", "show"]

_KINDS = ("principal", "source", "tool")


async def show(visit: Visit) -> Response:
    """GET /console/pauses"""
    visit.request.parameters()
    return _page(visit)


async def pause(visit: Visit) -> Response:
    """POST /console/pauses: calls of a principal, of a source or of tools are refused from now on."""
    visit.request.parameters()
    kind, name, reason = (visit.form.get(field, "").strip() for field in ("kind", "name", "reason"))
    target = {item: name if item == kind else "" for item in _KINDS}
    try:
        wrong = await visit.gateway.pausing.pause(visit.gateway, **target, reason=reason, by=visit.person.principal.id)
    except ConfigError as error:
        return _page(visit, status=400, fault=error.message)
    return _page(visit, fault=wrong) if wrong else redirect("/console/pauses")


async def resume(visit: Visit) -> Response:
    """POST /console/pauses/resume: ends one pause."""
    visit.request.parameters()
    principal, source, tool = (visit.form.get(kind, "") for kind in _KINDS)
    try:
        await visit.gateway.pausing.resume((principal, source, tool), by=visit.person.principal.id)
    except ConfigError as error:
        return _page(visit, status=409, fault=error.message)
    return redirect("/console/pauses")


def _page(visit: Visit, *, status: int = 200, fault: str = "") -> Response:
    return visit.page(
        "pauses.html", at="pauses", status=status, fault=fault, pauses=visit.gateway.pausing.all(), given=visit.form
    )
