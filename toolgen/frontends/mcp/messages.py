"""MCP's messages: JSON-RPC as this server reads and writes it, and the fields of `_meta` in each protocol version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from toolgen.gateway.calls.json_body import Malformed, decode, encode
from toolgen.model.call import Principal
from toolgen.model.result import Error
from toolgen.model.trace_context import Trace, parse_trace
from toolgen.pipeline.middleware import CallerConnection

__all__ = [
    "ALONE",
    "BATCHED_VERSION",
    "HANDSHAKE_VERSIONS",
    "MODERN_VERSIONS",
    "VERSIONS",
    "Caller",
    "Id",
    "ProtocolStyle",
    "RpcFault",
    "RpcMessage",
    "RpcReply",
    "cancelled_request",
    "claimed_version",
    "client_label",
    "declares_tasks",
    "failed",
    "missing_capability",
    "parse",
    "parse_batch",
    "request_id",
    "response",
    "routed_name",
    "trace_of",
    "unsupported",
]

MODERN_VERSIONS = ("2026-07-28",)
HANDSHAKE_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
BATCHED_VERSION = "2025-03-26"
"""The only revision in which one request may hold several messages; 2025-06-18 removed them."""
VERSIONS = MODERN_VERSIONS + HANDSHAKE_VERSIONS

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022

CANCELLED = "notifications/cancelled"
LIST_CHANGED: Mapping[str, str] = MappingProxyType(
    {f"{name}ListChanged": f"notifications/{name}/list_changed" for name in ("tools", "prompts", "resources")}
)
"""The notifications about lists, by what a client asks for them with (2026-07-28, `subscriptions/listen`)."""
_ROUTED: Mapping[str, str] = MappingProxyType(
    {
        "tools/call": "name",
        "prompts/get": "name",
        "resources/read": "uri",
        **dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId"),
    }
)
NAMED = frozenset(_ROUTED)
"""The methods whose requests the header `Mcp-Name` says more of."""

META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_CLIENT = "io.modelcontextprotocol/clientInfo"
META_RELATED_TASK = "io.modelcontextprotocol/related-task"
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
TASKS = "tasks"
"""What a tool requires, and a client of 2026-07-28 declares as an extension."""
META_SERVER = "io.modelcontextprotocol/serverInfo"
META_CONVERSATION = "conversationId"
META_TOOLSET = "toolset"
META_PROGRESS = "progressToken"
META_IDEMPOTENCY = "idempotencyKey"
META_ACCOUNT = "toolgen/account"
"""Name of the account that a call is made with, of several that its person has at a system."""
META_TRACE = "traceparent"
META_ENVELOPE = "toolgen/envelope"
META_TRACE_STATE = "tracestate"

_MAX_CLIENT_LENGTH = 120
_MAX_BATCH = 32

Id: TypeAlias = int | str


class ProtocolStyle(Enum):
    """Protocol style of a peer: after a handshake (2025), or with everything in each request (2026-07-28)."""

    STATEFUL = "handshake"
    STATELESS = "modern"


class RpcMessage(msgspec.Struct):
    """JSON-RPC message. A request has an id and a method, a notification only a method; a response has no method.

    `meta` is `params._meta`, empty if that is absent or no object; a top-level member of this name is dropped.
    """

    jsonrpc: str
    method: str | msgspec.UnsetType = msgspec.UNSET
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    params: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    result: Any = msgspec.UNSET
    error: Any = msgspec.UNSET
    meta: Any = None

    def __post_init__(self) -> None:
        found = self.params.get("_meta") if isinstance(self.params, dict) else None
        self.meta = found if isinstance(found, dict) else {}


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a message comes from, and whether they still wait for its answer.

    `client`, `connection` (its own session) and `session` (the conversation that the caller named) are what the transport knows; a
    message may say more. `capabilities` are those of a client that shook hands; `send` says something to it before the answer. `version` is
    the protocol's, where the transport knows it; `key` the idempotency key that the transport was given, which `_meta` does not contradict.
    `endpoint` is the name of the server that it speaks to, "" for that at /mcp.
    """

    principal: Principal
    client: str = ""
    session: str = ""
    connection: str = ""
    caller_connection: CallerConnection = msgspec.field(default_factory=CallerConnection)
    capabilities: frozenset[str] = frozenset()
    send: Callable[[bytes], None] | None = None
    version: str = ""
    key: str = ""
    endpoint: str = ""


class RpcFault(Struct, frozen=True, kw_only=True):
    """A JSON-RPC error. Its text never repeats a value that was sent."""

    code: int
    message: str
    data: Mapping[str, object] | None = None
    retry_after_s: float | None = None

    @classmethod
    def of(cls, error: Error) -> RpcFault:
        """The fault for an error that is no fault of the request; `data` is the error as REST tells it."""
        data = msgspec.to_builtins(error)
        message = f"{error.code}: {error.message}"
        return cls(code=INTERNAL_ERROR, message=message, data=data, retry_after_s=error.retry_after_s)


ALONE = RpcFault(code=INVALID_REQUEST, message="initialize is sent alone, not in a batch")


class RpcReply(msgspec.Struct, frozen=True, kw_only=True):
    """JSON-RPC reply; its body is empty after a notification. `fault` is the JSON-RPC error code inside `body`, 0 for a result.
    `retry_after_s` is set if the gateway cannot answer now but may after that time."""

    body: bytes = b""
    fault: int = 0
    retry_after_s: float | None = None


def parse(data: bytes) -> RpcMessage | RpcReply:
    """Parse a message; return an error reply if the bytes are not a message. A batch is an error too (`parse_batch`)."""
    try:
        message = decode(data, RpcMessage)
    except Malformed as error:
        return _unreadable(data, error)
    if message.jsonrpc != "2.0":
        return failed(request_id(message), RpcFault(code=INVALID_REQUEST, message='jsonrpc must be "2.0"'))
    if message.id is None:
        return failed(None, RpcFault(code=INVALID_REQUEST, message="a request's id is a string or an integer"))
    if message.method is msgspec.UNSET and message.result is msgspec.UNSET and message.error is msgspec.UNSET:
        return failed(request_id(message), RpcFault(code=INVALID_REQUEST, message="the message has no method"))
    return message


def parse_batch(data: bytes) -> list[RpcMessage | RpcReply] | RpcReply:
    """The messages of a batch (JSON-RPC 2.0, section 6), or their error replies; one error reply to bytes that are no batch."""
    try:
        parts = decode(data, list[msgspec.Raw])
    except Malformed as error:
        return failed(None, RpcFault(code=PARSE_ERROR, message=error.message))
    if not 0 < len(parts) <= _MAX_BATCH:
        return failed(None, RpcFault(code=INVALID_REQUEST, message=f"a batch has 1 to {_MAX_BATCH} messages"))
    return [parse(bytes(part)) for part in parts]


def failed(request: Id | None, fault: RpcFault) -> RpcReply:
    """The reply that carries a fault."""
    error: dict[str, object] = {"code": fault.code, "message": fault.message}
    if fault.data is not None:
        error["data"] = fault.data
    return RpcReply(body=response(request, "error", error), fault=fault.code, retry_after_s=fault.retry_after_s)


def response(request: Id | None, name: str, value: object) -> bytes:
    """A JSON-RPC response with `result` or `error`. An id is given back exactly, however many digits it has."""
    identifier = str(request).encode() if isinstance(request, int) else encode(request)
    return b'{"jsonrpc":"2.0","id":%b,"%b":%b}' % (identifier, name.encode(), encode(value))


def claimed_version(message: RpcMessage) -> str:
    """The modern protocol version a message says it speaks, "" when it carries no such claim.

    `initialize` belongs to the handshake even when a client stamps the claim on it.
    """
    claim = message.meta.get(META_VERSION)
    return claim if isinstance(claim, str) and message.method != "initialize" else ""


def routed_name(message: RpcMessage) -> object:
    """Return the name that the header `Mcp-Name` repeats from a message; None if the method has no such header."""
    params = message.params if isinstance(message.params, dict) else {}
    return (
        params.get(_ROUTED[message.method]) if isinstance(message.method, str) and message.method in _ROUTED else None
    )


def missing_capability(message: str, names: Iterable[str]) -> RpcFault:
    """The fault for a client of 2026-07-28 that did not declare what a request takes."""
    wanted = sorted(names)
    required: dict[str, object] = {name: {} for name in wanted if name != TASKS}
    if TASKS in wanted:
        required["extensions"] = {TASKS_EXTENSION: {}}
    return RpcFault(code=MISSING_CAPABILITY, message=message, data={"requiredCapabilities": required})


def declares_tasks(capabilities: object) -> bool:
    """Return True if a client of 2026-07-28 accepts a task as the answer."""
    extensions = capabilities.get("extensions") if isinstance(capabilities, Mapping) else None
    return isinstance(extensions, Mapping) and isinstance(extensions.get(TASKS_EXTENSION), Mapping)


def cancelled_request(message: RpcMessage) -> Id | None:
    """The id of the request that a `notifications/cancelled` calls off; None for any other message, and for one that names none."""
    if message.method != CANCELLED or message.id is not msgspec.UNSET or not isinstance(message.params, dict):
        return None
    request = message.params.get("requestId")
    return request if isinstance(request, (int, str)) and not isinstance(request, bool) else None


def trace_of(message: RpcMessage) -> Trace | None:
    """The trace that `params._meta` says a request belongs to (MCP's reserved keys of W3C Trace Context)."""
    meta = message.meta
    return parse_trace(meta[META_TRACE], meta.get(META_TRACE_STATE)) if META_TRACE in meta else None


def unsupported(requested: str) -> RpcFault:
    """The fault for a version nobody here speaks."""
    return RpcFault(
        code=UNSUPPORTED_VERSION,
        message="this protocol version is not supported",
        data={"supported": list(VERSIONS), "requested": requested[:32]},
    )


def envelope_fault(message: RpcMessage) -> RpcFault | None:
    """Return the fault of the `_meta` of a 2026-07-28 request (basic, section Per-request protocol fields); None if there is none."""
    for key in (META_VERSION, META_CAPABILITIES):
        if key not in message.meta:
            return RpcFault(code=INVALID_PARAMS, message=f"params._meta must hold {key}")
    claim = message.meta[META_VERSION]
    if not isinstance(claim, str) or not isinstance(message.meta[META_CAPABILITIES], dict):
        return RpcFault(code=INVALID_PARAMS, message="params._meta holds a value of the wrong type")
    return None if claim in MODERN_VERSIONS else unsupported(claim)


def client_label(info: object) -> str:
    """`name/version` of a clientInfo object, printable and bounded; "" for anything else. Self-reported: for the audit log only."""
    if not isinstance(info, Mapping) or not isinstance(info.get("name"), str):
        return ""
    label = info["name"] + (f"/{info['version']}" if isinstance(info.get("version"), str) else "")
    label = label[:_MAX_CLIENT_LENGTH]
    return label if label.isprintable() else "".join(sign if sign.isprintable() else "?" for sign in label)


def request_id(message: RpcMessage) -> Id | None:
    return message.id if isinstance(message.id, (int, str)) else None


def _unreadable(data: bytes, error: Malformed) -> RpcReply:
    """The most exact error for bytes that are no message, with the id when one can still be read."""
    try:
        value = decode(data, object)
    except Malformed as unreadable:
        return failed(None, RpcFault(code=PARSE_ERROR, message=unreadable.message))
    if isinstance(value, list):
        return failed(
            None,
            RpcFault(
                code=INVALID_REQUEST, message=f"batches are for version {BATCHED_VERSION}; send one message at a time"
            ),
        )
    request: Id | None = None
    if isinstance(value, dict) and isinstance(value.get("id"), (int, str)) and not isinstance(value["id"], bool):
        request = value["id"]
    code = INVALID_PARAMS if error.pointer.startswith("/params") else INVALID_REQUEST
    return failed(request, RpcFault(code=code, message=f"{error.pointer or 'the message'}: {error.message}"))
