"""MCP for a tool server: one JSON-RPC message in, at most one out, whatever carries them and whichever era they belong to."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from toolgen.core.clock import Clock, SystemClock
from toolgen.core.errors import AuditError, StateError
from toolgen.frontends.mcp.bridged_reads import BridgedReads
from toolgen.frontends.mcp.client_channel import PendingReplies
from toolgen.frontends.mcp.context_methods import CONTEXT_LISTS, CONTEXT_METHODS, ContextMethods, resource_fault
from toolgen.frontends.mcp.file_resources import read_resource
from toolgen.frontends.mcp.log_levels import META_LOG_LEVEL, LogLevels
from toolgen.frontends.mcp.messages import (
    HANDSHAKE_VERSIONS,
    INVALID_PARAMS,
    LIST_CHANGED,
    META_CAPABILITIES,
    META_CONVERSATION,
    META_PROGRESS,
    META_TOOLSET,
    META_TRACE,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    TASKS_EXTENSION,
    VERSIONS,
    Caller,
    Id,
    ProtocolStyle,
    RpcFault,
    RpcMessage,
    RpcReply,
    claimed_version,
    client_label,
    envelope_fault,
    failed,
    parse,
    response,
    trace_of,
)
from toolgen.frontends.mcp.request_state import States
from toolgen.frontends.mcp.shown_pages import ShownPages
from toolgen.frontends.mcp.skill_methods import CACHED_SKILL_METHODS, SKILL_METHODS, SkillMethods
from toolgen.frontends.mcp.subscriptions import Subscriptions
from toolgen.frontends.mcp.tasks import Tasks
from toolgen.frontends.mcp.tool_calls import ToolCalls
from toolgen.gateway.calls.context_calls import NO_RESOURCE
from toolgen.gateway.calls.file_links import OWN_SCHEME
from toolgen.gateway.calls.json_body import Malformed, identifier
from toolgen.gateway.catalog.mcp_servers import Offer
from toolgen.gateway.catalog.tool_lists import APP_FORMS, OWN_APP_FORMS, STATELESS, WITH_TASKS, Listings
from toolgen.gateway.metrics.tracing import METHODS, Span, Spans, TracedRequest
from toolgen.gateway.protocol import Facade
from toolgen.model.apps import APP_TYPE, APPS, OWN_PAGE, accepts_apps
from toolgen.model.call import Principal, parties
from toolgen.model.caller_requests import ROOTS_CHANGED
from toolgen.model.result import Error
from toolgen.model.schema import Json
from toolgen.model.unavailable import fault_error

__all__ = ["Caller", "Mcp", "ProtocolStyle", "RpcFault", "RpcMessage", "RpcReply", "client_label", "parse"]

META_SERVER = "io.modelcontextprotocol/serverInfo"
_TOOLS_PER_PAGE = 2_000  # ten of 29 clients read the first page alone
_TTL_MS = 5000
_MAX_URI_LENGTH = 2048
_MAX_LABEL_LENGTH = 120
_VERSION = version("toolgen")
_CAPABILITIES: dict[str, object] = {"tools": {"listChanged": True}, "resources": {}, "logging": {}}
_TASKS: Mapping[str, object] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
_OF_SESSIONS = frozenset({"logging/setLevel", "ping", "resources/subscribe", "resources/unsubscribe"})
_CLOCK = SystemClock()
log = logging.getLogger("toolgen.gateway")
_NOTHING: Mapping[str, Json] = MappingProxyType({})


class Mcp:
    """The methods of a tool server over one gateway."""

    def __init__(self, gateway: Facade, listings: Listings, clock: Clock = _CLOCK) -> None:
        self._gateway = gateway
        self._listings = listings
        self._mailbox = PendingReplies(gateway.tool_calls.approvals.calls.stopping)
        self._clock = clock
        self._spans = gateway.operations.spans
        states = States(lambda: gateway.tool_calls.seal, clock)
        self.pages = ShownPages(gateway.context.updates)
        self.tasks = Tasks(gateway, listings, states, self.pages)
        self.levels = LogLevels(gateway.context.updates)
        self.subscriptions = Subscriptions(gateway.context)
        reads = BridgedReads(gateway, states, self.tasks)
        self._context = ContextMethods(gateway.context, states, self._mailbox, reads, self.levels)
        self._skills = SkillMethods(gateway.context.skills)
        self._calls = ToolCalls(gateway, listings, states, self._mailbox, self.tasks, self.levels)

    async def answer(self, message: RpcMessage, *, protocol_style: ProtocolStyle, caller: Caller) -> RpcReply:
        """The reply to one parsed message. Notifications are accepted and have none, nor have responses.

        `notifications/cancelled` is among them: which request it means is for the transport to know, which then says so by the
        `caller_connection` of that request's caller.
        """
        request = message.id
        if not isinstance(request, int | str) or not isinstance(message.method, str):
            if message.method == ROOTS_CHANGED and protocol_style is ProtocolStyle.STATEFUL:
                self.roots_changed(caller.principal, caller.capabilities)
            return RpcReply()
        began, error = self._clock.monotonic(), "internal"
        if META_TRACE in message.meta and (trace := trace_of(message)) is not None:
            caller.caller_connection.trace = trace
        span = None if self._spans is None else self._begun(self._spans, message, request, caller)
        try:
            fault = envelope_fault(message) if protocol_style is ProtocolStyle.STATELESS else None
            outcome = fault or await self._dispatch(message, protocol_style, caller)
            error = _error(outcome)
        except (StateError, AuditError) as unavailable:
            log.error("a request of MCP was refused: %s", unavailable)  # noqa: TRY400 - it says all there is
            outcome = RpcFault.of(fault_error(unavailable))
            error = _error(outcome)
        finally:
            if span is not None:
                span.end(error)
            method = message.method if message.method in METHODS else "other"
            self._gateway.operations.metrics.operated(method, error, self._clock.monotonic() - began)
        if isinstance(outcome, RpcFault):
            return failed(request, outcome)
        if protocol_style is ProtocolStyle.STATELESS:
            outcome.setdefault("resultType", "complete")
            said = outcome.get("_meta")
            info = self._info(caller.endpoint, whole=message.method == "server/discover")
            outcome["_meta"] = {**(said if isinstance(said, Mapping) else {}), META_SERVER: info}
        return RpcReply(body=response(request, "result", outcome))

    def roots_changed(self, principal: Principal, capabilities: frozenset[str]) -> None:
        """Take the notification of a client that its folders have changed; that of a client without folders is dropped."""
        if "roots" in capabilities:
            self._gateway.context.roots.put(principal)

    async def respond(self, message: RpcMessage, principal: Principal) -> None:
        """Takes a client's answer to a question of ours; what answers none is dropped. Raises `AuditError` and `StateError`."""
        result = message.result if isinstance(message.result, Mapping) else None
        if isinstance(message.id, str) and not await self._calls.agreed(message.id, result, principal):
            self._mailbox.put(parties(principal), message.id, result)

    def converses(self, message: RpcMessage, caller: Caller) -> bool:
        """Return True if messages may be sent to the caller before the answer."""
        if message.method == "tasks/result":
            return True
        if not isinstance(message.params, dict):
            return False
        if message.method != "tools/call":
            return self._context.converses(message.method, message.params, message.meta, caller)
        logs = self.levels.asked or META_LOG_LEVEL in message.meta
        if not caller.capabilities and META_PROGRESS not in message.meta and not logs:
            return False  # it neither can be asked nor wants to be told
        name = message.params.get("name")
        return isinstance(name, str) and self._calls.converses(name, message.meta, caller)

    def header_parameters(self, message: RpcMessage, principal: Principal) -> Mapping[str, Json]:
        """The arguments of a call that its tool wants repeated in headers, by the header's name; None for one that was not given."""
        params = message.params if isinstance(message.params, dict) else {}
        name, arguments = params.get("name"), params.get("arguments")
        if message.method != "tools/call" or not isinstance(name, str):
            return _NOTHING
        wanted = self._listings.of(principal).headers(name)
        if not wanted:
            return _NOTHING
        given = arguments if isinstance(arguments, dict) else {}
        return {header: given.get(argument) for argument, header in wanted.items()}

    def listed(self, principal: Principal) -> Mapping[str, object] | None:
        """Return the current lists of a principal by the notification about each, to compare with earlier ones; None if the policy no
        longer has the principal."""
        current = self._gateway.callers.current(principal)
        if current is None:
            return None
        context = self._gateway.context
        prompts, resources = context.source_changes(current)
        return {
            LIST_CHANGED["toolsListChanged"]: self._listings.of(current).tools,
            LIST_CHANGED["promptsListChanged"]: (context.prompts(current), prompts),
            LIST_CHANGED["resourcesListChanged"]: (context.resources(current), context.templates(current), resources),
        }

    @property
    def alone(self) -> bool:
        """True where no other worker or gateway answers the same clients."""
        return self._gateway.tool_calls.approvals.departed.alone

    def changed(self) -> Coroutine[Any, Any, object]:
        """Return a wait until lists may have changed, counted from this call."""
        return self._gateway.tool_calls.changed()

    def source_lists_changed(self) -> Coroutine[Any, Any, object]:
        """Return a wait until a bridged server says that one of its lists has changed, counted from this call."""
        return self._gateway.context.updates.lists_changed()

    def _begun(self, spans: Spans, message: RpcMessage, request: Id, caller: Caller) -> Span:
        """A span for one request, which the call then belongs to. A tool that its caller may not see is not named."""
        name, label, version = None, str(request)[:_MAX_LABEL_LENGTH], claimed_version(message) or caller.version
        if message.method == "tools/call" and isinstance(message.params, dict):
            name = message.params.get("name")
        span = spans.begin(
            TracedRequest(
                method=message.method if message.method in METHODS else "other",
                tool=name if isinstance(name, str) and self._sees(caller.principal, name) else "",
                version=version if version in VERSIONS else "",
                request=label if label.isprintable() else client_label({"name": label}),
                parent=caller.caller_connection.trace,
            )
        )
        caller.caller_connection.trace = span.trace
        return span

    def _sees(self, principal: Principal, name: str) -> bool:
        """Return True if a principal may see a tool. One that has a plan is visible."""
        return self._gateway.tool_calls.plan(principal, name) is not None or (
            self._listings.of(principal).tool(name) is not None
        )

    async def _dispatch(
        self, message: RpcMessage, protocol_style: ProtocolStyle, caller: Caller
    ) -> dict[str, object] | RpcFault:
        params = message.params if isinstance(message.params, dict) else {}
        if (toolset := message.meta.get(META_TOOLSET)) is not None:
            narrowed = self._gateway.callers.narrowed(caller.principal, toolset) if isinstance(toolset, str) else None
            if narrowed is None:
                return RpcFault(
                    code=INVALID_PARAMS, message=f"params._meta.{META_TOOLSET} names no toolset of the policy"
                )
            caller = msgspec.structs.replace(caller, principal=narrowed)
        if META_CONVERSATION in message.meta:
            session = message.meta[META_CONVERSATION]
            if not isinstance(session, str) or (session and not identifier(session)):
                said = f"params._meta.{META_CONVERSATION} must be 1 to 128 visible ASCII characters"
                return RpcFault(code=INVALID_PARAMS, message=said)
            caller = msgspec.structs.replace(caller, session=session)
        match message.method, protocol_style:
            case "tools/call", _:
                return await self._calls.answer(params, message.meta, protocol_style, caller)
            case "tools/list", _:
                return self._list(params, protocol_style, caller, apps=_shows_apps(message, protocol_style, caller))
            case (
                ("tasks/get" | "tasks/cancel", _)
                | ("tasks/result" | "tasks/list", ProtocolStyle.STATEFUL)
                | (
                    "tasks/update",
                    ProtocolStyle.STATELESS,
                )
            ):
                return await self.tasks.answer(str(message.method), params, message.meta, protocol_style, caller)
            case "resources/read", _:
                return _cached(await self._read(params, message.meta, protocol_style, caller), protocol_style)
            case str() as method, _ if method in CONTEXT_METHODS:
                found = await self._context.answer(method, params, message.meta, protocol_style, caller)
                return _cached(found, protocol_style) if method in CONTEXT_LISTS else found
            case str() as method, ProtocolStyle.STATELESS if method in SKILL_METHODS and self._skills.offered:
                found = self._skills.answer(method, params, caller.principal)
                return _cached(found, protocol_style) if method in CACHED_SKILL_METHODS else found
            case str() as method, ProtocolStyle.STATEFUL if method in _OF_SESSIONS:
                return await self._of_session(method, params, caller)
            case "initialize", ProtocolStyle.STATEFUL:
                told = self._extensions(caller)
                capabilities = {**self._capabilities(), **({"extensions": told} if told else {})}
                return self._introduced(_initialize(params, capabilities), caller, "serverInfo")
            case "server/discover", ProtocolStyle.STATELESS:
                extensions = {TASKS_EXTENSION: {}, **self._skills.declared, **self._extensions(caller)}
                capabilities = {**self._capabilities(), "extensions": extensions}
                known: dict[str, object] = {"supportedVersions": list(VERSIONS), "capabilities": capabilities}
                return _cached(self._introduced(known, caller), protocol_style)
            case _:
                return RpcFault(code=METHOD_NOT_FOUND, message="this server does not have that method")

    def _info(self, endpoint: str, *, whole: bool) -> Mapping[str, Json]:
        """Introduction of the server. Icons are in introductions alone, as every other result would repeat them."""
        info = self._gateway.context.servers.settings(endpoint).info(_VERSION)
        return info if whole else {name: info[name] for name in ("name", "title", "version")}

    def _introduced(
        self, result: dict[str, object] | RpcFault, caller: Caller, info: str = ""
    ) -> dict[str, object] | RpcFault:
        """The result with who the server is, and its instructions for this caller: of what it may see, and of nothing else."""
        if isinstance(result, RpcFault):
            return result
        principal, gateway = caller.principal, self._gateway
        listing, context = self._listings.of(principal, caller.session or caller.connection), gateway.context
        offer = Offer(
            tools=listing.catalog,
            listed=frozenset(tool.name for tool in listing.tools),
            prompts=context.prompts(principal),
            resources=(*context.resources(principal), *context.templates(principal)),
        )
        said = gateway.context.servers.instructions(caller.endpoint, offer)
        if info:
            result[info] = self._info(caller.endpoint, whole=True)
        return result | ({"instructions": said} if said else {})

    async def _of_session(self, method: str, params: Mapping[str, Any], caller: Caller) -> dict[str, object] | RpcFault:
        """A method that sets something for a session: its level of log messages, or a subscription."""
        if method == "ping":
            return {}
        if method == "logging/setLevel":
            return self.levels.put((parties(caller.principal), caller.connection), params)
        uri = params.get("uri")
        if not isinstance(uri, str):
            return RpcFault(code=INVALID_PARAMS, message="params.uri must be a string")
        if method == "resources/unsubscribe":
            self.subscriptions.remove(caller.principal, caller.connection, uri)
        elif not self.subscriptions.add(caller.principal, caller.connection, uri):
            return resource_fault(NO_RESOURCE, uri, ProtocolStyle.STATEFUL)
        else:
            await self.subscriptions.settled(caller.principal, caller.connection, uri)
        return {}

    def _capabilities(self) -> dict[str, object]:
        return {**_CAPABILITIES, **self._context.capabilities}

    def _extensions(self, caller: Caller) -> dict[str, Mapping[str, Json]]:
        """The extensions about authorization, for a caller that showed a credential: over stdio there is no authorization server."""
        known = self._gateway.context.servers.settings(caller.endpoint).extensions
        return {name: {} for name in known} if caller.principal.proof is not None else {}

    def _own_app(self, caller: Caller) -> bool:
        """True if answers have the gateway's own app at this endpoint."""
        return self._gateway.context.servers.settings(caller.endpoint).apps

    async def _read(
        self, params: Mapping[str, Any], meta: Mapping[str, Any], protocol_style: ProtocolStyle, caller: Caller
    ) -> dict[str, object] | RpcFault:
        uri = params.get("uri")
        if not isinstance(uri, str):
            return RpcFault(code=INVALID_PARAMS, message="params.uri must be a string")
        if uri == OWN_PAGE and self._own_app(caller):
            return {"contents": [{"uri": uri, "mimeType": APP_TYPE, "text": answer_page()}]}
        if not uri.startswith(OWN_SCHEME):
            return await self._context.read(uri, params, meta, protocol_style, caller)
        found = await read_resource(self._gateway, caller, uri)
        if isinstance(found, Error):
            if found.retry_after_s is not None:
                return RpcFault.of(found)
            # Of 2026-07-28 (server/resources, error handling); before it there was a code of its own.
            code = INVALID_PARAMS if protocol_style is ProtocolStyle.STATELESS else RESOURCE_NOT_FOUND
            return RpcFault(code=code, message=found.message, data={"uri": uri[:_MAX_URI_LENGTH]})
        return found

    def _list(
        self, params: Mapping[str, Any], protocol_style: ProtocolStyle, caller: Caller, *, apps: bool
    ) -> dict[str, object] | RpcFault:
        cursor = params.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            return RpcFault(code=INVALID_PARAMS, message="params.cursor must be a string")
        try:
            listing = self._listings.of(caller.principal, caller.session or caller.connection)
            form = STATELESS if protocol_style is ProtocolStyle.STATELESS else WITH_TASKS
            page = listing.page(
                form if not apps else (OWN_APP_FORMS if self._own_app(caller) else APP_FORMS)[form],
                cursor=cursor or "",
                limit=_TOOLS_PER_PAGE,
            )
        except Malformed as error:
            return RpcFault(code=INVALID_PARAMS, message=f"params.cursor {error.message}")
        result: dict[str, object] = {"tools": page.tools}
        if page.next_cursor:
            result["nextCursor"] = page.next_cursor
        return _cached(result, protocol_style)


def _shows_apps(message: RpcMessage, protocol_style: ProtocolStyle, caller: Caller) -> bool:
    """True if the client declared that it shows apps."""
    if protocol_style is ProtocolStyle.STATELESS:
        return accepts_apps(message.meta.get(META_CAPABILITIES))
    return APPS in caller.capabilities


@cache
def answer_page() -> str:
    """Page of the gateway's own app: a table of an answer, or a card of a call that waits."""
    return (Path(__file__).parent / "static" / "answer.html").read_text(encoding="utf-8")


def _cached(result: dict[str, object] | RpcFault, protocol_style: ProtocolStyle) -> dict[str, object] | RpcFault:
    """Seconds that a client may keep it, where clients ask (2026-07-28): never to be shared between callers."""
    if protocol_style is ProtocolStyle.STATELESS and not isinstance(result, RpcFault):
        result |= {"ttlMs": _TTL_MS, "cacheScope": "private"}
    return result


def _error(outcome: dict[str, object] | RpcFault) -> str:
    """Return OpenTelemetry's `error.type` of an outcome; "" for success."""
    if isinstance(outcome, RpcFault):
        return str(outcome.code)
    return "tool_error" if outcome.get("isError") is True else ""


def _initialize(params: Mapping[str, Any], capabilities: Mapping[str, object]) -> dict[str, object] | RpcFault:
    requested = params.get("protocolVersion")
    if not isinstance(requested, str):
        return RpcFault(code=INVALID_PARAMS, message="params.protocolVersion must be a string")
    agreed = requested if requested in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[0]
    return {
        "protocolVersion": agreed,
        "capabilities": {**capabilities, "tasks": _TASKS} if agreed == "2025-11-25" else capabilities,
    }
