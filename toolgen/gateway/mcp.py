"""MCP for a tool server: one JSON-RPC message in, at most one out, whatever carries them and whichever era they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from importlib.metadata import version
from typing import Any, TypeAlias

import msgspec
import orjson

from toolgen.gateway.answers import data_json, data_text, envelope_json, error_text
from toolgen.gateway.facade import Facade
from toolgen.gateway.listings import Listing, Listings
from toolgen.gateway.stand_ins import CALL
from toolgen.gateway.wire import Malformed, decode, encode, identifier
from toolgen.model.call import Principal
from toolgen.model.result import Envelope

__all__ = [
    "HANDSHAKE_VERSIONS",
    "MODERN_VERSIONS",
    "VERSIONS",
    "Caller",
    "Era",
    "Fault",
    "Mcp",
    "Message",
    "Reply",
    "claimed_version",
    "client_label",
    "parse",
]

MODERN_VERSIONS = ("2026-07-28",)
HANDSHAKE_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
VERSIONS = MODERN_VERSIONS + HANDSHAKE_VERSIONS

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022

META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_CLIENT = "io.modelcontextprotocol/clientInfo"
META_SERVER = "io.modelcontextprotocol/serverInfo"
META_CONVERSATION = "conversationId"
META_TOOLSET = "toolset"

_TOOLS_PER_PAGE = 250
_TTL_MS = 5000
_LONGEST_NAME = 128
_LONGEST_CLIENT = 120
_SERVER_INFO = {"name": "toolgen", "title": "toolgen", "version": version("toolgen")}
_CAPABILITIES: dict[str, object] = {"tools": {}}

Id: TypeAlias = int | str


class Era(Enum):
    """How a peer speaks: after a handshake (2025), or with everything in each request (2026-07-28)."""

    HANDSHAKE = "handshake"
    MODERN = "modern"


class Message(msgspec.Struct):
    """One JSON-RPC message. A request has an id and a method, a notification a method alone, a response neither method nor place here."""

    jsonrpc: str
    method: str | msgspec.UnsetType = msgspec.UNSET
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    params: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    result: Any = msgspec.UNSET
    error: Any = msgspec.UNSET

    @property
    def meta(self) -> Mapping[str, Any]:
        """`params._meta`, empty when it is absent or no object."""
        found = self.params.get("_meta") if isinstance(self.params, dict) else None
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whom a message comes from. `client` and `session` are what the transport knows; a message may say more."""

    principal: Principal
    client: str = ""
    session: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A JSON-RPC error. Its text never repeats a value that was sent."""

    code: int
    message: str
    data: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What goes back: nothing after a notification. `fault` is the JSON-RPC error code inside `body`, 0 for a result."""

    body: bytes = b""
    fault: int = 0


def parse(data: bytes) -> Message | Reply:
    """One message, or the error reply to bytes that are none; a batch is none (2025-06-18 removed them, and no client here sends one)."""
    try:
        message = decode(data, Message)
    except Malformed as error:
        return _unreadable(data, error)
    if message.jsonrpc != "2.0":
        return failed(_id(message), Fault(code=INVALID_REQUEST, message='jsonrpc must be "2.0"'))
    if message.id is None:
        return failed(None, Fault(code=INVALID_REQUEST, message="a request's id is a string or an integer"))
    if message.method is msgspec.UNSET and message.result is msgspec.UNSET and message.error is msgspec.UNSET:
        return failed(_id(message), Fault(code=INVALID_REQUEST, message="the message has no method"))
    return message


def failed(request: Id | None, fault: Fault) -> Reply:
    """The reply that carries a fault."""
    error: dict[str, object] = {"code": fault.code, "message": fault.message}
    if fault.data is not None:
        error["data"] = fault.data
    return Reply(body=encode({"jsonrpc": "2.0", "id": request, "error": error}), fault=fault.code)


def claimed_version(message: Message) -> str:
    """The modern protocol version a message says it speaks, "" when it carries no such claim.

    `initialize` belongs to the handshake even when a client stamps the claim on it.
    """
    claim = message.meta.get(META_VERSION)
    return claim if isinstance(claim, str) and message.method != "initialize" else ""


def unsupported(requested: str) -> Fault:
    """The fault for a version nobody here speaks."""
    return Fault(
        code=UNSUPPORTED_VERSION,
        message="this protocol version is not supported",
        data={"supported": list(VERSIONS), "requested": requested[:32]},
    )


def envelope_fault(message: Message) -> Fault | None:
    """What is wrong with a modern request's `_meta` (2026-07-28, basic, section Per-request protocol fields)."""
    for key in (META_VERSION, META_CAPABILITIES):
        if key not in message.meta:
            return Fault(code=INVALID_PARAMS, message=f"params._meta must hold {key}")
    claim = message.meta[META_VERSION]
    if not isinstance(claim, str) or not isinstance(message.meta[META_CAPABILITIES], dict):
        return Fault(code=INVALID_PARAMS, message="params._meta holds a value of the wrong type")
    return None if claim in MODERN_VERSIONS else unsupported(claim)


def client_label(info: object) -> str:
    """`name/version` of a clientInfo object, printable and bounded; "" for anything else. Self-reported: for the record only."""
    if not isinstance(info, Mapping) or not isinstance(info.get("name"), str):
        return ""
    label = info["name"] + (f"/{info['version']}" if isinstance(info.get("version"), str) else "")
    return "".join(sign if sign.isprintable() else "?" for sign in label[:_LONGEST_CLIENT])


class Mcp:
    """The methods of a tool server over one gateway."""

    def __init__(self, gateway: Facade, listings: Listings) -> None:
        self._gateway = gateway
        self._listings = listings

    async def answer(self, message: Message, *, era: Era, caller: Caller) -> Reply:
        """The reply to one parsed message. Notifications and responses are accepted and have none.

        `notifications/cancelled` is among them: a call that has begun runs to its end, because what it did must be on record.
        """
        request = _id(message)
        if request is None or not isinstance(message.method, str):
            return Reply()
        if era is Era.MODERN and (fault := envelope_fault(message)):
            return failed(request, fault)
        outcome = await self._dispatch(message, era, caller)
        if isinstance(outcome, Fault):
            return failed(request, outcome)
        if era is Era.MODERN:
            outcome["resultType"] = "complete"
            outcome["_meta"] = {META_SERVER: _SERVER_INFO}
        return Reply(body=encode({"jsonrpc": "2.0", "id": request, "result": outcome}))

    async def _dispatch(self, message: Message, era: Era, caller: Caller) -> dict[str, object] | Fault:
        params = message.params if isinstance(message.params, dict) else {}
        if (toolset := message.meta.get(META_TOOLSET)) is not None:
            narrowed = self._gateway.narrowed(caller.principal, toolset) if isinstance(toolset, str) else None
            if narrowed is None:
                return Fault(code=INVALID_PARAMS, message=f"params._meta.{META_TOOLSET} names no toolset of the policy")
            caller = replace(caller, principal=narrowed)
        match message.method, era:
            case "tools/call", _:
                return await self._call(params, message.meta, caller)
            case "tools/list", _:
                return self._list(params, era, caller)
            case "initialize", Era.HANDSHAKE:
                return _initialize(params)
            case "ping", Era.HANDSHAKE:
                return {}
            case "server/discover", Era.MODERN:
                return {
                    "supportedVersions": list(VERSIONS),
                    "capabilities": _CAPABILITIES,
                    "ttlMs": _TTL_MS,
                    "cacheScope": "private",
                }
            case _:
                return Fault(code=METHOD_NOT_FOUND, message="this server does not have that method")

    def _list(self, params: Mapping[str, Any], era: Era, caller: Caller) -> dict[str, object] | Fault:
        cursor = params.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            return Fault(code=INVALID_PARAMS, message="params.cursor must be a string")
        try:
            page = self._listings.of(caller.principal).page("mcp", cursor=cursor or "", limit=_TOOLS_PER_PAGE)
        except Malformed as error:
            return Fault(code=INVALID_PARAMS, message=f"params.cursor {error.message}")
        result: dict[str, object] = {"tools": orjson.Fragment(page.tools)}
        if page.next_cursor:
            result["nextCursor"] = page.next_cursor
        if era is Era.MODERN:
            result |= {"ttlMs": _TTL_MS, "cacheScope": "private"}
        return result

    async def _call(
        self, params: Mapping[str, Any], meta: Mapping[str, Any], caller: Caller
    ) -> dict[str, object] | Fault:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
            return Fault(
                code=INVALID_PARAMS, message=f"params.name must be a string of 1 to {_LONGEST_NAME} characters"
            )
        if arguments is not None and not isinstance(arguments, dict):
            return Fault(code=INVALID_PARAMS, message="params.arguments must be an object")
        session = meta.get(META_CONVERSATION, caller.session)
        if not isinstance(session, str) or (session and not identifier(session)):
            return Fault(
                code=INVALID_PARAMS,
                message=f"params._meta.{META_CONVERSATION} must be 1 to 128 visible ASCII characters",
            )
        envelope = await self._gateway.call(
            name,
            arguments or {},
            principal=caller.principal,
            session=session,
            client=client_label(meta.get(META_CLIENT)) or caller.client,
        )
        return _tool_result(envelope, name, self._listings.of(caller.principal))


def _initialize(params: Mapping[str, Any]) -> dict[str, object] | Fault:
    requested = params.get("protocolVersion")
    if not isinstance(requested, str):
        return Fault(code=INVALID_PARAMS, message="params.protocolVersion must be a string")
    return {
        "protocolVersion": requested if requested in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[0],
        "capabilities": _CAPABILITIES,
        "serverInfo": _SERVER_INFO,
    }


def _tool_result(envelope: Envelope, name: str, listing: Listing) -> dict[str, object]:
    """MCP's CallToolResult.

    Structured content is the data of a tool that shows an output schema, and the envelope otherwise. Clients hold whatever stands there
    against the schema, even in an error (the TypeScript SDK), so such a tool's error has text alone, and so does an answer that broke
    the upstream's promise: said to have been carried out, because an agent that thinks it failed would do it twice.
    """
    # Whatever tool it calls, what call_tool promises is the envelope.
    declares = name != CALL and listing.declares_output(name)
    if envelope.status != "ok":
        result: dict[str, object] = {"content": [_text(error_text(envelope))], "isError": True}
        if not declares:
            result["structuredContent"] = envelope_json(envelope)
        return result
    data = data_json(envelope.data)
    text = _text(data_text(envelope, data))
    if not declares:
        structured: object = envelope_json(envelope, data)
    elif listing.fits(name, envelope.data):
        structured = orjson.Fragment(data)
    else:
        note = (
            f"The call was carried out (call id {envelope.call_id}): do not repeat it because of this message. "
            "Its answer does not have the shape this tool declares; it follows as text."
        )
        return {"content": [_text(note), text], "isError": True}
    return {"content": [text], "structuredContent": structured, "isError": False}


def _text(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def _id(message: Message) -> Id | None:
    return message.id if isinstance(message.id, (int, str)) else None


def _unreadable(data: bytes, error: Malformed) -> Reply:
    """The most exact error for bytes that are no message, with the id when one can still be read."""
    try:
        value = decode(data, object)
    except Malformed as unreadable:
        return failed(None, Fault(code=PARSE_ERROR, message=unreadable.message))
    if isinstance(value, list):
        return failed(None, Fault(code=INVALID_REQUEST, message="batches are not accepted; send one message at a time"))
    request: Id | None = None
    if isinstance(value, dict) and isinstance(value.get("id"), (int, str)) and not isinstance(value["id"], bool):
        request = value["id"]
    code = INVALID_PARAMS if error.pointer.startswith("/params") else INVALID_REQUEST
    return failed(request, Fault(code=code, message=f"{error.pointer or 'the message'}: {error.message}"))
