"""Idempotency keys that were used: which call each belongs to, and how that ended."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

__all__ = ["Claim", "Ledger"]


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One key in use. `id` is a digest over caller, tool and key; `arguments` one over what the call was made with.

    `running`: its call is under way, and whoever carries it out says so again before `lease` is over. `waiting`: it waits for a person.
    `ended`: `outcome` is what the caller was told, sealed. Times are seconds since the epoch; at `expires` the key is forgotten.
    """

    id: str
    call_id: str
    holder: str
    tool: str
    arguments: str
    status: Literal["running", "waiting", "ended"] = "running"
    lease: float = 0.0
    expires: float
    outcome: bytes = b""


class Ledger(Protocol):
    """Where keys are kept, shared by every worker and there again after a crash. Each method raises `StateError`."""

    async def claim(self, claim: Claim, now: float, *, most: int) -> Claim | None:
        """Keeps a claim where its key is not in use, and returns what is kept now; None where its holder has `most` keys in use."""

    async def settle(self, claim: Claim) -> None:
        """Puts a claim in place of what is kept of the same key and the same call."""

    async def lose(self, claim: Claim, now: float) -> None:
        """Ends a claim as `claim` says, if its call is running and nobody has said so in time."""

    async def release(self, claim: Claim) -> None:
        """Forgets the key of a call that did nothing: it may be used again."""

    async def of_calls(self) -> dict[str, Claim]:
        """Every key in use, by its call."""

    async def now(self) -> float:
        """The time that all who share the keys go by, in seconds since the epoch."""

    async def changed(self, within: float) -> None:
        """Returns when something may have changed, or after so many seconds."""

    async def close(self) -> None:
        """Lets go of what is open."""
