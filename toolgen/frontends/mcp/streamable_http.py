"""MCP's streamable HTTP at /mcp, both eras told apart by `MCP-Protocol-Version`; an answer is plain JSON, unless
something is said before it."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import lru_cache
from http import HTTPStatus
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from toolgen.frontends.http.request import (
    KEY_HEADER,
    EventStream,
    Rejected,
    Request,
    Response,
    agreed_key,
    read_json_body,
    retry_after,
)
from toolgen.frontends.mcp.client_channel import capabilities_of
from toolgen.frontends.mcp.event_streams import Channel, Heard, Listeners
from toolgen.frontends.mcp.messages import (
    ALONE,
    BATCHED_VERSION,
    CANCELLED,
    HANDSHAKE_VERSIONS,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    META_IDEMPOTENCY,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    MODERN_VERSIONS,
    NAMED,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    Caller,
    Id,
    ProtocolStyle,
    RpcFault,
    RpcMessage,
    RpcReply,
    cancelled_request,
    claimed_version,
    client_label,
    envelope_fault,
    failed,
    parse,
    parse_batch,
    request_id,
    routed_name,
    unsupported,
)
from toolgen.frontends.mcp.server import Mcp
from toolgen.frontends.mcp.sessions import NO_SESSION, named_session, opened_session, session_id
from toolgen.frontends.mcp.task_events import WatchedTasks, tasks_fault
from toolgen.gateway.calls.departed_clients import DepartedClients
from toolgen.gateway.calls.json_body import encode, identifier
from toolgen.model.call import Principal, parties
from toolgen.model.schema import Json
from toolgen.pipeline.middleware import CallerConnection

__all__ = ["McpEndpoint"]

VERSION_HEADER = b"mcp-protocol-version"
METHOD_HEADER = b"mcp-method"
NAME_HEADER = b"mcp-name"
SESSION_HEADER = b"mcp-session-id"
CONVERSATION_HEADER = b"x-conversation-id"

_PATH = "/mcp"
_BLANK = b" \t\r\n"

_Asked: TypeAlias = tuple[tuple[str, ...], str, Id]
"""Who asked, in which session, by which id: another principal's cancellation never finds it."""

_ROUTING = (VERSION_HEADER, METHOD_HEADER, NAME_HEADER, SESSION_HEADER)
_SENTINEL = re.compile(r"=\?base64\?(.*)\?=\Z", re.DOTALL)
_BOTH = b"application/json, text/event-stream"  # as clients of MCP write it
_MAX_KEPT_ACCEPT_SIZE = 256
_JSON = frozenset({"application/json", "application/*", "*/*"})
_EVENTS = frozenset({"text/event-stream", "text/*", "*/*"})

# 2026-07-28, basic/transports: errors found before a method runs carry an HTTP status of their own.
_MODERN_STATUS: Mapping[int, int] = MappingProxyType(
    {
        PARSE_ERROR: 400,
        INVALID_REQUEST: 400,
        INVALID_PARAMS: 400,
        HEADER_MISMATCH: 400,
        UNSUPPORTED_VERSION: 400,
        METHOD_NOT_FOUND: 404,
        MISSING_CAPABILITY: 400,
        INTERNAL_ERROR: 500,
    }
)
# Before it, only a message that could not be read at all did; the rest are answers like any other.
_HANDSHAKE_STATUS: Mapping[int, int] = MappingProxyType(
    {PARSE_ERROR: 400, INVALID_REQUEST: 400, UNSUPPORTED_VERSION: 400, HEADER_MISMATCH: 400}
)


class McpEndpoint:
    """MCP endpoint: a POST has one message and gets one answer. There is no state between requests, so any worker can answer any of them.

    Only requests in flight are known. In the handshake style a notification cancels a request of its session at any worker (2025-11-25,
    basic/utilities/cancellation). An answer reaches the function that asked only at the worker that runs the request. Closing the request's
    connection, the only way of 2026-07-28, always works, and so do answers about approvals.
    """

    def __init__(self, mcp: Mcp, departed: DepartedClients) -> None:
        self._mcp = mcp
        self._in_flight: dict[_Asked, CallerConnection] = {}
        self._listeners = Listeners(mcp)
        self._departed = departed
        departed.listen(self._cancel)

    def close(self) -> None:
        """Ends the streams that clients listen to, and what they wait for."""
        self._listeners.close()
        self._mcp.tasks.close()
        self._mcp.pages.stop()

    async def handle(self, request: Request, principal: Principal) -> Response | EventStream:
        """Answers an authenticated request. Raises `Rejected` for what is wrong before there is a message."""
        if request.method != "POST":
            return self._stream(request, principal)
        if request.headers.get(b"accept", _BOTH) != _BOTH and not _takes(request, _JSON):
            raise Rejected(406, "bad_request", "the client must accept application/json")
        try:
            body = await read_json_body(request)
        except Rejected as rejected:
            if rejected.status != HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                raise
            said = f"{rejected.message}; {rejected.suggestion}"
            reply = failed(None, RpcFault(code=INVALID_REQUEST, message=said))
            return Response(status=rejected.status, body=reply.body, headers=rejected.headers)
        if body.lstrip(_BLANK).startswith(b"[") and request.text(VERSION_HEADER) in {"", BATCHED_VERSION}:
            return await self._batch(request, body, principal)
        parsed = parse(body)
        if isinstance(parsed, RpcReply):
            return _response(parsed, ProtocolStyle.STATELESS)
        routed = request.repeated or METHOD_HEADER in request.headers or NAME_HEADER in request.headers
        if routed and isinstance(parsed.method, str) and (fault := _routing_fault(request, parsed)):
            return _response(_refused(parsed, fault), ProtocolStyle.STATELESS)
        version = request.text(VERSION_HEADER) if VERSION_HEADER in request.headers else ""
        claim = claimed_version(parsed) if parsed.meta else ""
        if version in HANDSHAKE_VERSIONS or not (version or claim):
            return await self._handshake(request, parsed, principal, version, request.caller_connection)
        return await self._modern(request, parsed, principal, version)

    async def _batch(self, request: Request, body: bytes, principal: Principal) -> Response:
        """Several messages in one request, as 2025-03-26 has them alone (basic/transports), each answered in one piece."""
        messages = parse_batch(body)
        if isinstance(messages, RpcReply):
            return _response(messages, ProtocolStyle.STATEFUL)
        if METHOD_HEADER in request.headers or NAME_HEADER in request.headers:
            fault = RpcFault(code=HEADER_MISMATCH, message="a batch has no header that names one method or tool")
            return _response(failed(None, fault), ProtocolStyle.STATEFUL)
        version = request.text(VERSION_HEADER)
        with request.caller_connection.several(len(messages)) as presences:
            replies = await asyncio.gather(
                *(
                    self._batched(request, message, principal, version, caller_connection)
                    for message, caller_connection in zip(messages, presences, strict=True)
                )
            )
        bodies = [reply.body for reply in replies if reply.body]
        return Response(body=b"[%b]" % b",".join(bodies)) if bodies else Response(status=202)

    async def _batched(
        self,
        request: Request,
        message: RpcMessage | RpcReply,
        principal: Principal,
        version: str,
        caller_connection: CallerConnection,
    ) -> Response:
        if isinstance(message, RpcReply):
            return _response(message, ProtocolStyle.STATEFUL)
        if message.method == "initialize":
            return _response(_refused(message, ALONE), ProtocolStyle.STATEFUL)
        answer = await self._handshake(request, message, principal, version, caller_connection)
        assert isinstance(answer, Response)  # noqa: S101 - a stream is for a request that is alone
        return answer

    def _cancel(self, digest: Callable[[Sequence[object]], str], cancelled: frozenset[str]) -> None:
        """End the requests in flight here that were cancelled at another worker."""
        for asked, caller_connection in list(self._in_flight.items()):
            if digest(_named(asked)) in cancelled:
                caller_connection.leave()

    def _stream(self, request: Request, principal: Principal) -> EventStream:
        """The handshake era's GET (2025-03-26 to 2025-11-25, basic/transports): a stream of what changes, for a session."""
        session = request.text(SESSION_HEADER) if request.method == "GET" else ""
        old = request.text(VERSION_HEADER) in {"", *HANDSHAKE_VERSIONS}
        opened = opened_session(session) if session else None
        if opened is None or not old or not _takes(request, _EVENTS):
            message = "this endpoint takes POST, and GET for the event stream of a session that initialize opened"
            raise Rejected(405, "bad_request", message, headers=((b"allow", b"POST"),))
        return self._listeners.of_session(principal, request.caller_connection, opened.id)

    async def _handshake(
        self,
        request: Request,
        message: RpcMessage,
        principal: Principal,
        version: str,
        caller_connection: CallerConnection,
    ) -> Response | EventStream:
        """Answer one message of a session. Where `caller_connection` is not the request's own, the message is one of a batch."""
        if message.meta and claimed_version(message):
            return _response(
                _refused(message, RpcFault(code=HEADER_MISMATCH, message=_MISMATCH[VERSION_HEADER])),
                ProtocolStyle.STATEFUL,
            )
        session, text = NO_SESSION, ""
        if SESSION_HEADER in request.headers and message.method != "initialize":
            text = request.text(SESSION_HEADER)
            session = named_session(text)
        if message.method == CANCELLED and (cancelled := cancelled_request(message)) is not None:
            meant = (parties(principal), text, cancelled)
            if found := self._in_flight.get(meant):
                found.leave()
            elif text:
                await self._departed.cancel(_named(meant))
            return Response(status=202)
        if not isinstance(message.method, str):
            await self._mcp.respond(message, principal)
            return Response(status=202)
        caller = Caller(
            principal=principal,
            session=_conversation(request) if CONVERSATION_HEADER in request.headers else "",
            connection=session.id,
            client=session.client,
            caller_connection=caller_connection,
            capabilities=session.capabilities,
            version=version,
            key=_key(request, message) if KEY_HEADER in request.headers else "",
            endpoint=_endpoint_of(request),
        )
        asking = message.id if session.id and isinstance(message.id, (int, str)) else None
        asked = None if asking is None else (parties(principal), text, asking)
        first = (
            asked is not None
            and self._in_flight.setdefault(asked, caller.caller_connection) is caller.caller_connection
        )
        try:
            speaks = caller_connection is request.caller_connection and (
                caller.capabilities or message.meta or message.method == "tasks/result" or self._mcp.levels.asked
            )
            if speaks and self._converses(request, message, caller):
                response = await self._conversing(message, ProtocolStyle.STATEFUL, caller)
                if isinstance(response, EventStream) and first and asked is not None:
                    first = False  # it can be cancelled until its stream ends
                    return msgspec.structs.replace(response, events=self._until_end(response.events, asked))
                return response
            reply = await self._mcp.answer(message, protocol_style=ProtocolStyle.STATEFUL, caller=caller)
        finally:
            if first and asked is not None:  # of two requests with one id, which no client may send, it is the first
                del self._in_flight[asked]
        if caller.caller_connection.disconnected():
            return Response(status=202)  # a request that was cancelled has no answer
        if message.method == "initialize" and not reply.fault and reply.body:
            params = message.params if isinstance(message.params, dict) else {}
            label = client_label(params.get("clientInfo"))
            return _response(
                reply, ProtocolStyle.STATEFUL, session=session_id(label, capabilities_of(params.get("capabilities")))
            )
        return _response(reply, ProtocolStyle.STATEFUL)

    async def _until_end(self, events: AsyncIterator[bytes], asked: _Asked) -> AsyncIterator[bytes]:
        """Yield the events of a stream, whose request is in flight until it ends."""
        try:
            async for one in events:
                yield one
        finally:
            self._in_flight.pop(asked, None)

    def _converses(self, request: Request, message: RpcMessage, caller: Caller) -> bool:
        return self._mcp.converses(message, caller) and _takes(request, _EVENTS)

    async def _conversing(
        self, message: RpcMessage, protocol_style: ProtocolStyle, caller: Caller
    ) -> Response | EventStream:
        channel = Channel(caller.caller_connection)
        answering = self._mcp.answer(
            message, protocol_style=protocol_style, caller=msgspec.structs.replace(caller, send=channel.send)
        )
        return await channel.answer(request_id(message), answering, lambda reply: _response(reply, protocol_style))

    async def _modern(
        self, request: Request, message: RpcMessage, principal: Principal, version: str
    ) -> Response | EventStream:
        if not isinstance(message.id, (int, str)) or not isinstance(message.method, str):
            return self._modern_without_request(message, version)
        if fault := _header_fault(request, message, version):
            return _response(failed(message.id, fault), ProtocolStyle.STATELESS)
        if fault := _parameter_fault(request, self._mcp.header_parameters(message, principal)):
            return _response(failed(message.id, fault), ProtocolStyle.STATELESS)
        caller = Caller(
            principal=principal,
            session=_conversation(request) if CONVERSATION_HEADER in request.headers else "",
            caller_connection=request.caller_connection,
            key=_key(request, message) if KEY_HEADER in request.headers else "",
            endpoint=_endpoint_of(request),
        )
        if message.method == "subscriptions/listen":
            return self._listen(request, message, principal, message.id)
        if self._converses(request, message, caller):
            return await self._conversing(message, ProtocolStyle.STATELESS, caller)
        return _response(
            await self._mcp.answer(message, protocol_style=ProtocolStyle.STATELESS, caller=caller),
            ProtocolStyle.STATELESS,
        )

    def _listen(self, request: Request, message: RpcMessage, principal: Principal, asked: Id) -> Response | EventStream:
        if fault := envelope_fault(message):
            return _response(failed(asked, fault), ProtocolStyle.STATELESS)
        params = message.params if isinstance(message.params, dict) else {}
        wanted = params.get("notifications")
        if not isinstance(wanted, dict):
            fault = RpcFault(code=INVALID_PARAMS, message="params.notifications must be an object")
            return _response(failed(asked, fault), ProtocolStyle.STATELESS)
        if not _takes(request, _EVENTS):
            raise Rejected(406, "bad_request", "the client must accept text/event-stream")
        heard = Heard.of(wanted)
        if isinstance(heard, RpcFault):
            return _response(failed(asked, heard), ProtocolStyle.STATELESS)
        if wanted.get("taskIds") is None:
            return self._listeners.of_request(asked, principal, request.caller_connection, heard)
        if fault := tasks_fault(wanted["taskIds"], message.meta):
            return _response(failed(asked, fault), ProtocolStyle.STATELESS)
        watched = WatchedTasks(tuple(dict.fromkeys(wanted["taskIds"])), message.meta)
        return self._listeners.of_request(asked, principal, request.caller_connection, heard, watched=watched)

    def _modern_without_request(self, message: RpcMessage, version: str) -> Response:
        """A notification is acknowledged and dropped; clients send no responses in this era."""
        if version not in MODERN_VERSIONS:
            return _response(failed(None, unsupported(version)), ProtocolStyle.STATELESS)
        if isinstance(message.method, str):
            return Response(status=202)
        fault = RpcFault(code=INVALID_REQUEST, message="the body must be one request or one notification")
        return _response(failed(None, fault), ProtocolStyle.STATELESS)


def _named(asked: _Asked) -> Sequence[object]:
    who, session, request = asked
    return ["request", list(who), session, repr(request)]  # 1 and "1" are two ids


_MISMATCH: Mapping[bytes, str] = MappingProxyType(
    {
        VERSION_HEADER: "the MCP-Protocol-Version header and the version in params._meta must be there and the same",
        METHOD_HEADER: "the Mcp-Method header and the body's method must be there and the same",
        NAME_HEADER: "the Mcp-Name header and params.name (params.taskId of a task) must be there and the same",
    }
)


def _routing_fault(request: Request, message: RpcMessage) -> RpcFault | None:
    """Headers are what intermediaries route and filter by, so a body that says something else is refused (2026-07-28, transports).

    In the handshake era too, where no client sends them: or else an older version would be the way around a filter.
    """
    if twice := request.repeated.intersection(_ROUTING):
        return RpcFault(code=HEADER_MISMATCH, message=f"the header {min(twice).decode()} was sent more than once")
    if METHOD_HEADER in request.headers and request.text(METHOD_HEADER) != message.method:
        return RpcFault(code=HEADER_MISMATCH, message=_MISMATCH[METHOD_HEADER])
    if (
        NAME_HEADER in request.headers
        and message.method in NAMED
        and _decoded(request.text(NAME_HEADER)) != routed_name(message)
    ):
        return RpcFault(code=HEADER_MISMATCH, message=_MISMATCH[NAME_HEADER])
    return None


def _header_fault(request: Request, message: RpcMessage, version: str) -> RpcFault | None:
    """Return the fault of headers that 2026-07-28 requires: they must be present and have the version of the body."""
    claim = claimed_version(message)
    if not claim:
        # Nothing to compare with: an unknown version is said to be unknown, a known one lacks its `_meta`, which `answer` explains.
        return None if version in MODERN_VERSIONS else unsupported(version)
    if claim != version:
        return RpcFault(code=HEADER_MISMATCH, message=_MISMATCH[VERSION_HEADER])
    if METHOD_HEADER not in request.headers:
        return RpcFault(code=HEADER_MISMATCH, message=_MISMATCH[METHOD_HEADER])
    if message.method in NAMED and NAME_HEADER not in request.headers:
        return RpcFault(code=HEADER_MISMATCH, message=_MISMATCH[NAME_HEADER])
    return None


def _parameter_fault(request: Request, parameters: Mapping[str, Json]) -> RpcFault | None:
    """Return the fault of the `Mcp-Param-…` headers that repeat a tool's arguments (2026-07-28, transports, custom headers)."""
    for name, value in parameters.items():
        header = f"mcp-param-{name}".lower().encode("latin-1", "replace")
        given = _decoded(request.text(header)) if header in request.headers else None
        if header in request.repeated or (given is None) is not (value is None and header not in request.headers):
            return RpcFault(
                code=HEADER_MISMATCH, message=f"the Mcp-Param-{name} header and its argument must be the same"
            )
        if value is not None and given != _as_header(value):
            return RpcFault(
                code=HEADER_MISMATCH, message=f"the Mcp-Param-{name} header and its argument must be the same"
            )
    return None


def _as_header(value: Json) -> str:
    if isinstance(value, str):
        return value
    return encode(value).decode("utf-8")


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


def _endpoint_of(request: Request) -> str:
    """The name of the server that a request is for, "" for that at /mcp."""
    return request.path.removeprefix(_PATH).strip("/")


def _conversation(request: Request) -> str:
    text = request.text(CONVERSATION_HEADER)
    if text and not identifier(text):
        raise Rejected(400, "validation", "X-Conversation-Id must be 1 to 128 visible ASCII characters")
    return text


def _key(request: Request, message: RpcMessage) -> str:
    """The idempotency key of a tools/call, where a header has one."""
    if message.method != "tools/call":
        return ""
    said = message.meta.get(META_IDEMPOTENCY)
    return agreed_key(request, said if isinstance(said, str) else "", f"/params/_meta/{META_IDEMPOTENCY}")


def _takes(request: Request, kinds: frozenset[str]) -> bool:
    """Return True if the Accept header allows one of these kinds. Without the header all but streams are allowed (RFC 9110, section
    12.5.1)."""
    accept = request.headers.get(b"accept", b"")
    if not accept:
        return kinds is _JSON
    taken = _taken(accept) if len(accept) <= _MAX_KEPT_ACCEPT_SIZE else _taken.__wrapped__(accept)
    return not kinds.isdisjoint(taken)


@lru_cache(maxsize=256)
def _taken(accept: bytes) -> frozenset[str]:
    return frozenset(part.partition(";")[0].strip().lower() for part in accept.decode("latin-1").split(","))


def _refused(message: RpcMessage, fault: RpcFault) -> RpcReply:
    return failed(message.id if isinstance(message.id, (int, str)) else None, fault)


def _response(reply: RpcReply, protocol_style: ProtocolStyle, *, session: str = "") -> Response:
    if not reply.body:
        return Response(status=202)
    table = _MODERN_STATUS if protocol_style is ProtocolStyle.STATELESS else _HANDSHAKE_STATUS
    headers = ((SESSION_HEADER, session.encode("ascii")),) if session else ()
    status = table.get(reply.fault, 200)
    if reply.retry_after_s is not None:
        # Before 2026-07-28 clients take any status but 200 for a broken transport, and read no error that comes with it.
        status, headers = (
            503 if protocol_style is ProtocolStyle.STATELESS else status,
            (*headers, retry_after(reply.retry_after_s)),
        )
    return Response(status=status, body=reply.body, headers=headers)
