"""What a guard answers: Allow, Ask or Deny; and what an Ask wants of people."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

__all__ = ["Allow", "Ask", "Consent", "Deny", "Verdict"]


class Allow(Struct, frozen=True, kw_only=True):
    """Nothing this guard knows speaks against the call."""

    rule: str


class Consent(Struct, frozen=True, kw_only=True):
    """What a rule wants before a call goes on: `quorum` people who each have one of `roles`; with neither, those that the policy names
    for all calls."""

    rule: str
    roles: frozenset[str] = frozenset()
    quorum: int = 0


class Ask(Struct, frozen=True, kw_only=True):
    """The call may go on once people have agreed to exactly it: those of each of `wanted`."""

    rule: str
    reason: str
    consents: tuple[Consent, ...] = ()

    @property
    def wanted(self) -> tuple[Consent, ...]:
        """What each rule that asks wants; of a verdict that says nothing of it, the approvers of the policy."""
        return self.consents or (Consent(rule=self.rule),)


class Deny(Struct, frozen=True, kw_only=True):
    """The call does not go on. `code` is one of docs/reference/errors.md; `reason` and `suggestion` are written for the agent."""

    rule: str
    reason: str
    code: str = "forbidden"
    suggestion: str = ""
    retry_after_s: float | None = None


Verdict: TypeAlias = Allow | Ask | Deny
