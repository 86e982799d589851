"""The messages of MCP that a client of tools needs, of both eras: those that begin with a handshake, and 2026-07-28."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from toolgen.model.call import Call
from toolgen.model.result import Error, Failed, Success, bounded
from toolgen.model.schema import Json, JsonObject

__all__ = [
    "HANDSHAKE",
    "MODERN",
    "Agreed",
    "Wire",
    "failed",
    "initialize",
    "modern",
    "request",
    "result_of",
    "speaks",
]

MODERN: Final = "2026-07-28"
HANDSHAKE: Final = "2025-11-25"  # offered; a server may answer with an older one
_KNOWN = frozenset({HANDSHAKE, "2025-06-18", "2025-03-26", "2024-11-05"})
_WHO: Final[JsonObject] = {"name": "toolgen", "version": "1"}
_LONGEST_SAID = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """What was agreed on with a server: a revision ("" before), and a session where it gave one."""

    version: str = ""
    session: str = ""


class Wire(Protocol):
    """One way to a server. `ask` and `tell` never raise for what it does; what `ask` brings is the whole answer, errors included."""

    async def begin(self) -> int | Failed:
        """Makes the way ready; another number than before means another server, with which nothing was agreed on."""

    async def ask(self, message: JsonObject, agreed: Agreed, call: Call) -> Success | Failed: ...

    async def tell(self, message: JsonObject, agreed: Agreed, call: Call) -> None: ...

    def stale(self) -> bool:
        """Whether the server has said since the last question that its tools are others now."""

    async def close(self) -> None: ...


def request(method: str, params: JsonObject, number: int) -> JsonObject:
    """A request as JSON-RPC 2.0 has it."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def initialize(number: int) -> JsonObject:
    """The first message of the handshake. No capability: a server has nothing to ask of us, neither texts of models nor of people."""
    return request("initialize", {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": _WHO}, number)


def modern(params: JsonObject) -> JsonObject:
    """The parameters with what every request of 2026-07-28 carries."""
    meta: JsonObject = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": _WHO,
    }
    return {**params, "_meta": meta}


def speaks(result: JsonObject) -> str:
    """The revision that a server chose in the handshake, "" for one that nobody here knows."""
    version = result.get("protocolVersion")
    return version if isinstance(version, str) and version in _KNOWN else ""


def result_of(outcome: Success | Failed) -> Success | Failed:
    """An answer's `result` as the data of a Success; anything else is Failed, with the server's words where it said why."""
    data = outcome.data
    if isinstance(outcome, Failed):
        said = _said(data)
        return failed("upstream_error", said, facts=outcome.facts) if said and not _unclear(outcome) else outcome
    if outcome.truncated:
        return failed(
            "response_too_large", "the server answered with more than a call may bring", "ask for less", outcome.facts
        )
    if said := _said(data):
        return failed("upstream_error", said, "change the arguments as the answer says", outcome.facts)
    result = data.get("result") if isinstance(data, Mapping) else None
    if not isinstance(result, Mapping):
        return failed("upstream_error", "the server answered with something that is not MCP", facts=outcome.facts)
    return Success(data=dict(result), facts=outcome.facts)


def _unclear(outcome: Failed) -> bool:
    return outcome.error.code in {"outcome_unknown", "egress_refused"} or outcome.facts.get("upstream_status") in {
        401,
        403,
    }


def _said(data: Json) -> str:
    """What an error answer says."""
    error = data.get("error") if isinstance(data, Mapping) else None
    if not isinstance(error, Mapping):
        return ""
    message, code = error.get("message"), error.get("code")
    number = f" {code}" if isinstance(code, int) else ""
    return f"the server answered with the error{number}: {bounded(' '.join(str(message or '').split()), _LONGEST_SAID)}"


def failed(code: str, message: str, suggestion: str = "", facts: Mapping[str, Json] | None = None) -> Failed:
    """A call that did not succeed."""
    return Failed(error=Error(code=code, message=message, suggestion=suggestion), facts=facts or {})
