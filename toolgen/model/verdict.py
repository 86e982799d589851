"""Verdicts of the guards: Allow, Ask or Deny; and the approvers that an Ask needs."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from toolgen.core.error_codes import ErrorCode
from toolgen.model.egress_proxy import EgressProxy

__all__ = ["Allow", "Ask", "Consent", "Deny", "Verdict"]


class Allow(Struct, frozen=True, kw_only=True):
    """Permission: this guard has no objection to the call. A connection that is allowed with a `proxy` is made through it."""

    rule: str
    proxy: EgressProxy | None = None


class Consent(Struct, frozen=True, kw_only=True):
    """Approval that a rule requires: `quorum` people who each have one of `roles`; with neither, the approvers that the policy names
    for all calls."""

    rule: str
    roles: frozenset[str] = frozenset()
    quorum: int = 0


class Ask(Struct, frozen=True, kw_only=True):
    """Permission after people have agreed to exactly this call: the approvals of each of `wanted`."""

    rule: str
    reason: str
    consents: tuple[Consent, ...] = ()

    @property
    def wanted(self) -> tuple[Consent, ...]:
        """Approvals that the rules require; a verdict without any requires the approvers of the policy."""
        return self.consents or (Consent(rule=self.rule),)


class Deny(Struct, frozen=True, kw_only=True):
    """Refusal of the call. `code` is one of docs/reference/errors.md; `reason` and `suggestion` are written for the agent."""

    rule: str
    reason: str
    code: ErrorCode = "forbidden"
    suggestion: str = ""
    retry_after_s: float | None = None


Verdict: TypeAlias = Allow | Ask | Deny
