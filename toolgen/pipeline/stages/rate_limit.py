"""Stages that count: turns of a conversation, tokens of limits, and remaining quotas of the system behind a source."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from toolgen.core.background import SeldomLog
from toolgen.core.error_codes import ErrorCode
from toolgen.model.call import Call, GraphQLDocument
from toolgen.model.result import Error, Failed, Refused, Result, Success
from toolgen.model.tool import Tool
from toolgen.model.verdict import Deny
from toolgen.pipeline.call_plan import GENERAL, General, Prepared, PreparedStage
from toolgen.pipeline.middleware import CallContext, Judged, Next, refused
from toolgen.policy.limits import LimitCharge, Limits, merged
from toolgen.state.rate_limits import FREE, Buckets, LimitRefusal, Upstreams
from toolgen.state.turn_counter import MAX_CALLS, Excess, TurnLease

__all__ = ["LimitStage", "MeterStage", "TurnStage"]

_RULE = "turn_limit"
_MAX_KEPT = 10_000
_logger = logging.getLogger(__name__)


class TurnStage(Struct, frozen=True, kw_only=True):
    """Turn limit of conversations, which ends loops: a call without a lease in a turn is refused. The lease was taken when the call was
    made, so that concurrent calls are one turn."""

    limit: float

    def __call__(self, call: Call, call_context: CallContext) -> Judged | Coroutine[Any, Any, Judged]:
        # Without a lease it belongs to no conversation, or was counted before its approval.
        return call if call_context.turn_lease is None else self._leased(call, call_context.turn_lease)

    def prepared(self, _tool: Tool) -> Prepared:
        """Return None: a plan is for calls that count in no conversation."""
        return None

    async def _leased(self, call: Call, turn_lease: TurnLease) -> Judged:
        excess = await turn_lease.excess()
        return call if excess is None else Refused(error=self._error(excess))

    def _error(self, excess: Excess) -> Error:
        code: ErrorCode = "turn_limit"
        match excess.reason:
            case "spent":
                message = f"this conversation has used up its {self.limit:g} turns of tool calls"
                suggestion = (
                    "call no more tools in it: answer with the known facts and name the missing ones. Another conversation has turns "
                    "of its own"
                )
            case "crowded":
                message = f"this turn of the conversation has {MAX_CALLS} calls already"
                suggestion = "wait until they have ended, and make fewer calls at once"
            case "unreachable":
                code = "upstream_unavailable"
                message = "the turns of this conversation cannot be counted now, so nothing was sent"
                suggestion = "if this goes on, tell the operator of the gateway"
        return Error(
            code=code, message=message, suggestion=suggestion, retry_after_s=round(excess.retry_after_s, 3), rule=_RULE
        )


class LimitStage(Struct, frozen=True, kw_only=True):
    """Rate limits. Tokens are taken before the call and not given back; a call that waits in between pays once.

    Its places in flight are given back at its end, for any outcome. The charges of a principal for a tool are cached if they are always the
    same.
    """

    limits: Limits
    buckets: Buckets
    told: SeldomLog = field(default_factory=lambda: SeldomLog(_logger))
    _kept: dict[tuple[str, str], tuple[LimitCharge, ...]] = {}
    _at_once: dict[tuple[str, str], tuple[LimitCharge, ...] | None] = {}

    async def __call__(self, call: Call, call_context: CallContext, proceed: Next) -> Result:
        charges = self._kept.get((call.principal.id, call.tool.digest)) or self._charges(call)
        if isinstance(charges, Deny):
            return refused(charges)
        if call.approval:  # its tokens were taken before its approval
            charges = tuple(replace(charge, cost=0) for charge in charges)
        answer = await self.buckets.acquire(charges)
        if isinstance(answer, LimitRefusal):
            return _limited(answer, self.told)
        if not answer.keys:
            return await proceed(call, call_context)
        try:
            return await proceed(call, call_context)
        finally:
            self.buckets.release(answer)

    def prepared(self, tool: Tool) -> Prepared:
        """Return a step that takes the tokens at once, where they are counted in memory and no place in flight has to be given back.

        A call that cannot be served at once takes the general path, which waits or refuses.
        """
        kept, digest, take = self._at_once, tool.digest, self.buckets.take_now

        def step(call: Call, _call_context: CallContext) -> Literal[General.GENERAL] | None:
            key = (call.principal.id, digest)
            charges = kept[key] if key in kept else self._taken_at_once(call)
            return None if charges is not None and (not charges or take(charges)) else GENERAL

        return PreparedStage(step)

    def _taken_at_once(self, call: Call) -> tuple[LimitCharge, ...] | None:
        """Return the charges of every call like this one; None if they differ, or hold a place in flight."""
        charges = self._charges(call)
        found: tuple[LimitCharge, ...] | None = None
        if not isinstance(charges, Deny) and self.limits.fixed(call):
            found = None if any(charge.limit.concurrency for charge in charges) else tuple(charges)
        if len(self._at_once) >= _MAX_KEPT:
            self._at_once.clear()
        self._at_once[call.principal.id, call.tool.digest] = found
        return found

    def _charges(self, call: Call) -> Sequence[LimitCharge] | Deny:
        charges = self.limits.charges(call)
        if isinstance(charges, Deny) or not charges or not call.tool.digest or not self.limits.fixed(call):
            return charges
        if len(self._kept) >= _MAX_KEPT:
            self._kept.clear()
        self._kept[call.principal.id, call.tool.digest] = charges
        return charges


class MeterStage(Struct, frozen=True, kw_only=True):
    """Limits on requests that are about to be sent.

    A document counts as the calls in it, and each call is checked against the remaining quota that the system behind its source reported.
    The quota reported in the answer is stored.
    """

    limits: Limits
    buckets: Buckets
    upstreams: Upstreams
    told: SeldomLog = field(default_factory=lambda: SeldomLog(_logger))

    async def __call__(self, call: Call, call_context: CallContext, proceed: Next) -> Result:
        charges = () if call.document is None else self._inner(call, call.document)
        if isinstance(charges, Deny):
            return refused(charges)
        answer = await self.buckets.acquire(charges) if charges else FREE
        if isinstance(answer, LimitRefusal):
            return _limited(answer, self.told)
        try:
            wait = self.upstreams.take(call.tool.source)
            if wait is not None:
                self.told.say(
                    f"{call.tool.source} accepts no more calls for now, as its system reported: calls are refused"
                )
                return _held_up(call.tool.source, wait)
            result = await proceed(call, call_context)
        finally:
            if answer.keys:
                self.buckets.release(answer)
        if isinstance(result, Success | Failed) and (rates := result.delivery.rates) is not None:
            self.upstreams.hear(call.tool.source, rates)
        return result

    def prepared(self, _tool: Tool) -> Prepared:
        """Return a step that subtracts a call from the quota that the system reported, and stores the quota in its answer."""
        return PreparedStage(self._metered, self._heard)

    def _metered(self, call: Call, _call_context: CallContext) -> Literal[General.GENERAL] | None:
        return None if call.document is None and self.upstreams.take(call.tool.source) is None else GENERAL

    def _heard(self, call: Call, result: Result | None) -> None:
        if isinstance(result, Success | Failed) and (rates := result.delivery.rates) is not None:
            self.upstreams.hear(call.tool.source, rates)

    def _inner(self, call: Call, document: GraphQLDocument) -> tuple[LimitCharge, ...] | Deny:
        """Return the charges for the calls in a document, beyond those already taken for the call that carries it."""
        paid = self.limits.charges(call)
        if isinstance(paid, Deny):
            return paid
        charges: list[LimitCharge] = []
        for tool, arguments in document.roots:
            found = self.limits.charges(replace(call, tool=tool, arguments=arguments))
            if isinstance(found, Deny):
                return found
            charges += found
        return merged(charges, paid)


def _held_up(source: str, wait: float) -> Refused:
    return Refused(
        error=Error(
            code="rate_limited",
            message=f"the system behind {source} reported that it accepts no more calls for now",
            retry_after_s=wait,
            rule=f"upstream:{source}",
        )
    )


def _limited(refusal: LimitRefusal, told: SeldomLog) -> Refused:
    """Return the refusal for an exceeded limit, and log it.

    If the limit could not be counted, the refusal says that the call may be repeated; the counter has logged the reason.
    """
    code: ErrorCode = "rate_limited"
    match refusal.reason:
        case "spent":
            message, suggestion = f"too many calls: limit {refusal.limit} is used up", ""
            told.say(f"limit {refusal.limit} is used up for a caller: calls are refused")
        case "crowded":
            message = f"too many calls at once: limit {refusal.limit} has no place left"
            suggestion = "wait until one of them has ended"
            told.say(f"limit {refusal.limit} has no place left for a caller: calls are refused")
        case "unreachable":
            code = "upstream_unavailable"
            message = f"limit {refusal.limit} cannot be counted now, so nothing was sent"
            suggestion = "if this goes on, tell the operator of the gateway"
    return Refused(
        error=Error(
            code=code,
            message=message,
            suggestion=suggestion,
            retry_after_s=refusal.retry_after_s,
            rule=refusal.limit,
        )
    )
