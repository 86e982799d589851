"""Who may agree to a call that a rule wants a person to agree to, and for how long the question stands."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

__all__ = ["LONGEST_S", "NOBODY", "Approval"]

LONGEST_S = 7 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """The roles whose principals may answer, and in how many seconds a question expires.

    `elicits`: the answer of the person at the caller's own client counts, where that client can ask one.
    """

    roles: frozenset[str]
    expires_s: float
    elicits: bool = False

    def may_answer(self, principal: str, roles: Collection[str], parties: Collection[str]) -> bool:
        """Whether a principal with these roles may answer for a call of these parties: never one of them."""
        return principal not in parties and not self.roles.isdisjoint(roles)


NOBODY = Approval(roles=frozenset(), expires_s=3600.0, elicits=True)
"""A policy without `approvals:`: there is nobody but the person at the caller's own client."""
