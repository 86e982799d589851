"""Pages of pauses: their list, and pausing and resuming, recorded like with the command line."""

from __future__ import annotations

from toolgen.core.errors import ConfigError
from toolgen.frontends.console.http import ActionResult, Visit
from toolgen.frontends.http.request import Response

__all__ = ["pause", "resume", "show"]


_KINDS = ("principal", "source", "tool")


async def show(visit: Visit) -> Response:
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
