"""REST for approvers of waiting calls: GET /v1/approvals, POST /v1/approvals/{id}."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec

from toolgen.core.units import parse_duration
from toolgen.frontends.http.request import Rejected, Request, Response, json_response, read_json_body
from toolgen.frontends.rest.openapi_schemas import DURATION
from toolgen.frontends.rest.tools import DEFAULT_PAGE, decoded, whole
from toolgen.gateway.approvals.decisions import Approvals
from toolgen.gateway.approvals.listing import listed
from toolgen.gateway.approvals.requests import MAX_NOTE_LENGTH
from toolgen.gateway.approvals.terms import DecisionOptions, GrantRequest
from toolgen.model.call import Principal
from toolgen.model.result import Error

__all__ = ["MAX_PAGE", "RestApprovals"]

_APPROVAL = re.compile(r"/v1/approvals/([^/]{1,128})\Z")
_CURSOR = re.compile(r"([0-9]{1,16}\.[0-9]{1,17})_([^/]{1,128})\Z")
MAX_PAGE = 500
_STATUS: Mapping[str, int] = MappingProxyType(
    {"validation": 400, "forbidden": 403, "not_found": 404, "conflict": 409, "expired": 409}
)


class _Remember(msgspec.Struct, forbid_unknown_fields=True):
    for_: Annotated[str, msgspec.Meta(pattern=DURATION)] | None = msgspec.field(name="for", default=None)
    calls: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None
    session: bool = False
    any_arguments: bool = False


class _DecisionBody(msgspec.Struct, forbid_unknown_fields=True):
    decision: Literal["approve", "deny"]
    note: Annotated[str, msgspec.Meta(max_length=MAX_NOTE_LENGTH)] = ""
    arguments: dict[str, Any] | None = None
    digest: Annotated[str, msgspec.Meta(max_length=100)] = ""
    shown: Annotated[str, msgspec.Meta(max_length=100)] = ""
    remember: _Remember | None = None


class RestApprovals:
    """Routes below /v1/approvals."""

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    async def answer(self, request: Request, principal: Principal) -> Response | None:
        """Return the answer to a request for one of these routes; None for any other path."""
        found = _APPROVAL.match(request.path)
        if found is None and request.path != "/v1/approvals":
            return None
        request.take("GET" if found is None else "POST")
        return await (self._list(request, principal) if found is None else self._decide(request, principal, found[1]))

    async def _list(self, request: Request, principal: Principal) -> Response:
        """List the calls this principal may decide about, oldest first, with the exact arguments and the request to be sent, both also as
        rows."""
        query = request.parameters("limit", "cursor")
        limit, after = whole(query, "limit", default=DEFAULT_PAGE, most=MAX_PAGE), _position(query.get("cursor", ""))
        if not self._approvals.may_answer(principal):
            raise Rejected(
                403,
                "forbidden",
                "this principal may not answer for the calls of others",
                suggestion="approvals.approvers in the policy names the roles that may",
            )
        found = [item for item in await self._approvals.answerable(principal) if (item.asked, item.id) > after]
        page = found[:limit]
        result: dict[str, object] = {"approvals": await listed(self._approvals, page)}
        if len(found) > limit:
            result["next_cursor"] = f"{page[-1].asked!r}_{page[-1].id}"
        return json_response(result)

    async def _decide(self, request: Request, principal: Principal, call_id: str) -> Response:
        """Accept an answer: a denial ends the call; an approval counts once, for the call as requested or with other arguments."""
        request.parameters()
        body: _DecisionBody = decoded(await read_json_body(request), _DecisionBody)
        approve = body.decision == "approve"
        remember = None if body.remember is None else _wish(body.remember)
        terms = DecisionOptions(
            arguments=body.arguments, digest=body.digest, shown=body.shown, remember=remember, channel="rest"
        )
        answer = await self._approvals.decide(
            call_id, approve=approve, note=body.note, principal=principal, terms=terms
        )
        if isinstance(answer, Error):
            raise Rejected.of(_STATUS[answer.code], answer)
        grant = {"grant": answer.approval.grant} if answer.approval.grant else {}
        return json_response({"id": answer.id, "decision": body.decision, "status": answer.status, **grant})


def _position(cursor: str) -> tuple[float, str]:
    """Return the time and the id of the last call of the page before; those before all calls if there is none."""
    found = _CURSOR.match(cursor)
    if cursor and found is None:
        raise Rejected(
            404,
            "not_found",
            "the query parameter cursor is not a cursor this gateway gave out",
            suggestion="list from the beginning, without a cursor",
        )
    return (-math.inf, "") if found is None else (float(found[1]), found[2])


def _wish(given: _Remember) -> GrantRequest:
    seconds = None if given.for_ is None else parse_duration(given.for_)
    return GrantRequest(seconds=seconds, calls=given.calls, session=given.session, any_arguments=given.any_arguments)
