"""Requests of an MCP server to the caller of a tool: policy, budgets and audit record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from toolgen.core.errors import AuditError, CanonicalError
from toolgen.model.call import Call
from toolgen.model.caller_requests import RequestKind, permitted, request_kind
from toolgen.model.client_channel import ClientChannel, ForwardingChannel, InputNeeded, Unasked
from toolgen.model.excerpt import bounded, current_masking
from toolgen.model.schema import Json, JsonObject
from toolgen.pipeline.filtered_channel import EXTERNAL, FilteredChannel, masked
from toolgen.pipeline.middleware import CallContext
from toolgen.pipeline.stages.record import Journal
from toolgen.policy.caller_requests import Allowances, RequestAllowance, admits_url
from toolgen.policy.limits import LimitCharge
from toolgen.state.rate_limits import Buckets, LimitRefusal

__all__ = ["CallerRequests"]

_MAX_REFUSALS: Final = 8  # maximum refusals that are recorded for a call
_MAX_TEXT_LENGTH: Final = 500
_NONE: Final[frozenset[str]] = frozenset()


class CallerRequests(Struct, frozen=True, kw_only=True):
    """Policy, budgets and audit record of servers' requests. `digest` makes the keyed digests of requests and answers for the record."""

    journal: Journal
    buckets: Buckets
    digest: Callable[[Json], Json]

    def channel(self, line: ClientChannel, call: Call, call_context: CallContext) -> ClientChannel:
        """Return the channel for a call to a server: it forwards requests that the policy allows."""
        if call_context.redacts:
            return FilteredChannel(line, EXTERNAL)
        if not line.capabilities and not call_context.unreachable:
            return line  # the client answers no requests
        return _GovernedChannel(line, call, call_context, self)


class _GovernedChannel(ForwardingChannel):
    """Client channel of one call to a server."""

    __slots__ = ("_call", "_counts", "_governance", "_masks", "_refusals", "_requests", "_unreachable")

    def __init__(self, line: ClientChannel, call: Call, call_context: CallContext, governance: CallerRequests) -> None:
        self._requests: Allowances = call_context.requests
        self._line, self._call, self._governance = line, call, governance
        self._unreachable = call_context.unreachable
        self._capabilities = _NONE
        if self._requests:  # a server that asks a caller who is not there is told why it gets no answer
            self._capabilities = (
                frozenset(self._requests) if self._unreachable else permitted(line.capabilities, self._requests.keys())
            )
        self._masks = call_context.inspected
        self._counts: dict[str, int] = {}
        self._refusals = 0

    async def ask(self, key: str, method: str, params: JsonObject) -> Json:
        """Return the caller's answer to an allowed request, which is recorded before it is forwarded. Raises `Unasked` for any other
        request."""
        kind = request_kind(method, params)
        allowed = () if kind is None else self._requests.get(kind, ())
        refusal = self._refusal(kind, allowed, params) or await self._spent(allowed)
        if kind == "sampling" and allowed:
            params = _shortened(params, min(one.max_tokens for one in allowed))
        if self._masks and (mask := current_masking()) is not None:
            params = masked(params, mask)
        said = _described(method, params) | {"digest": self._governance.digest(_canonical(params))}
        entry = {"event": "question", "rule": allowed[0].rule if allowed else "default", "arguments": said}
        if refusal:
            self._refusals += 1
            if self._refusals <= _MAX_REFUSALS:
                await self._record({**entry, "verdict": "deny", "status": "refused", "message": refusal})
            raise Unasked(refusal)
        await self._record({**entry, "verdict": "allow", "status": "asked"})
        try:
            answer = await self._line.ask(key, method, params)
        except (Unasked, InputNeeded) as error:  # a call of a server is not repeated to be answered
            await self._record({**entry, "event": "answer", "arguments": {"method": method}, "status": "none"})
            raise Unasked(str(error)) from None
        replied: dict[str, Json] = {"method": method, "digest": self._governance.digest(_canonical(answer))}
        await self._record({**entry, "event": "answer", "arguments": replied, "status": _status(answer)})
        return answer

    def _refusal(self, kind: RequestKind | None, allowed: tuple[RequestAllowance, ...], params: JsonObject) -> str:
        if kind is None or not allowed:
            return "no rule allows this request"
        if self._unreachable:
            return self._unreachable
        if kind not in self._line.capabilities:
            return "the caller's client does not support this request"
        if kind == "elicitation_url" and not admits_url(allowed, str(params.get("url"))):
            return "no rule allows a web page of this host"
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        return (
            "the call has made too many requests of this kind" if count > min(one.per_call for one in allowed) else ""
        )

    async def _spent(self, allowed: tuple[RequestAllowance, ...]) -> str:
        user = self._call.principal
        charges: list[LimitCharge] = []
        for one in allowed:
            if one.limit is not None:
                charge = LimitCharge(one.limit, (one.limit.id, user.id))
                charges += [] if any(charge.key == other.key for other in charges) else [charge]
        if charges and isinstance(await self._governance.buckets.acquire(charges), LimitRefusal):
            return "the caller got too many requests of this kind recently"
        return ""

    async def _record(self, entry: Mapping[str, Any]) -> None:
        """Record a request or its answer. Raises `Unasked` if that is impossible: no record, no request and no answer."""
        principal = self._call.principal
        who = {
            "call_id": self._call.id,
            "principal": principal.id,
            "on_behalf_of": "" if principal.on_behalf_of is None else principal.on_behalf_of.id,
            "tool": self._call.tool.name,
        }
        try:
            await self._governance.journal.append({**entry, **who})
        except (AuditError, CanonicalError) as error:
            raise Unasked("the request cannot be recorded") from error


def _shortened(params: JsonObject, most: int) -> JsonObject:
    wanted = params.get("maxTokens")
    return {**params, "maxTokens": min(wanted, most) if isinstance(wanted, int) else most}


def _canonical(value: Json) -> Json:
    return dict(value) if isinstance(value, Mapping) else value


def _described(method: str, params: JsonObject) -> dict[str, Json]:
    """Return a short text about a request for the audit log; the digest covers the whole request."""
    said: dict[str, Json] = {"method": method}
    for name in ("mode", "message", "url", "systemPrompt"):
        if isinstance(text := params.get(name), str):
            said[name] = bounded(text, _MAX_TEXT_LENGTH)
    schema, messages = params.get("requestedSchema"), params.get("messages")
    if isinstance(schema, Mapping) and isinstance(fields := schema.get("properties"), Mapping):
        said["fields"] = sorted(fields)
    if isinstance(messages, list):
        said |= {"messages": len(messages), "maxTokens": params.get("maxTokens")}
    if isinstance(tools := params.get("tools"), list):
        said["tools"] = sorted(str(one.get("name")) for one in tools if isinstance(one, Mapping))
    return said


def _status(answer: Json) -> str:
    action = answer.get("action") if isinstance(answer, Mapping) else None
    return str(action) if action in {"accept", "decline", "cancel"} else "ok"
