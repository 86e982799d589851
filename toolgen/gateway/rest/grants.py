"""REST for what people allowed for some time: GET /v1/grants, DELETE /v1/grants/{id}."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from toolgen.errors import AuditError, StateError
from toolgen.gateway.approval_grants import MAX_GRANTS, ApprovalGrants, grant_json
from toolgen.gateway.approvals import Approvals
from toolgen.gateway.asgi.request import Rejected, Request, Response, json_response
from toolgen.gateway.rest.tools import DEFAULT_PAGE, whole
from toolgen.model.call import Principal
from toolgen.model.result import Error

__all__ = ["RestGrants"]

_GRANT = re.compile(r"/v1/grants/([^/]{1,128})\Z")
_STATUS: Mapping[str, int] = MappingProxyType({"forbidden": 403, "not_found": 404})


class RestGrants:
    """The routes below /v1/grants."""

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    async def answer(self, request: Request, principal: Principal) -> Response | None:
        """The answer to a request for one of these routes; None for a path that is another's."""
        found = _GRANT.match(request.path)
        if found is None and request.path != "/v1/grants":
            return None
        request.take("GET" if found is None else "DELETE")
        grants = self._approvals.grants
        if grants is None:
            raise Rejected(404, "not_found", "nothing is granted here")
        try:
            if found is None:
                return await self._list(request, principal, grants)
            return await self._end(request, principal, grants, found[1])
        except StateError:
            message = "grants cannot be read now; the operator's log says why"
            raise Rejected(503, "internal", message) from None
        except AuditError:
            raise Rejected(
                503,
                "audit_unavailable",
                "nothing was changed, because it could not be recorded",
                suggestion="try again once the gateway's audit log works",
            ) from None

    async def _list(self, request: Request, principal: Principal, grants: ApprovalGrants) -> Response:
        """Those that this principal may end, by when they expire."""
        limit = whole(request.parameters("limit"), "limit", default=DEFAULT_PAGE, most=MAX_GRANTS)
        if not self._approvals.may_answer(principal):
            raise Rejected(
                403,
                "forbidden",
                "this principal may not see what was granted to others",
                suggestion="approvals.approvers in the policy names the roles that may",
            )
        found = await grants.listed(principal)
        return json_response({"grants": [grant_json(grant) for grant in found[:limit]]})

    async def _end(self, request: Request, principal: Principal, grants: ApprovalGrants, grant_id: str) -> Response:
        """Ends one, for every gateway at once."""
        request.parameters()
        ended = await grants.end(grant_id, principal)
        if isinstance(ended, Error):
            raise Rejected(_STATUS[ended.code], ended.code, ended.message)
        return json_response({"id": ended.id, "status": "ended"})
