"""Calls of servers of 2026-07-28 in rounds: an answer that wants input is a list of requests to the caller, and the call is sent again
with the caller's answers (basic/utilities/mrtr)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from toolgen.connectors.mcp.conversation import Conversation
from toolgen.connectors.mcp.messages import PAGES, failed, harmless
from toolgen.connectors.mcp.request_texts import BadRequestError
from toolgen.connectors.mcp.server_requests import CallTime
from toolgen.model.call import Call
from toolgen.model.client_channel import Unasked
from toolgen.model.result import Failed, Success
from toolgen.model.schema import Json, JsonObject

__all__ = ["answers_to", "call_in_rounds"]

_MAX_ROUNDS: Final = 16
_MAX_REQUESTS: Final = 16
_MAX_KEY_LENGTH: Final = 128
_MAX_STATE_LENGTH: Final = 1024 * 1024


async def call_in_rounds(
    conversation: Conversation, method: str, params: JsonObject, call: Call, time: CallTime
) -> Success | Failed | None:
    """The server's answer, as `Conversation.call` returns it, once it wants no more input."""
    asked = params
    for number in range(_MAX_ROUNDS):
        outcome = await conversation.call(method, asked, call, time)
        if isinstance(outcome, Failed) and isinstance(outcome.data, Mapping) and PAGES in outcome.data:
            return await _after_pages(outcome, outcome.data[PAGES], call)
        wanted = outcome.data if isinstance(outcome, Success) else None
        if not isinstance(wanted, Mapping) or wanted.get("resultType") != "input_required" or not _can_be_asked(call):
            return _forgotten(call) if outcome is None and number else outcome
        answers = await answers_to(wanted.get("inputRequests"), call)
        if isinstance(answers, str):
            return failed("upstream_error", f"the server wants input before it answers, and {answers}")
        state = wanted.get("requestState")
        asked = {**params, "inputResponses": answers} if answers else dict(params)
        if isinstance(state, str) and len(state) <= _MAX_STATE_LENGTH:
            asked["requestState"] = state
    return failed("upstream_error", f"the server wanted input {_MAX_ROUNDS} times and did not answer")


async def _after_pages(refusal: Failed, pages: Json, call: Call) -> Failed:
    """Show the caller the web pages that the server wants visited before the call; what is done there nobody here hears of."""
    refusal = replace(refusal, data=None)
    if not _can_be_asked(call) or not isinstance(pages, list):
        return refusal
    shown: dict[str, Json] = {
        str(number): {"method": "elicitation/create", "params": {**one, "mode": "url"}}
        for number, one in enumerate(pages)
        if isinstance(one, Mapping)
    }
    answers = await answers_to(shown, call)
    if isinstance(answers, str):
        message, advice = f"the server wants a web page visited first, and {answers}", ""
    elif all(isinstance(one, Mapping) and one.get("action") == "accept" for one in answers.values()):
        message = "the server wants something done on a web page first, which the caller was shown"
        advice = "make the call again once the person has done that"
    else:
        message, advice = (
            "the server wants a web page visited first, which the caller did not agree to",
            "ask the person",
        )
    return failed("upstream_error", message, advice, refusal.delivery)


async def answers_to(requests: Json, call: Call) -> JsonObject | str:
    """The caller's answers, by the keys of the requests, or why there are none."""
    if requests is None:
        return {}
    if not isinstance(requests, Mapping) or len(requests) > _MAX_REQUESTS:
        return "its requests are not as MCP has them"
    if any(len(key) > _MAX_KEY_LENGTH for key in requests):
        return "its requests are not as MCP has them"
    found = await asyncio.gather(*(_answer(one, call) for one in requests.values()), return_exceptions=True)
    answers: dict[str, Json] = {}
    for key, answer in zip(requests, found, strict=True):
        match answer:
            case BadRequestError():
                return f"its request cannot be passed on: {answer}"
            case Unasked():
                return f"its caller cannot be asked, or gave no answer{f': {answer}' if str(answer) else ''}"
            case BaseException():
                raise answer
            case _:
                answers[key] = answer
    return answers


async def _answer(one: Json, call: Call) -> Json:
    if not isinstance(one, Mapping):
        raise BadRequestError("it is no request")
    method, params = one.get("method"), one.get("params", {})
    if call.line is None or not isinstance(method, str) or not isinstance(params, Mapping):
        raise BadRequestError("it is no request")
    return await call.line.ask(method, method, params)


def _can_be_asked(call: Call) -> bool:
    return call.line is not None and bool(call.line.capabilities)


def _forgotten(call: Call) -> Failed:
    """The server dropped a call between two of its rounds."""
    if harmless(call, "tools/call"):
        return failed("upstream_error", "the server forgot the call between two requests to its caller", "try again")
    message = "the server forgot the call between two requests to its caller; it may or may not have taken effect"
    return failed("outcome_unknown", message, "find out what happened before trying again")
