"""The stage that counts: every limit the call draws on must have enough for it, or none is drawn on."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from toolgen.model.call import Call
from toolgen.model.result import Error, Refused, Result
from toolgen.model.verdict import Deny
from toolgen.pipeline.chain import Next, Trail
from toolgen.policy.limits import Limits
from toolgen.state.buckets import Buckets, Refusal

__all__ = ["LimitStage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitStage:
    """How often. Tokens are taken before the call and stay taken, once for a call that waits in between; its places in flight
    are given back however it ends."""

    limits: Limits
    buckets: Buckets

    async def __call__(self, call: Call, trail: Trail, proceed: Next) -> Result:
        charges = self.limits.charges(call)
        if isinstance(charges, Deny):
            return _denied(charges)
        if call.approval:  # its tokens were taken when it was asked for
            charges = tuple(msgspec.structs.replace(charge, cost=0) for charge in charges)
        answer = await self.buckets.acquire(charges)
        if isinstance(answer, Refusal):
            return refused(answer)
        if not answer.keys:
            return await proceed(call, trail)
        try:
            return await proceed(call, trail)
        finally:
            self.buckets.release(answer)


def refused(refusal: Refusal) -> Refused:
    """What the caller is told. Where nobody could count, the call is turned away as one that may be repeated."""
    code = "rate_limited"
    wait = f"wait {refusal.retry_after_s:g} s before calling again"
    match refusal.reason:
        case "spent":
            message, suggestion = f"too many calls: limit {refusal.limit} is used up", wait
        case "crowded":
            message = f"too many calls at once: limit {refusal.limit} has no place left"
            suggestion = "wait for one of them to end before calling again"
        case "unreachable":
            code = "upstream_unavailable"
            message = f"limit {refusal.limit} cannot be counted now, so nothing was sent"
            suggestion = f"{wait}; if this goes on, tell whoever runs the gateway"
    return Refused(
        error=Error(
            code=code,
            message=message,
            suggestion=suggestion,
            retry_after_s=refusal.retry_after_s,
            rule=refusal.limit,
        )
    )


def _denied(verdict: Deny) -> Refused:
    return Refused(
        error=Error(code=verdict.code, message=verdict.reason, suggestion=verdict.suggestion, rule=verdict.rule)
    )
