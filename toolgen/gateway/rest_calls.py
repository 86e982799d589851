"""REST for calls that wait: their approvals, their outcomes, and taking them back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec

from toolgen.clock import timestamp
from toolgen.errors import AuditError, StateError
from toolgen.gateway.answers import envelope_json
from toolgen.gateway.approvals import LONGEST_NOTE, MOST_WAITING, Approvals
from toolgen.gateway.http import Rejected, Request, Response, json_response, read_json_body
from toolgen.gateway.rest import DEFAULT_PAGE, decoded, enveloped, whole
from toolgen.model.call import Principal
from toolgen.model.result import Envelope, Error
from toolgen.state.invocations import Invocation

__all__ = ["RestCalls", "approval_json"]

_CALL = re.compile(r"/v1/calls/([^/]{1,128})(/cancel)?\Z")
_APPROVAL = re.compile(r"/v1/approvals/([^/]{1,128})\Z")
_STATUS: Mapping[str, int] = MappingProxyType({"forbidden": 403, "not_found": 404, "conflict": 409, "expired": 409})


class _Decision(msgspec.Struct, forbid_unknown_fields=True):
    decision: Literal["approve", "deny"]
    note: Annotated[str, msgspec.Meta(max_length=LONGEST_NOTE)] = ""


class RestCalls:
    """The routes below /v1/approvals and /v1/calls. A call that is not the caller's own is the same as one that never was."""

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    async def answer(self, request: Request, principal: Principal) -> Response | None:
        """The answer to a request for one of these routes; None for a path that is another's."""
        try:
            if request.path == "/v1/approvals":
                request.take("GET")
                return await self._list(request, principal)
            if found := _APPROVAL.match(request.path):
                request.take("POST")
                return await self._decide(request, principal, found[1])
            if found := _CALL.match(request.path):
                request.take("POST" if found[2] else "GET")
                request.parameters()
                if found[2]:
                    return _withdrawn(_own(await self._approvals.cancel(found[1], principal)))
                return enveloped(_own(await self._approvals.outcome(found[1], principal)))
        except StateError:
            raise Rejected(
                503, "internal", "the calls that wait cannot be read now; the operator's log says why"
            ) from None
        except AuditError:
            raise Rejected(
                503,
                "audit_unavailable",
                "nothing was changed, because it could not be recorded",
                suggestion="try again once the gateway's audit log works",
            ) from None
        return None

    async def _list(self, request: Request, principal: Principal) -> Response:
        """GET /v1/approvals: what this principal may answer for, the oldest first, with the exact arguments."""
        limit = whole(request.parameters("limit"), "limit", default=DEFAULT_PAGE, most=MOST_WAITING)
        if not self._approvals.may_answer(principal):
            raise Rejected(
                403,
                "forbidden",
                "this principal may not answer for the calls of others",
                suggestion="approvals.approvers in the policy names the roles that may",
            )
        found = await self._approvals.answerable(principal)
        return json_response({"approvals": [approval_json(item) for item in found[:limit]]})

    async def _decide(self, request: Request, principal: Principal, call_id: str) -> Response:
        """POST /v1/approvals/{id}: an answer, which counts when it is the first."""
        request.parameters()
        body: _Decision = decoded(await read_json_body(request), _Decision)
        answer = await self._approvals.decide(
            call_id, approve=body.decision == "approve", note=body.note, principal=principal
        )
        if isinstance(answer, Error):
            raise Rejected(_STATUS[answer.code], answer.code, answer.message, suggestion=answer.suggestion)
        return json_response({"id": answer.id, "decision": body.decision, "status": answer.status})


def _own(envelope: Envelope | None) -> Envelope:
    if envelope is None:
        raise Rejected(404, "not_found", "there is no such call of yours that had to wait")
    return envelope


def _withdrawn(envelope: Envelope) -> Response:
    """POST /v1/calls/{id}/cancel: 200 where the call is cancelled, which is what was asked for, and otherwise how it stands."""
    return json_response(envelope_json(envelope)) if envelope.status == "cancelled" else enveloped(envelope)


def approval_json(known: Invocation) -> dict[str, object]:
    """What an approver is shown. Times are RFC 3339."""
    party = known.principal.on_behalf_of
    shown: dict[str, object] = {
        "id": known.id,
        "principal": known.principal.id,
        "on_behalf_of": "" if party is None else party.id,
        "tool": known.tool,
        "effect": known.effect,
        "arguments": known.arguments,
        "sql": known.sql,
        "rule": known.rule,
        "asked": timestamp(known.asked),
        "expires": timestamp(known.expires),
        "session": known.session,
        "client": known.client,
        "parent": known.parent,
    }
    return {name: value for name, value in shown.items() if value != ""}
