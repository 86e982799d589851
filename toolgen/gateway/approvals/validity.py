"""Validity of a waiting call: it has not expired, and it is the same call under the policy in force."""

from __future__ import annotations

from toolgen.gateway.operations.kept_principals import of_party
from toolgen.gateway.policies.compiled_policy import CompiledPolicy
from toolgen.model.call import Call, as_asked
from toolgen.model.tool import absent
from toolgen.pipeline.stages.approve import STALE, approval_digest, without_approval
from toolgen.state.invocations import AccountState, Invocation

__all__ = ["expiry_reason", "is_expired", "kept_call"]


def is_expired(known: Invocation, now: float) -> bool:
    """Return True if a waiting call has expired."""
    return known.expires <= now


def expiry_reason(known: Invocation, now: float, compiled_policy: CompiledPolicy) -> str:
    """Return the reason why an answer for this call can no longer count, or "" if it can."""
    if is_expired(known, now):
        missing = "no account was linked" if known.kind == "account" else "nobody answered"
        return f"{missing} for this call in time; make it again if you still need it"
    return "" if kept_call(known, compiled_policy) is not None else STALE


def kept_call(known: Invocation, compiled_policy: CompiledPolicy) -> Call | None:
    """Return the call as it was requested, with its approval; None if it is another call under this policy."""
    asked = of_party(known.principal)
    found = compiled_policy.identity.current(asked, known.asked)
    if found is None:
        return None
    principal = as_asked(found, asked)
    call = Call(
        id=known.id,
        tool=compiled_policy.tool(known.tool) or absent(known.tool),
        arguments=known.arguments,
        principal=principal,
        session=known.session,
        client=known.client,
        parent=known.parent,
        ancestry=known.ancestry,
        idempotency_key=known.idempotency_key,
        bound=known.bound,
        restored=known.restored,
        approval=_approval(known),
        withheld=compiled_policy.withheld,
        resume=known.workflow.resume,
    )
    return call if approval_digest(call, compiled_policy.scope_hash(principal, call.tool)) == known.digest else None


def _approval(known: Invocation) -> str:
    """Return the digest of the approval of a call; of one that waited for an account and had none, one that no question accepts."""
    state = known.waits_for
    asked = not isinstance(state, AccountState) or state.approval is not None
    return known.digest if asked else without_approval(known.digest)
