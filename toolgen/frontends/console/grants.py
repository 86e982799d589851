"""Grants in the console: what this person may revoke, and revoking it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolgen.frontends.console.http import Visit
from toolgen.frontends.http.request import Rejected, Response
from toolgen.gateway.approvals.grants import grant_json
from toolgen.gateway.approvals.role_grants import role_grant_json
from toolgen.model.result import Error

__all__ = ["agree", "in_force", "revoke", "roles"]

_STATUS = {"forbidden": 403, "not_found": 404, "conflict": 409}


async def in_force(visit: Visit) -> Sequence[dict[str, Any]]:
    """Return the grants that this person may revoke, in the order of their expiry."""
    grants = visit.gateway.tool_calls.approvals.grants
    return [grant_json(one) for one in await grants.listed(visit.person.principal)]


async def roles(visit: Visit) -> Sequence[dict[str, Any]]:
    """Return the temporary roles that are in force or wait for a second person, and that this person may revoke."""
    return [role_grant_json(one) for one in await visit.gateway.role_grants.listed(visit.person.principal)]


async def agree(visit: Visit) -> Response:
    """POST /console/grants/agree: the approval of a role by the second of two people."""
    visit.request.parameters()
    decision = visit.form.get("decision", "")
    if decision not in {"approve", "deny"}:
        raise Rejected(404, "not_found", "there is no request to approve")
    approve = decision == "approve"
    grants, name = visit.gateway.role_grants, visit.form.get("grant", "")
    answer = await grants.decide(name, approve=approve, principal=visit.person.principal)
    return _done(visit, answer, "agreed" if approve else "denied")


async def revoke(visit: Visit) -> Response:
    """POST /console/grants/revoke: ends a grant, for all gateways at once."""
    visit.request.parameters()
    name, who = visit.form.get("grant", ""), visit.person.principal
    if name.startswith("role_"):
        return _done(visit, await visit.gateway.role_grants.end(name, who), "revoked")
    grants = visit.gateway.tool_calls.approvals.grants
    return _done(visit, await grants.end(name, who), "revoked")


def _done(visit: Visit, answer: object, kind: str) -> Response:
    if isinstance(answer, Error):
        raise Rejected(_STATUS[answer.code], answer.code, answer.message)
    return visit.done("/console/approvals", kind, visit.form.get("grant", ""))
