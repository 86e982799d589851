"""The messages of MCP that a client of tools needs, of both eras: those that begin with a handshake, and 2026-07-28.

The caller of an invalid answer is found by its `id`, so that it need not wait for the timeout.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Protocol, TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.http.scrubber import Scrubber
from toolgen.core.error_codes import ErrorCode
from toolgen.core.json_codec import MAX_DEPTH, encode_json
from toolgen.model.call import Call
from toolgen.model.client_channel import LOG_LEVELS, ClientChannel
from toolgen.model.excerpt import bounded
from toolgen.model.result import UNTRIED, Delivery, Error, Failed, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Effect

__all__ = [
    "CANCELLED",
    "PAGES",
    "STATEFUL",
    "STATELESS",
    "Agreed",
    "Meeting",
    "SharedSession",
    "Wire",
    "addressed",
    "cancel_notification",
    "claimed",
    "failed",
    "harmless",
    "initialize",
    "modern",
    "request",
    "result_of",
    "speaks",
    "tell_log",
    "tell_progress",
    "too_deep",
    "too_large",
    "unreadable",
]

STATELESS: Final = "2026-07-28"
CANCELLED: Final = "notifications/cancelled"
STATEFUL: Final = "2025-11-25"  # offered; a server may answer with an older one
_KNOWN = frozenset({STATEFUL, "2025-06-18", "2025-03-26", "2024-11-05"})
_WHO: Final[JsonObject] = {"name": "toolgen", "version": "1"}
_TASKS: Final = "io.modelcontextprotocol/tasks"
_NOTHING: Final[JsonObject] = {}
_PAGES_REQUIRED: Final = -32042
PAGES: Final = "elicitations"
_MAX_SAID_LENGTH = 600
_MAX_AMOUNT = 2**53


class Agreed(Struct, frozen=True, kw_only=True):
    """Negotiated state with a server: the protocol revision ("" before) and the session id if the server gave one."""

    version: str = ""
    session: str = ""


class Meeting(Struct, frozen=True, kw_only=True):
    """The session `epoch`: what was agreed on there, None where the reader has to begin it, and after which number to count."""

    epoch: int
    above: int
    agreed: Agreed | None
    server: tuple[str, str]


class SharedSession(Protocol):
    """A session with a server that several workers use for one caller.

    A protocol, because its implementation connects to a supervisor, which a conversation needs only with several workers.
    """

    epoch: int | None
    """That of the session that can be used now."""

    async def meet(self, lost: int | None) -> Meeting | Failed:
        """The session; another than `lost`, which the server does not know any more."""

    def settle(self, agreed: Agreed | None, server: tuple[str, str]) -> None:
        """Report the result of beginning the session; None if it failed."""


class Wire(Protocol):
    """Wire to an MCP server. `ask` and `tell` never raise for what the server does; `ask` returns the whole answer, errors included."""

    def ready(self) -> int | None:
        """The number of the server that can be asked now; None where `begin` has to see to that first."""

    async def begin(self) -> int | Failed:
        """Makes the way ready; another number than before means another server, with which nothing was agreed on."""

    async def ask(self, message: JsonObject, agreed: Agreed, call: Call) -> Success | Failed:
        """Waits for the answer for as long as it is let: the caller keeps the time, and cancels it. What the server says of its
        progress meanwhile is passed to the call's line."""

    def doubt(self) -> None:
        """A question was given up: the server may be past answering anything."""

    async def tell(self, message: JsonObject, agreed: Agreed, call: Call) -> None: ...

    def hears_cancellation(self, agreed: Agreed) -> bool:
        """Return True if a notification cancels a request; otherwise the end of its connection does."""

    def preview(self, message: JsonObject, call: Call) -> JsonObject:
        """Return what `ask` would send, with secrets masked."""

    def stale(self) -> bool:
        """Return True if the server has announced a changed tool list since the last call."""

    async def close(self) -> None: ...


def request(method: str, params: JsonObject, number: int) -> JsonObject:
    """A request as JSON-RPC 2.0 has it."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def cancel_notification(number: int) -> JsonObject:
    """Says that nobody waits for a request any more."""
    return {"jsonrpc": "2.0", "method": CANCELLED, "params": {"requestId": number}}


def initialize(number: int, capabilities: JsonObject) -> JsonObject:
    """The first message of the handshake."""
    return request(
        "initialize", {"protocolVersion": STATEFUL, "capabilities": capabilities, "clientInfo": _WHO}, number
    )


def modern(params: JsonObject, *, tasks: bool = False, capabilities: JsonObject = _NOTHING) -> JsonObject:
    """The parameters with what every request of 2026-07-28 carries. `tasks`: the tool may be run as a task."""
    meta: JsonObject = {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientCapabilities": {
            **capabilities,
            **({"extensions": {**_extensions(capabilities), _TASKS: {}}} if tasks else {}),
        },
        "io.modelcontextprotocol/clientInfo": _WHO,
    }
    said = params.get("_meta")
    return {**params, "_meta": {**(said if isinstance(said, Mapping) else {}), **meta}}


def _extensions(capabilities: JsonObject) -> Mapping[str, Json]:
    found = capabilities.get("extensions")
    return found if isinstance(found, Mapping) else {}


def tell_progress(line: ClientChannel, params: Json, scrubber: Scrubber) -> None:
    """Passes on how far a call has come; what is no progress as MCP has it is dropped."""
    said = params if isinstance(params, Mapping) else {}
    done, total, message = said.get("progress"), said.get("total"), said.get("message")
    if not _is_amount(done):
        return
    words = bounded(" ".join(scrubber.text(message).split()), _MAX_SAID_LENGTH) if isinstance(message, str) else ""
    line.progress(done, total if _is_amount(total) else None, words)


def tell_log(line: ClientChannel, params: Json, scrubber: Scrubber) -> None:
    """Passes on a log message of a server to the caller of the request that it belongs to, without secrets and what nobody sees."""
    said = params if isinstance(params, Mapping) else {}
    level, data = said.get("level"), said.get("data")
    if data is None or level not in LOG_LEVELS:
        return
    text = data if isinstance(data, str) else encode_json(data).decode()
    line.log(str(level), bounded(" ".join(scrubber.text(text).split()), _MAX_SAID_LENGTH))


def _is_amount(value: Json) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MAX_AMOUNT


def harmless(call: Call, method: str) -> bool:
    """Return True if a request can be abandoned or repeated without an effect."""
    return method != "tools/call" or call.tool.idempotent or call.tool.effect is Effect.READ


def unreadable(call: Call, method: str, delivery: Delivery) -> Failed:
    """An answer came that is none: of a call that changes something nobody knows what it did."""
    said = "the server answered with something that is not MCP"
    if harmless(call, method):
        return failed("upstream_error", said, delivery=delivery)
    message = f"{said}; the call may or may not have taken effect"
    return failed("outcome_unknown", message, "find out what happened before trying again", delivery)


def too_deep(delivery: Delivery) -> Failed:
    """The call was answered, and its answer is not given."""
    message = f"the server answered with JSON that is nested more than {MAX_DEPTH} levels deep"
    return failed("upstream_error", message, "ask for less; do not repeat a change for this", delivery)


def too_large(delivery: Delivery) -> Failed:
    """The call was answered, and its answer is not given."""
    message = "the server answered with more than a call may bring"
    return failed("response_too_large", message, "ask for less", delivery)


def speaks(result: JsonObject) -> str:
    """The revision that a server chose in the handshake, "" for one that nobody here knows."""
    version = result.get("protocolVersion")
    return version if isinstance(version, str) and version in _KNOWN else ""


def result_of(outcome: Success | Failed, call: Call, method: str) -> Success | Failed:
    """An answer's `result` as the data of a Success; anything else is Failed, with the server's words where it said why."""
    data = outcome.data
    if isinstance(outcome, Failed):
        said = _said(data)
        if said and not _unclear(outcome):
            return replace(failed("upstream_error", said, delivery=outcome.delivery), data=_pages(data))
        return outcome
    if outcome.truncated:
        return too_large(outcome.delivery)
    if said := _said(data):
        refusal = failed("upstream_error", said, "change the arguments as the answer says", outcome.delivery)
        return replace(refusal, data=_pages(data))
    result = data.get("result") if isinstance(data, Mapping) else None
    if not isinstance(result, Mapping):
        return unreadable(call, method, outcome.delivery)
    return Success(data=dict(result), delivery=outcome.delivery)


def _pages(data: Json) -> Json:
    """Return the web pages that a server wants visited before a call, as `{"elicitations": […]}` (2025-11-25, client/elicitation, URL
    Elicitation Required Error); None for any other error."""
    error = data.get("error") if isinstance(data, Mapping) else None
    details = error.get("data") if isinstance(error, Mapping) and error.get("code") == _PAGES_REQUIRED else None
    pages = details.get("elicitations") if isinstance(details, Mapping) else None
    return {PAGES: pages} if isinstance(pages, list) else None


def _unclear(outcome: Failed) -> bool:
    return outcome.error.code in {"outcome_unknown", "egress_refused"} or outcome.delivery.status in {
        401,
        403,
    }


def _said(data: Json) -> str:
    """Return the message of an error answer."""
    error = data.get("error") if isinstance(data, Mapping) else None
    if not isinstance(error, Mapping):
        return ""
    message, code = error.get("message"), error.get("code")
    number = f" {code}" if isinstance(code, int) else ""
    return (
        f"the server answered with the error{number}: {bounded(' '.join(str(message or '').split()), _MAX_SAID_LENGTH)}"
    )


def failed(code: ErrorCode, message: str, suggestion: str = "", delivery: Delivery = UNTRIED) -> Failed:
    """A call that did not succeed."""
    return Failed(error=Error(code=code, message=message, suggestion=suggestion), delivery=delivery)


# `id` is a member of the message itself where only `jsonrpc` stands before it, or where nothing but the end of the message comes behind:
# an unescaped quotation mark before `}` at the end of a line is never inside of a string.
_NUMBER = rb'"id"\s*:\s*"?(\d{1,15})(?:\.0{1,9})?"?\s*'
_VERSION = rb'"jsonrpc"\s*:\s*"[^"\\]{0,9}"\s*'
_AT_THE_HEAD = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _NUMBER + rb"[,}]")
_AT_THE_TAIL = re.compile(rb"[,{]\s*" + _NUMBER + rb"(?:,\s*" + _VERSION + rb")?\}\s*\Z")


def claimed(message: Json) -> tuple[int, ...]:
    """The requests that a message claims to answer, whatever is wrong with it: an id that is text or a float, or a batch of answers."""
    if isinstance(message, list):
        return tuple(number for one in message if isinstance(one, dict) for number in claimed(one))
    number = message.get("id") if isinstance(message, dict) and "method" not in message else None
    match number:
        case bool():
            return ()
        case int():
            return (number,)
        case float() if number.is_integer():
            return (int(number),)
        case str() if number.isascii() and number.isdigit() and len(number) < 16:
            return (int(number),)
        case _:
            return ()


def addressed(head: bytes, tail: bytes) -> tuple[int, ...]:
    """The request that a line answers of which nothing can be read but how it begins and how it ends."""
    found = _AT_THE_HEAD.match(head) or _AT_THE_TAIL.search(tail)
    return () if found is None else (int(found[1]),)
