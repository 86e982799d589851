"""REST for standing approvals and temporary roles: /v1/grants and /v1/grants/{id}."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec

from toolgen.core.units import parse_duration
from toolgen.frontends.http.request import Rejected, Request, Response, json_response, read_json_body
from toolgen.frontends.rest.openapi_schemas import DURATION, SOME_TEXT
from toolgen.frontends.rest.tools import DEFAULT_PAGE, decoded, whole
from toolgen.gateway.approvals.decisions import Approvals
from toolgen.gateway.approvals.grants import MAX_GRANTS, grant_json
from toolgen.gateway.approvals.role_grants import MAX_REASON_LENGTH, RoleGrants, RoleWish, role_grant_json
from toolgen.model.call import Principal
from toolgen.model.result import Error
from toolgen.state.grants import RoleGrant

__all__ = ["RestGrants"]

_GRANT = re.compile(r"/v1/grants/([^/]{1,128})\Z")
_ROLE = "role_"
_STATUS: Mapping[str, int] = MappingProxyType(
    {"validation": 400, "forbidden": 403, "not_found": 404, "conflict": 409, "rate_limited": 429}
)
_NAME = msgspec.Meta(min_length=1, max_length=256)


class _Wish(msgspec.Struct, forbid_unknown_fields=True):
    role: Annotated[str, _NAME]
    to: Annotated[str, _NAME]
    for_: Annotated[str, msgspec.Meta(pattern=DURATION)] = msgspec.field(name="for")
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_REASON_LENGTH, pattern=SOME_TEXT)]


class _GrantAnswer(msgspec.Struct, forbid_unknown_fields=True):
    decision: Literal["approve", "deny"]


class RestGrants:
    """Routes below /v1/grants."""

    def __init__(self, approvals: Approvals, role_grants: RoleGrants) -> None:
        self._approvals, self._roles = approvals, role_grants

    async def answer(self, request: Request, principal: Principal) -> Response | None:
        """Return the answer to a request for one of these routes; None for any other path."""
        found = _GRANT.match(request.path)
        if found is None and request.path != "/v1/grants":
            return None
        request.take(*(("GET", "POST") if found is None else ("POST", "DELETE")))
        if found is None:
            return await (self._list if request.method == "GET" else self._give)(request, principal)
        return await (self._decide if request.method == "POST" else self._end)(request, principal, found[1])

    async def _list(self, request: Request, principal: Principal) -> Response:
        """List the grants this principal may end, each kind in order of expiry."""
        limit = whole(request.parameters("limit"), "limit", default=DEFAULT_PAGE, most=MAX_GRANTS)
        approvals, roles = self._approvals, self._roles
        found: list[dict[str, Any]] = []
        if approvals.may_answer(principal):
            found += [grant_json(grant) for grant in await approvals.grants.listed(principal)]
        found += [role_grant_json(grant) for grant in await roles.listed(principal)]
        if not found and not approvals.may_answer(principal) and not roles.may_give(principal):
            raise Rejected(
                403,
                "forbidden",
                "this principal may not see what was granted to others",
                suggestion="approvals.approvers and role_grants in the policy name the roles that may",
            )
        return json_response({"grants": found[:limit]})

    async def _give(self, request: Request, principal: Principal) -> Response:
        """Give a temporary role; if it needs two people, it waits for the second."""
        request.parameters()
        body: _Wish = decoded(await read_json_body(request), _Wish)
        seconds = parse_duration(body.for_) or 0.0
        grant_request = RoleWish(role=body.role, to=body.to, seconds=seconds, reason=body.reason)
        return json_response(role_grant_json(_given(await self._roles.ask(grant_request, principal))))

    async def _decide(self, request: Request, principal: Principal, grant_id: str) -> Response:
        """Accept the second person's answer to a role that needs two people."""
        request.parameters()
        body: _GrantAnswer = decoded(await read_json_body(request), _GrantAnswer)
        approve = body.decision == "approve"
        found = _given(await self._roles.decide(grant_id, approve=approve, principal=principal))
        return json_response(role_grant_json(found))

    async def _end(self, request: Request, principal: Principal, grant_id: str) -> Response:
        """End a grant, for all gateways at once."""
        request.parameters()
        grants = self._approvals.grants
        if grant_id.startswith(_ROLE):
            return json_response({"id": _given(await self._roles.end(grant_id, principal)).id, "status": "ended"})
        ended = await grants.end(grant_id, principal)
        if isinstance(ended, Error):
            raise _rejected(ended)
        return json_response({"id": ended.id, "status": "ended"})


def _given(found: RoleGrant | Error) -> RoleGrant:
    if isinstance(found, Error):
        raise _rejected(found)
    return found


def _rejected(error: Error) -> Rejected:
    return Rejected.of(_STATUS[error.code], error)
