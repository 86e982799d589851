"""REST routes of tools and calls (docs/reference/rest-routes.md): each is a function from a checked request to a complete answer."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any

import msgspec

from toolgen.core.spelling import nearest
from toolgen.frontends.http.request import (
    FileResponse,
    Rejected,
    Request,
    Response,
    agreed_key,
    header_key,
    json_response,
    read_json_body,
    retry_after,
)
from toolgen.frontends.mcp.client_channel import BridgedChannel
from toolgen.frontends.rest.tool_call_batches import MAX_NAME_LENGTH, BatchCall, batch
from toolgen.gateway.calls.answer_files import HeldFile, KeptFile
from toolgen.gateway.calls.json_body import Malformed, decode, encode, envelope_json, identifier, unmade
from toolgen.gateway.catalog.search_tools import DEFAULT_HITS
from toolgen.gateway.catalog.tool_lists import LISTED, WITH_BINDINGS, Listings, for_agents
from toolgen.gateway.operations.caller_questions import CallerQuestions
from toolgen.gateway.protocol import Facade
from toolgen.model.call import Principal, with_account
from toolgen.model.caller_requests import REQUEST_KINDS, RequestKind
from toolgen.model.result import Envelope, Error
from toolgen.model.stored_schemas import complete
from toolgen.model.tool import Tool
from toolgen.model.waiting import GET_CALL_RESULT
from toolgen.pipeline.middleware import CallerConnection

__all__ = ["STATUS_OF_CODE", "Rest", "decoded", "enveloped", "status_of", "whole"]

MAX_PAGE = 1000
DEFAULT_PAGE = 100
MAX_FOUND = 1000
_MAX_CLIENT_LENGTH = 120
_APPROVAL_WAIT_S = 30.0
_MAX_WAIT_S = 300.0
_SECONDS = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,6})?\Z")
_MEDIA_TYPE = re.compile(
    r"(?:image/(?:png|jpeg|gif|webp)|application/(?:pdf|zip|gzip|octet-stream)|audio/[a-z0-9.+-]+|video/[a-z0-9.+-]+)\Z"
)

STATUS_OF_CODE: Mapping[str, int] = MappingProxyType(
    {
        "unknown_tool": 404,
        "not_found": 404,
        "validation": 400,
        "forbidden": 403,
        "rate_limited": 429,
        "turn_limit": 429,
        "sql_refused": 403,
        "sql_failed": 400,
        "egress_refused": 403,
        "approval_required": 202,
        "input_required": 202,
        "deferred": 202,
        "authorization_required": 202,
        "approval_denied": 403,
        "cancelled": 403,
        "expired": 403,
        "upstream_error": 502,
        "rejected": 422,
        "upstream_timeout": 504,
        "upstream_unavailable": 503,
        "response_too_large": 502,
        "outcome_unknown": 502,
        "handler_error": 500,
        "middleware_failed": 503,
        "outside_catalog": 403,
        "result_withheld": 403,
        "step_failed": 502,
        "code_failed": 400,
        "internal": 500,
        "paused": 503,
        "secret_unavailable": 503,
        "audit_unavailable": 503,
    }
)
"""HTTP status of each error code (docs/reference/errors.md)."""

_STATUS_OF_STATUS: Mapping[str, int] = MappingProxyType(
    {"ok": 200, "pending": 202, "refused": 403, "cancelled": 403, "error": 500}
)


class _CallBody(msgspec.Struct, forbid_unknown_fields=True):
    arguments: dict[str, Any] = {}
    wait: Annotated[float, msgspec.Meta(ge=0, le=300)] | None = None
    account: Annotated[str, msgspec.Meta(pattern="^[a-z0-9][a-z0-9_-]{0,31}$")] | None = None
    idempotency_key: Annotated[str, msgspec.Meta(min_length=1, max_length=128)] = ""
    may_ask: list[RequestKind] = []


def status_of(envelope: Envelope) -> int:
    """Return the HTTP status of an envelope; an unknown code gets the status of the call's outcome, never that of success."""
    if envelope.status == "ok":
        return 200
    if envelope.error is not None and envelope.error.code in STATUS_OF_CODE:
        status = STATUS_OF_CODE[envelope.error.code]
        return 403 if status == 202 and envelope.status != "pending" else status
    return _STATUS_OF_STATUS.get(envelope.status, 500)


class Rest:
    """Routes below /v1. Every method gets a verified principal and raises `Rejected` for a bad request."""

    def __init__(self, gateway: Facade, listings: Listings) -> None:
        self._gateway = gateway
        self._listings = listings

    async def call(self, request: Request, principal: Principal, name: str) -> Response:
        """Answer POST /v1/tools/{name}/call: the envelope, with the status of its outcome."""
        if request.query:
            request.parameters()
        body: _CallBody = decoded(await read_json_body(request), _CallBody)
        if len(name) > MAX_NAME_LENGTH:
            raise Rejected(404, "unknown_tool", "there is no such tool")
        calls, session = self._gateway.tool_calls, conversation_of(request)
        if body.account is not None:
            principal = with_account(principal, body.account)
        asked = self._asks(request.caller_connection, body.may_ask) if body.may_ask else None
        making = calls.call(
            name,
            body.arguments,
            principal=principal,
            session=session,
            client=client_of(request),
            idempotency_key=agreed_key(request, body.idempotency_key, "/idempotency_key"),
            caller_connection=request.caller_connection,
        )
        background, began = calls.approvals.background, asyncio.get_running_loop().time()
        if body.wait is not None:
            until = began + body.wait
            envelope = await background.call(
                name, making, caller=principal, wait=body.wait, caller_connection=request.caller_connection, leave=asked
            )
        elif (after := calls.pending_after(principal, name, body.arguments, session)) is not None or asked:
            after = math.inf if after is None else after
            envelope = await background.left_after(
                making, wait=after, caller_connection=request.caller_connection, leave=asked
            )
            begin = asyncio.get_running_loop().time() if after == math.inf else began
            until = begin + min(after, _APPROVAL_WAIT_S)
        else:
            envelope = await making
            until = asyncio.get_running_loop().time() + _APPROVAL_WAIT_S
        if _is_awaited(envelope) and name != GET_CALL_RESULT:
            left = until - asyncio.get_running_loop().time()
            envelope = await calls.approvals.calls.outcome(envelope.call_id, principal, left, asked=True) or envelope
        return enveloped(envelope)

    def _asks(self, connection: CallerConnection, kinds: Sequence[RequestKind]) -> asyncio.Event:
        """Let the call of a connection ask its caller these kinds of questions. The first one sets the event, which leaves the call."""
        questions = CallerQuestions(self._gateway.tool_calls.approvals.calls)
        line = BridgedChannel(connection, questions, frozenset(kinds), None, returns=True)
        connection.line, connection.returns = line, True
        return line.asked

    async def tool_calls(self, request: Request, principal: Principal) -> Response:
        """Answer POST /v1/tool_calls: the tool calls of one turn of a model, run at once; answers in the same order, each in its form."""
        query = request.parameters("wait", "may_ask")
        wait, kinds = _seconds(query), _kinds(query.get("may_ask", ""))
        data = await read_json_body(request)
        try:
            calls = batch(data)
        except Malformed as error:
            raise malformed(error) from None
        made = partial(
            self._gateway.tool_calls.call,
            principal=principal,
            session=conversation_of(request),
            client=client_of(request),
        )
        key = header_key(request)
        # One header for many calls: each gets a separate key, which cannot be a key of a single call, because it contains a space.
        keys = [f"{key} {number}" if key else "" for number in range(len(calls))]
        making = partial(self._left, made, principal, conversation_of(request), wait, kinds=kinds)
        # Each call may continue if the client disconnects, so each has a separate connection object.
        with request.caller_connection.several(len(calls)) as presences:
            answers = [
                _of_batch(call, key, partial(making, caller_connection))
                for call, key, caller_connection in zip(calls, keys, presences, strict=True)
            ]
            envelopes = await asyncio.gather(*answers)
        return json_response([call.answered(envelope) for call, envelope in zip(calls, envelopes, strict=True)])

    async def _left(  # noqa: PLR0913 - a call of a batch, and how long it is waited for
        self,
        made: Callable[..., Coroutine[Any, Any, Envelope]],
        principal: Principal,
        session: str,
        wait: float | None,
        caller_connection: CallerConnection,
        name: str,
        arguments: Mapping[str, Any],
        *,
        kinds: Sequence[RequestKind],
        idempotency_key: str,
    ) -> Envelope:
        """Return the outcome of a call, or its state after `wait` seconds; without `wait`, after the time set by the policy or the
        gateway. A call that may ask its caller is left with its first question."""
        calls = self._gateway.tool_calls
        approvals, began = calls.approvals, asyncio.get_running_loop().time()
        asked = self._asks(caller_connection, kinds) if kinds else None
        making = made(name, arguments, idempotency_key=idempotency_key, caller_connection=caller_connection)
        if wait is not None:
            envelope = await approvals.background.call(
                name, making, caller=principal, wait=wait, caller_connection=caller_connection, leave=asked
            )
        else:
            after = calls.pending_after(principal, name, arguments, session)
            if after is None and asked is None:
                return await making
            envelope = await approvals.background.left_after(
                making,
                wait=math.inf if after is None else after,
                caller_connection=caller_connection,
                leave=asked,
            )
            if asked is None or not asked.is_set():
                return envelope
            began, wait = asyncio.get_running_loop().time(), _APPROVAL_WAIT_S  # until its question is stored
        if _is_awaited(envelope):
            left = began + wait - asyncio.get_running_loop().time()
            envelope = await approvals.calls.outcome(envelope.call_id, principal, left, asked=bool(kinds)) or envelope
        return envelope

    async def tools(self, request: Request, principal: Principal) -> Response:
        """Answer GET /v1/tools: a page of the caller's listed tools, or with `q` of matching tools, in one format."""
        query = request.parameters("format", "q", "limit", "cursor", "toolset")
        if "toolset" in query:
            narrowed = self._gateway.callers.narrowed(principal, query["toolset"])
            if narrowed is None:
                raise Rejected(404, "not_found", "the query parameter toolset names no toolset of the policy")
            principal = narrowed
        form = query.get("format", "manifest")
        if form not in LISTED:
            raise Rejected(
                400,
                "validation",
                "the query parameter format names no format",
                suggestion=f"use {', '.join(sorted(LISTED))}{nearest(form, LISTED)}",
            )
        if form == "manifest" and self._gateway.callers.may_review(principal):
            form = WITH_BINDINGS
        text = query.get("q")
        limit = whole(query, "limit", default=DEFAULT_PAGE if text is None else DEFAULT_HITS, most=MAX_PAGE)
        session = conversation_of(request)
        listing, cursor = self._listings.of(principal, session), query.get("cursor", "")
        try:
            if text is None:
                page = listing.page(form, cursor=cursor, limit=limit)
            else:
                page = listing.found(form, await self._found(principal, text, session), cursor=cursor, limit=limit)
        except Malformed as error:
            message = f"the query parameter cursor {error.message}"
            raise Rejected(404, "not_found", message, suggestion="list from the beginning, without a cursor") from None
        shaped: dict[str, object] = {"tools": page.tools}
        if page.next_cursor:
            shaped["next_cursor"] = page.next_cursor
        return json_response(shaped)

    async def tool(self, request: Request, principal: Principal, name: str) -> Response:
        """Answer GET /v1/tools/{name}: one of the caller's tools in the format of the manifest, with every definition that its schema
        refers to."""
        request.parameters()
        found = self._listings.of(principal, conversation_of(request)).tool(name)
        if found is None:
            raise Rejected(404, "unknown_tool", "there is no such tool")
        shown = found.to_dict() if self._gateway.callers.may_review(principal) else for_agents(found)
        return Response(body=encode({**shown, "input_schema": complete(found.input_schema)}))

    async def _found(self, principal: Principal, text: str, session: str) -> tuple[Tool, ...]:
        if not text:
            raise Rejected(400, "validation", "the query parameter q must have a character")
        found = await self._gateway.tool_calls.search(principal, text, MAX_FOUND, session)
        if isinstance(found, Error):
            raise Rejected.of(STATUS_OF_CODE.get(found.code, 429), found)
        return found

    async def kept_answer(self, request: Request, principal: Principal, name: str, token: str) -> FileResponse:
        """Answer GET /v1/answers/{tool}/{token}: the bytes of a file in an answer, for the caller that got it."""
        request.parameters()
        found = await self._gateway.tool_calls.files.fetch(principal, name, token)
        if isinstance(found, Error):
            status = 404 if found.code == "expired" else STATUS_OF_CODE.get(found.code, 500)
            raise Rejected.of(status, found)
        return download(found)


def download(file: KeptFile | HeldFile) -> FileResponse:
    """Return a file as an answer. Browsers never show it as a page of this origin, for any media type."""
    info = file.info
    kind = info.media_type.encode("ascii") if _MEDIA_TYPE.match(info.media_type) else b"application/octet-stream"
    headers = ((b"content-type", kind), (b"content-disposition", b"attachment"))
    return FileResponse(parts=file.parts(), size=info.size, headers=headers)


def enveloped(envelope: Envelope) -> Response:
    """Return an envelope as an answer, with the status of its outcome."""
    body = encode(envelope_json(envelope))
    if envelope.error is None:
        return Response(status=status_of(envelope), body=body)
    return Response(status=status_of(envelope), body=body, headers=_retry_after(envelope, envelope.error))


def _is_awaited(envelope: Envelope) -> bool:
    """Return True if the end of a call may come while its caller waits: not of one whose caller is to show its person a link first."""
    linked = envelope.error is not None and envelope.error.code == "authorization_required"
    return envelope.status == "pending" and not linked


def _kinds(text: str) -> tuple[RequestKind, ...]:
    """Return the kinds of questions of a query, separated by commas. Raises `Rejected` for an unknown one."""
    named = tuple(filter(None, text.split(",")))
    kinds = tuple(kind for kind in REQUEST_KINDS if kind in named)
    if len(kinds) < len(set(named)):
        known = ", ".join(REQUEST_KINDS)
        raise Rejected(
            400, "validation", "the query parameter may_ask takes kinds of questions", suggestion=f"use {known}"
        )
    return kinds


async def _of_batch(call: BatchCall, key: str, made: Callable[..., Awaitable[Envelope]]) -> Envelope:
    if call.arguments is None:
        suggestion = "write the arguments again, as one JSON object"
        return unmade(call.name, Error(code="validation", message=call.fault, suggestion=suggestion, rule="arguments"))
    return await made(call.name, call.arguments, idempotency_key=key)


def decoded(data: bytes, kind: Any) -> Any:
    """Decode a body as `kind`. Raises the refusal with the faulty part."""
    try:
        return decode(data, kind)
    except Malformed as error:
        raise malformed(error) from None


def malformed(error: Malformed) -> Rejected:
    """Return the refusal of a body, with the faulty part."""
    return Rejected(400, "validation", f"{error.pointer or 'body'}: {error.message}", pointer=error.pointer)


def conversation_of(request: Request) -> str:
    if b"x-conversation-id" not in request.headers:
        return ""
    text = request.text(b"x-conversation-id")
    if text and not identifier(text):
        raise Rejected(400, "validation", "X-Conversation-Id must be 1 to 128 visible ASCII characters")
    return text


def client_of(request: Request) -> str:
    """Return the User-Agent for the audit log: self-reported, printable and bounded."""
    text = request.headers.get(b"user-agent", b"").decode("latin-1").strip()[:_MAX_CLIENT_LENGTH]
    return text if text.isprintable() else "".join(sign if sign.isprintable() else "?" for sign in text)


def _retry_after(envelope: Envelope, error: Error) -> tuple[tuple[bytes, bytes], ...]:
    """Return `Retry-After` in whole seconds (RFC 9110, section 10.2.3); a 429 always has one."""
    if error.retry_after_s is None and status_of(envelope) != 429:
        return ()
    return (retry_after(error.retry_after_s or 1),)


def whole(query: Mapping[str, str], name: str, *, default: int, most: int) -> int:
    """Return a query parameter that is a whole number from 1 to `most`."""
    text = query.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 16 or not 1 <= int(text) <= most:
        raise Rejected(400, "validation", f"the query parameter {name} must be a whole number from 1 to {most}")
    return int(text)


def _seconds(query: Mapping[str, str]) -> float | None:
    """Return the query parameter `wait`; None if there is none."""
    text = query.get("wait")
    if text is None:
        return None
    if not _SECONDS.match(text) or float(text) > _MAX_WAIT_S:
        raise Rejected(400, "validation", f"the query parameter wait must be a number from 0 to {_MAX_WAIT_S:g}")
    return float(text)
