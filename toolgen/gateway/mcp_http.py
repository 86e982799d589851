"""MCP's streamable HTTP at /mcp, both eras told apart by `MCP-Protocol-Version`; every answer is plain JSON, so nothing is streamed."""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Mapping
from types import MappingProxyType

from toolgen.gateway.http import Rejected, Request, Response, read_json_body
from toolgen.gateway.mcp import (
    HANDSHAKE_VERSIONS,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MODERN_VERSIONS,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    Caller,
    Era,
    Fault,
    Mcp,
    Message,
    Reply,
    claimed_version,
    client_label,
    failed,
    parse,
    unsupported,
)
from toolgen.gateway.wire import identifier
from toolgen.model.call import Principal

__all__ = ["McpEndpoint"]

VERSION_HEADER = b"mcp-protocol-version"
METHOD_HEADER = b"mcp-method"
NAME_HEADER = b"mcp-name"
SESSION_HEADER = b"mcp-session-id"
CONVERSATION_HEADER = b"x-conversation-id"

_ROUTING = (VERSION_HEADER, METHOD_HEADER, NAME_HEADER, SESSION_HEADER)
_SENTINEL = re.compile(r"=\?base64\?(.*)\?=\Z", re.DOTALL)
_SESSION = re.compile(r"([0-9a-f]{32})(?:\.([A-Za-z0-9_-]{1,640}))?\Z")

# 2026-07-28, basic/transports: errors found before a method runs carry an HTTP status of their own.
_MODERN_STATUS: Mapping[int, int] = MappingProxyType(
    {
        PARSE_ERROR: 400,
        INVALID_REQUEST: 400,
        INVALID_PARAMS: 400,
        HEADER_MISMATCH: 400,
        UNSUPPORTED_VERSION: 400,
        METHOD_NOT_FOUND: 404,
        INTERNAL_ERROR: 500,
    }
)
# Before it, only a message that could not be read at all did; the rest are answers like any other.
_HANDSHAKE_STATUS: Mapping[int, int] = MappingProxyType(
    {PARSE_ERROR: 400, INVALID_REQUEST: 400, UNSUPPORTED_VERSION: 400, HEADER_MISMATCH: 400}
)


class McpEndpoint:
    """One POST, one message, one answer. There is no state between two requests, so any worker may answer any of them."""

    def __init__(self, mcp: Mcp) -> None:
        self._mcp = mcp

    async def handle(self, request: Request, principal: Principal) -> Response:
        """Answers an authenticated request. Raises `Rejected` for what is wrong before there is a message."""
        if request.method != "POST":
            message = "this endpoint takes POST alone: it opens no stream and keeps no session"
            raise Rejected(405, "bad_request", message, headers=((b"allow", b"POST"),))
        if not _takes_json(request.text(b"accept")):
            raise Rejected(406, "bad_request", "the client must accept application/json")
        parsed = parse(await read_json_body(request))
        version = request.text(VERSION_HEADER)
        if isinstance(parsed, Reply):
            return _response(parsed, Era.MODERN)
        if isinstance(parsed.method, str) and (fault := _routing_fault(request, parsed)):
            return _response(_refused(parsed, fault), Era.MODERN)
        claim = claimed_version(parsed)
        if version in HANDSHAKE_VERSIONS or not (version or claim):
            return await self._handshake(request, parsed, principal, claim)
        return await self._modern(request, parsed, principal, version)

    async def _handshake(self, request: Request, message: Message, principal: Principal, claim: str) -> Response:
        if claim:
            return _response(
                _refused(message, Fault(code=HEADER_MISMATCH, message=_MISMATCH[VERSION_HEADER])), Era.HANDSHAKE
            )
        session, client = "", ""
        if (text := request.text(SESSION_HEADER)) and message.method != "initialize":
            known = _opened(text)
            if known is None:
                raise Rejected(
                    404, "bad_request", "this session is not one of this gateway's", suggestion="initialize again"
                )
            session, client = known
        caller = Caller(principal=principal, session=_conversation(request) or session, client=client)
        reply = await self._mcp.answer(message, era=Era.HANDSHAKE, caller=caller)
        if message.method == "initialize" and not reply.fault and reply.body:
            params = message.params if isinstance(message.params, dict) else {}
            label = client_label(params.get("clientInfo"))
            return _response(reply, Era.HANDSHAKE, session=_sealed(label))
        return _response(reply, Era.HANDSHAKE)

    async def _modern(self, request: Request, message: Message, principal: Principal, version: str) -> Response:
        if not isinstance(message.id, (int, str)) or not isinstance(message.method, str):
            return self._modern_without_request(message, version)
        if fault := _header_fault(request, message, version):
            return _response(failed(message.id, fault), Era.MODERN)
        caller = Caller(principal=principal, session=_conversation(request))
        return _response(await self._mcp.answer(message, era=Era.MODERN, caller=caller), Era.MODERN)

    def _modern_without_request(self, message: Message, version: str) -> Response:
        """A notification is acknowledged and dropped; clients send no responses in this era."""
        if version not in MODERN_VERSIONS:
            return _response(failed(None, unsupported(version)), Era.MODERN)
        if isinstance(message.method, str):
            return Response(status=202)
        fault = Fault(code=INVALID_REQUEST, message="the body must be one request or one notification")
        return _response(failed(None, fault), Era.MODERN)


_MISMATCH: Mapping[bytes, str] = MappingProxyType(
    {
        VERSION_HEADER: "the MCP-Protocol-Version header and the version in params._meta must be there and the same",
        METHOD_HEADER: "the Mcp-Method header and the body's method must be there and the same",
        NAME_HEADER: "the Mcp-Name header and params.name must be there and the same",
    }
)


def _routing_fault(request: Request, message: Message) -> Fault | None:
    """Headers are what intermediaries route and filter by, so a body that says something else is refused (2026-07-28, transports).

    In the handshake era too, where no client sends them: or else an older version would be the way around a filter.
    """
    if request.repeated and (twice := request.repeated.intersection(_ROUTING)):
        return Fault(code=HEADER_MISMATCH, message=f"the header {min(twice).decode()} was sent more than once")
    if METHOD_HEADER in request.headers and request.text(METHOD_HEADER) != message.method:
        return Fault(code=HEADER_MISMATCH, message=_MISMATCH[METHOD_HEADER])
    if NAME_HEADER in request.headers and message.method == "tools/call":
        params = message.params if isinstance(message.params, dict) else {}
        if _decoded(request.text(NAME_HEADER)) != params.get("name"):
            return Fault(code=HEADER_MISMATCH, message=_MISMATCH[NAME_HEADER])
    return None


def _header_fault(request: Request, message: Message, version: str) -> Fault | None:
    """What the modern era asks of the headers beyond that: to be there, and to say the version the body says."""
    claim = claimed_version(message)
    if not claim:
        # Nothing to compare with: an unknown version is said to be unknown, a known one lacks its `_meta`, which `answer` explains.
        return None if version in MODERN_VERSIONS else unsupported(version)
    if claim != version:
        return Fault(code=HEADER_MISMATCH, message=_MISMATCH[VERSION_HEADER])
    if METHOD_HEADER not in request.headers:
        return Fault(code=HEADER_MISMATCH, message=_MISMATCH[METHOD_HEADER])
    if message.method == "tools/call" and NAME_HEADER not in request.headers:
        return Fault(code=HEADER_MISMATCH, message=_MISMATCH[NAME_HEADER])
    return None


def _decoded(value: str) -> str | None:
    """A header value, out of its `=?base64?…?=` wrapping where it has one; None for a broken wrapping."""
    found = _SENTINEL.match(value)
    if found is None:
        return value
    try:
        raw = base64.b64decode(found[1], validate=True)
        return raw.decode("utf-8") if base64.b64encode(raw).decode("ascii") == found[1] else None
    except ValueError:
        return None


def _conversation(request: Request) -> str:
    text = request.text(CONVERSATION_HEADER)
    if text and not identifier(text):
        raise Rejected(400, "validation", "X-Conversation-Id must be 1 to 128 visible ASCII characters")
    return text


def _sealed(client: str) -> str:
    """A session id that carries what `initialize` said, so that nothing needs to be kept.

    It grants nothing and proves nothing: each request is authenticated by itself, and a client's name is self-reported either way.
    """
    label = base64.urlsafe_b64encode(client.encode("utf-8")).decode("ascii").rstrip("=")
    return secrets.token_hex(16) + (f".{label}" if label else "")


def _opened(text: str) -> tuple[str, str] | None:
    """The session and client behind a session id; None when it cannot be one of ours."""
    found = _SESSION.match(text)
    if found is None:
        return None
    label = found[2] or ""
    try:
        client = base64.b64decode(label + "=" * (-len(label) % 4), altchars=b"-_", validate=True).decode("utf-8")
    except ValueError:
        return None
    return found[1], client_label({"name": client}) if client else ""


def _takes_json(accept: str) -> bool:
    """Whether the Accept header allows JSON; without one, anything is acceptable (RFC 9110, section 12.5.1)."""
    if not accept:
        return True
    kinds = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
    return not kinds.isdisjoint({"application/json", "application/*", "*/*"})


def _refused(message: Message, fault: Fault) -> Reply:
    return failed(message.id if isinstance(message.id, (int, str)) else None, fault)


def _response(reply: Reply, era: Era, *, session: str = "") -> Response:
    if not reply.body:
        return Response(status=202)
    table = _MODERN_STATUS if era is Era.MODERN else _HANDSHAKE_STATUS
    headers = ((SESSION_HEADER, session.encode("ascii")),) if session else ()
    return Response(status=table.get(reply.fault, 200), body=reply.body, headers=headers)
