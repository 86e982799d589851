"""REST: contracts.md's routes over the facade, each a function from a checked request to a whole answer."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec
import orjson

from toolgen.errors import AuditError
from toolgen.gateway.answers import data_json, data_text, envelope_json, error_text
from toolgen.gateway.facade import Facade
from toolgen.gateway.http import Rejected, Request, Response, json_response, read_json_body
from toolgen.gateway.listings import LISTED, Listings
from toolgen.gateway.stand_ins import DEFAULT_HITS, LONGEST_QUERY
from toolgen.gateway.wire import Malformed, decode, identifier
from toolgen.model.call import Principal
from toolgen.model.names import nearest
from toolgen.model.result import Envelope, Error
from toolgen.model.tool import Tool

__all__ = ["STATUS_OF_CODE", "Rest", "decoded", "enveloped", "status_of", "whole"]

LARGEST_PAGE = 1000
DEFAULT_PAGE = 100
MOST_FOUND = 1000
MOST_CALLS = 64
MOST_ENTRIES = 500
_LONGEST_NAME = 128
_LONGEST_CLIENT = 120

STATUS_OF_CODE: Mapping[str, int] = MappingProxyType(
    {
        "unknown_tool": 404,
        "validation": 400,
        "forbidden": 403,
        "rate_limited": 429,
        "turn_limit": 429,
        "sql_refused": 403,
        "egress_refused": 403,
        "approval_required": 202,
        "deferred": 202,
        "authorization_required": 202,
        "approval_denied": 403,
        "cancelled": 403,
        "expired": 403,
        "upstream_error": 502,
        "upstream_timeout": 504,
        "upstream_unavailable": 503,
        "response_too_large": 502,
        "outcome_unknown": 502,
        "handler_error": 500,
        "internal": 500,
        "paused": 503,
        "secret_unavailable": 503,
        "audit_unavailable": 503,
    }
)
"""The HTTP status of every error code of contracts.md."""

_STATUS_OF_STATUS: Mapping[str, int] = MappingProxyType(
    {"ok": 200, "pending": 202, "refused": 403, "cancelled": 403, "error": 500}
)


class _CallBody(msgspec.Struct, forbid_unknown_fields=True):
    arguments: dict[str, Any] = {}
    wait: Annotated[float, msgspec.Meta(ge=0, le=300)] = 30.0
    idempotency_key: Annotated[str, msgspec.Meta(min_length=1, max_length=128)] = ""


class _ToolCall(msgspec.Struct, forbid_unknown_fields=True):
    """LangGraph's tool call, as its ToolNode is given it. One without an id is given one, so that its message can be told apart."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST_NAME)]
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=256)] | None = None
    args: dict[str, Any] = {}
    type: Literal["tool_call"] = "tool_call"


_ToolCalls = Annotated[list[_ToolCall], msgspec.Meta(min_length=1, max_length=MOST_CALLS)]


def status_of(envelope: Envelope) -> int:
    """The HTTP status of an envelope; a code nobody has heard of falls back on how the call ended, never on success."""
    if envelope.status == "ok":
        return 200
    if envelope.error is not None and envelope.error.code in STATUS_OF_CODE:
        return STATUS_OF_CODE[envelope.error.code]
    return _STATUS_OF_STATUS.get(envelope.status, 500)


class Rest:
    """The routes below /v1. Every method is given a verified principal and raises `Rejected` for a bad request."""

    def __init__(self, gateway: Facade, listings: Listings) -> None:
        self._gateway = gateway
        self._listings = listings

    async def call(self, request: Request, principal: Principal, name: str) -> Response:
        """POST /v1/tools/{name}/call: the envelope, with the status of contracts.md."""
        request.parameters()
        body = decoded(await read_json_body(request), _CallBody)
        if body.idempotency_key:
            # Taking it and not keeping its promise would let a retried write happen twice.
            raise Rejected(400, "validation", "idempotency_key is not supported yet", pointer="/idempotency_key")
        if not 0 < len(name) <= _LONGEST_NAME:
            raise Rejected(404, "unknown_tool", "there is no such tool")
        envelope = await self._gateway.call(
            name,
            body.arguments,
            principal=principal,
            session=_conversation(request),
            client=_client(request),
        )
        if envelope.status == "pending":
            envelope = await self._gateway.approvals.outcome(envelope.call_id, principal, body.wait) or envelope
        return enveloped(envelope)

    async def tool_calls(self, request: Request, principal: Principal) -> Response:
        """POST /v1/tool_calls: LangGraph's tool calls in, its tool messages out, in the same order."""
        request.parameters()
        calls: list[_ToolCall] = decoded(await read_json_body(request), _ToolCalls)
        session, client = _conversation(request), _client(request)
        envelopes = await asyncio.gather(
            *(
                self._gateway.call(call.name, call.args, principal=principal, session=session, client=client)
                for call in calls
            )
        )
        return json_response([_tool_message(call, envelope) for call, envelope in zip(calls, envelopes, strict=True)])

    async def tools(self, request: Request, principal: Principal) -> Response:
        """GET /v1/tools: a page of what the caller is listed, or with `q` of the tools that fit a request in words, in one format."""
        query = request.parameters("format", "q", "limit", "cursor", "toolset")
        if "toolset" in query:
            narrowed = self._gateway.narrowed(principal, query["toolset"])
            if narrowed is None:
                raise Rejected(400, "validation", "the query parameter toolset names no toolset of the policy")
            principal = narrowed
        form = query.get("format", "manifest")
        if form not in LISTED:
            raise Rejected(
                400,
                "validation",
                "the query parameter format names no format",
                suggestion=f"use {', '.join(sorted(LISTED))}{nearest(form, LISTED)}",
            )
        text = query.get("q")
        limit = whole(query, "limit", default=DEFAULT_PAGE if text is None else DEFAULT_HITS, most=LARGEST_PAGE)
        listing, cursor = self._listings.of(principal), query.get("cursor", "")
        try:
            if text is None:
                page = listing.page(form, cursor=cursor, limit=limit)
            else:
                page = listing.found(form, await self._found(principal, text), cursor=cursor, limit=limit)
        except Malformed as error:
            raise Rejected(400, "validation", f"the query parameter cursor {error.message}") from None
        shaped: dict[str, object] = {"tools": orjson.Fragment(page.tools)}
        if page.next_cursor:
            shaped["next_cursor"] = page.next_cursor
        return json_response(shaped)

    async def _found(self, principal: Principal, text: str) -> tuple[Tool, ...]:
        if not 0 < len(text) <= LONGEST_QUERY:
            raise Rejected(400, "validation", f"the query parameter q must have 1 to {LONGEST_QUERY} characters")
        found = await self._gateway.search(principal, text, MOST_FOUND)
        if isinstance(found, Error):
            seconds = max(1, math.ceil(found.retry_after_s or 1))
            headers = ((b"retry-after", b"%d" % seconds),)
            raise Rejected(429, found.code, found.message, suggestion=found.suggestion, headers=headers)
        return found

    async def audit(self, request: Request, principal: Principal) -> Response:
        """GET /v1/audit: entries, newest first."""
        self._review(principal)
        query = request.parameters("limit", "before")
        limit = whole(query, "limit", default=50, most=MOST_ENTRIES)
        before = whole(query, "before", default=0, most=2**53 - 1) if "before" in query else None
        try:
            entries = await asyncio.to_thread(self._gateway.audit_entries, limit=limit, before=before)
        except AuditError:
            raise _unreadable_audit() from None
        return json_response({"entries": entries})

    async def audit_entry(self, request: Request, principal: Principal, seq: str) -> Response:
        """GET /v1/audit/{seq}: one entry."""
        self._review(principal)
        request.parameters()
        if not seq.isascii() or not seq.isdigit() or len(seq) > 16:
            raise Rejected(404, "not_found", "there is no such audit entry")
        try:
            entry = await asyncio.to_thread(self._gateway.audit_entry, int(seq))
        except AuditError:
            raise _unreadable_audit() from None
        if entry is None:
            raise Rejected(404, "not_found", "there is no such audit entry")
        return json_response(entry)

    def _review(self, principal: Principal) -> None:
        if not self._gateway.may_review(principal):
            raise Rejected(
                403, "forbidden", "this principal may not read the audit", suggestion="ask whoever owns the policy"
            )


def enveloped(envelope: Envelope) -> Response:
    """An envelope as an answer, with the status of contracts.md."""
    return json_response(envelope_json(envelope), status=status_of(envelope), headers=_retry_after(envelope))


def _tool_message(call: _ToolCall, envelope: Envelope) -> dict[str, object]:
    fine = envelope.status == "ok"
    return {
        "role": "tool",
        "tool_call_id": call.id or f"call_{secrets.token_hex(12)}",
        "name": call.name,
        "content": data_text(envelope, data_json(envelope.data)) if fine else error_text(envelope),
        "status": "success" if fine else "error",
    }


def decoded(data: bytes, kind: Any) -> Any:
    """A body as `kind`, or the refusal that names the part at fault."""
    try:
        return decode(data, kind)
    except Malformed as error:
        raise Rejected(
            400, "validation", f"{error.pointer or 'body'}: {error.message}", pointer=error.pointer
        ) from None


def _conversation(request: Request) -> str:
    text = request.text(b"x-conversation-id")
    if text and not identifier(text):
        raise Rejected(400, "validation", "X-Conversation-Id must be 1 to 128 visible ASCII characters")
    return text


def _client(request: Request) -> str:
    """The User-Agent, for the record: self-reported, printable and bounded."""
    text = request.text(b"user-agent")[:_LONGEST_CLIENT]
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def _retry_after(envelope: Envelope) -> tuple[tuple[bytes, bytes], ...]:
    """`Retry-After` in whole seconds (RFC 9110, section 10.2.3); never absent from a 429."""
    error = envelope.error
    if error is None or (error.retry_after_s is None and status_of(envelope) != 429):
        return ()
    return ((b"retry-after", b"%d" % max(1, math.ceil(error.retry_after_s or 1))),)


def whole(query: Mapping[str, str], name: str, *, default: int, most: int) -> int:
    """A query parameter that is a whole number from 1 to `most`."""
    text = query.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 16 or not 1 <= int(text) <= most:
        raise Rejected(400, "validation", f"the query parameter {name} must be a whole number from 1 to {most}")
    return int(text)


def _unreadable_audit() -> Rejected:
    return Rejected(
        503, "audit_unavailable", "the audit log cannot be read", suggestion="run `toolgen audit verify` on the gateway"
    )
