"""Grants in the console: what this person may revoke, and revoking it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolgen.console.http import Visit, redirect
from toolgen.gateway.approval_grants import grant_json
from toolgen.gateway.asgi.request import Rejected, Response
from toolgen.model.result import Error

__all__ = ["in_force", "revoke"]

_STATUS = {"forbidden": 403, "not_found": 404}


async def in_force(visit: Visit) -> Sequence[dict[str, Any]]:
    """The grants that this person may revoke, by when they expire."""
    grants = visit.gateway.tool_calls.approvals.grants
    return [] if grants is None else [grant_json(one) for one in await grants.listed(visit.person.principal)]


async def revoke(visit: Visit) -> Response:
    """POST /console/grants/revoke: ends one, for every gateway at once."""
    visit.request.parameters()
    grants = visit.gateway.tool_calls.approvals.grants
    if grants is None:
        raise Rejected(404, "not_found", "nothing is granted here")
    ended = await grants.end(visit.form.get("grant", ""), visit.person.principal)
    if isinstance(ended, Error):
        raise Rejected(_STATUS[ended.code], ended.code, ended.message)
    return redirect("/console/approvals")
