"""Calls that wait for an answer, and answering: what is shown is exactly what an answer is bound to."""

from __future__ import annotations

from toolgen.console.calls import rule_of
from toolgen.console.visit import Visit
from toolgen.gateway.approvals import LONGEST_NOTE
from toolgen.gateway.http import Rejected, Response
from toolgen.model.result import Error
from toolgen.state.invocations import Invocation

__all__ = ["answer", "listed", "one"]

_STATUS = {"forbidden": 403, "not_found": 404, "conflict": 409, "expired": 409}


async def listed(visit: Visit) -> Response:
    """GET /console/approvals"""
    done = visit.request.parameters("done").get("done", "")
    waiting = await visit.gateway.approvals.answerable(visit.person.principal)
    return visit.page(
        "approvals.html", at="approvals", waiting=waiting, done=done if done in {"approve", "deny"} else ""
    )


async def one(visit: Visit) -> Response:
    """GET /console/approvals/ID"""
    visit.request.parameters()
    return await _shown(visit, await _waiting(visit))


async def answer(visit: Visit) -> Response:
    """POST /console/approvals/ID: an answer, which counts when it is the first, and for the digest that was on the page."""
    visit.request.parameters()
    known = await _waiting(visit)
    decision, note = visit.form.get("decision", ""), visit.form.get("note", "").strip()
    if visit.form.get("digest") != known.digest or decision not in {"approve", "deny"}:
        raise Rejected(409, "conflict", "this is not the call that was on your page", suggestion="look at it again")
    if len(note) > LONGEST_NOTE:
        return await _shown(visit, known, fault=f"The note has more than {LONGEST_NOTE} characters.", note=note)
    told = await visit.gateway.approvals.decide(
        known.id, approve=decision == "approve", note=note, principal=visit.person.principal
    )
    if isinstance(told, Error):
        raise Rejected(_STATUS.get(told.code, 409), told.code, told.message, suggestion=told.suggestion)
    return visit.page("answered.html", at="approvals", known=known, decision=decision)


async def _waiting(visit: Visit) -> Invocation:
    """The call of the path, when this person may answer for it; otherwise the same as none at all."""
    found = await visit.gateway.approvals.answerable(visit.person.principal)
    known = next((item for item in found if item.id == visit.part), None)
    if known is None:
        raise Rejected(
            404,
            "not_found",
            "no call with this id waits for your answer",
            suggestion="it may be answered, expired or taken back by now",
        )
    return known


async def _shown(visit: Visit, known: Invocation, *, fault: str = "", note: str = "") -> Response:
    return visit.page(
        "approval.html",
        at="approvals",
        status=400 if fault else 200,
        known=known,
        tool=visit.gateway.manifest.tools.get(known.tool),
        rule=rule_of(visit, known.rule),
        longest_note=LONGEST_NOTE,
        fault=fault,
        note=note,
    )
