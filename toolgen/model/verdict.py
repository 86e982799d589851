"""What a guard answers: Allow, Ask or Deny, and how several become one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Allow", "Ask", "Deny", "Verdict", "strictest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allow:
    """Nothing this guard knows speaks against the call."""

    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The call may go on once a person has agreed to exactly it."""

    rule: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    """The call does not go on. `code` is one of contracts.md; `reason` and `suggestion` are written for the agent."""

    rule: str
    reason: str
    code: str = "forbidden"
    suggestion: str = ""
    retry_after_s: float | None = None


Verdict: TypeAlias = Allow | Ask | Deny


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """Deny beats Ask beats Allow; the first of a kind speaks for it. No verdict at all is a Deny."""
    asked: Ask | None = None
    allowed: Allow | None = None
    for verdict in verdicts:
        match verdict:
            case Deny():
                return verdict
            case Ask():
                asked = asked or verdict
            case Allow():
                allowed = allowed or verdict
    return asked or allowed or Deny(rule="default", reason="no rule allows this call")
