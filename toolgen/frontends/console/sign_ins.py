"""Pages of the sign-ins of people through the gateway, and of the clients that they use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolgen.frontends.console.http import Visit
from toolgen.frontends.http.request import Rejected, Response

if TYPE_CHECKING:
    from toolgen.gateway.sign_in.sign_ins import SignIns

__all__ = ["remove_client", "revoke", "show"]

_MAX_SHOWN = 500


async def show(visit: Visit) -> Response:
    """GET /console/sign-ins: who is signed in with which client, and the clients. No token is shown."""
    done = visit.request.parameters("done").get("done", "")
    known = _sign_ins(visit)
    found = await known.all()
    return visit.page(
        "sign_ins.html",
        at="sign-ins",
        notice=visit.done_notice(done),
        sign_ins=found[:_MAX_SHOWN],
        more=max(0, len(found) - _MAX_SHOWN),
        clients=await known.clients(),
    )


async def revoke(visit: Visit) -> Response:
    """POST /console/sign-ins/revoke: ends a sign-in and its tokens, for every worker."""
    visit.request.parameters()
    known, chosen = _sign_ins(visit), visit.form.get("id", "")
    for grant in await known.all():
        if grant.id == chosen:
            await known.revoke(grant, visit.person.principal.id)
            return visit.done("/console/sign-ins", "revoked", grant.principal)
    raise Rejected(404, "not_found", "this sign-in has ended")


async def remove_client(visit: Visit) -> Response:
    """POST /console/sign-ins/clients/remove: removes a client that registered itself, and ends its sign-ins."""
    visit.request.parameters()
    chosen = visit.form.get("id", "")
    if await _sign_ins(visit).remove_client(chosen, visit.person.principal.id) is None:
        raise Rejected(404, "not_found", "no such client registered itself")
    return visit.done("/console/sign-ins", "removed", chosen)


def _sign_ins(visit: Visit) -> SignIns:
    server = visit.gateway.sign_in
    if server is None:
        raise Rejected(404, "not_found", "people do not sign in through this gateway")
    return server.sign_ins
