"""REST for waiting calls: their outcomes, the answers to their questions, and their withdrawal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from toolgen.frontends.http.request import Rejected, Request, Response, json_response, read_json_body
from toolgen.frontends.mcp.client_channel import answers_question
from toolgen.frontends.rest.tools import decoded, enveloped
from toolgen.gateway.approvals.decisions import Approvals
from toolgen.gateway.calls.json_body import envelope_json
from toolgen.gateway.operations.caller_questions import MAX_QUESTIONS, CallerQuestions
from toolgen.model.call import Principal
from toolgen.model.excerpt import bounded
from toolgen.model.result import Envelope

__all__ = ["RestCalls"]

_CALL = re.compile(r"/v1/calls/([^/]{1,128})(/cancel|/answers)?\Z")
_WAIT_S = 30.0
_MAX_KEY_LENGTH = 256


class _AnswersBody(msgspec.Struct, forbid_unknown_fields=True):
    answers: Annotated[dict[str, dict[str, Any]], msgspec.Meta(min_length=1, max_length=MAX_QUESTIONS)]
    wait: Annotated[float, msgspec.Meta(ge=0, le=300)] = _WAIT_S


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
        match found[2]:
            case "/cancel":
                return _withdrawn(_own(await self._approvals.background.cancel(found[1], principal)))
            case "/answers":
                return await self._answered(request, principal, found[1])
            case _:
                return enveloped(_own(await self._approvals.calls.outcome(found[1], principal, asked=True)))

    async def _answered(self, request: Request, principal: Principal, call_id: str) -> Response:
        """Answer POST /v1/calls/{id}/answers: the end of the call, its next questions, or its state after `wait` seconds."""
        body: _AnswersBody = decoded(await read_json_body(request), _AnswersBody)
        calls = self._approvals.calls
        known = await calls.own(call_id, principal)
        if known is None:
            raise _unknown()
        _check(body.answers, known.questions)
        if not await CallerQuestions(calls).answer(known, body.answers):
            raise _answered_before("")
        return enveloped(_own(await calls.outcome(call_id, principal, body.wait, asked=True)))


def _check(answers: Mapping[str, Mapping[str, Any]], questions: Mapping[str, Any]) -> None:
    """Raise the refusal of an answer that no question waits for, or that does not fit its question."""
    for key, reply in answers.items():
        pointer = f"/answers/{bounded(key, _MAX_KEY_LENGTH).replace('~', '~0').replace('/', '~1')}"
        question = questions.get(key)
        if question is None:
            raise _answered_before(pointer)
        if not answers_question(question["method"], question["params"], reply):
            raise Rejected(400, "validation", f"{pointer}: the answer does not fit its question", pointer=pointer)


def _answered_before(pointer: str) -> Rejected:
    message = "the call does not ask this now: it was answered before, or the call goes on without the answer"
    return Rejected(409, "conflict", message, pointer=pointer, suggestion="GET /v1/calls/{id} has its open questions")


def _unknown() -> Rejected:
    return Rejected(404, "not_found", "there is no such call of yours that had to wait")


def _own(envelope: Envelope | None) -> Envelope:
    if envelope is None:
        raise _unknown()
    return envelope


def _withdrawn(envelope: Envelope) -> Response:
    """Answer POST /v1/calls/{id}/cancel: 200 if the call does not run any more, and otherwise its state."""
    code = "" if envelope.error is None else envelope.error.code
    return json_response(envelope_json(envelope)) if code in {"cancelled", "outcome_unknown"} else enveloped(envelope)
