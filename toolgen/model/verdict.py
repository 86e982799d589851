"""What a guard answers: Allow, Ask or Deny."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Allow", "Ask", "Deny", "Verdict"]


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
