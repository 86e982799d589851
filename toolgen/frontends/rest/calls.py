"""REST for waiting calls: their outcomes, and their withdrawal."""

from __future__ import annotations

import re

from toolgen.frontends.http.request import Rejected, Request, Response, json_response
from toolgen.frontends.rest.tools import enveloped
from toolgen.gateway.approvals.decisions import Approvals
from toolgen.gateway.calls.json_body import envelope_json
from toolgen.model.call import Principal
from toolgen.model.result import Envelope

__all__ = ["RestCalls"]

_CALL = re.compile(r"/v1/calls/([^/]{1,128})(/cancel)?\Z")


class RestCalls:
    """Routes below /v1/calls. A call of another caller is treated like one that does not exist."""

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    async def answer(self, request: Request, principal: Principal) -> Response | None:
        """Return the answer to a request for one of these routes; None for any other path."""
        found = _CALL.match(request.path)
        if found is None:
            return None
        request.take("POST" if found[2] else "GET")
        request.parameters()
        if found[2]:
            return _withdrawn(_own(await self._approvals.background.cancel(found[1], principal)))
        return enveloped(_own(await self._approvals.calls.outcome(found[1], principal)))


def _own(envelope: Envelope | None) -> Envelope:
    if envelope is None:
        raise Rejected(404, "not_found", "there is no such call of yours that had to wait")
    return envelope


def _withdrawn(envelope: Envelope) -> Response:
    """Answer POST /v1/calls/{id}/cancel: 200 if the call does not run any more, and otherwise its state."""
    code = "" if envelope.error is None else envelope.error.code
    return json_response(envelope_json(envelope)) if code in {"cancelled", "outcome_unknown"} else enveloped(envelope)
