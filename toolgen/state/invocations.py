"""Calls that outlive the request they came with: what is kept of each, and what a place that keeps them can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

import msgspec

from toolgen.model.call import Origin, Proof

__all__ = ["Invocation", "Invocations", "Party", "Status", "as_json", "from_json"]

Status = Literal["pending", "approved", "running", "ended"]


class Party(msgspec.Struct, frozen=True, kw_only=True):
    """A principal as it was when it called, by what it was known, and where its roles and attributes came from."""

    id: str
    roles: tuple[str, ...]
    attributes: dict[str, Any]
    on_behalf_of: Party | None = None
    toolsets: tuple[str, ...] = ()
    proof: Proof | None = None
    origin: Origin | None = None


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """One call on its way: it waits for an answer (`pending`), may be carried out (`approved`), is being so (`running`) or `ended`.

    `digest` is what an answer is bound to. `home` is the machine that took the call on, which alone carries it out; `attempt` counts how
    often it was let go again before anything happened. Times are seconds since the epoch. Until `lease`, `owner` alone moves it on; an
    owner that dies leaves the lease to lapse. `arguments` are exact, and so may be sensitive; `bound` names those that the policy set.
    `envelope` is the JSON the caller gets once it ended.
    """

    id: str
    status: Status = "pending"
    version: int = 1
    principal: Party
    tool: str
    effect: str
    arguments: dict[str, Any]
    bound: tuple[str, ...] = ()
    sql: str = ""
    rule: str = ""
    digest: str
    tool_digest: str
    policy_digest: str
    session: str = ""
    client: str = ""
    parent: str = ""
    idempotency_key: str = ""
    asked: float
    expires: float
    home: str = ""
    attempt: int = 0
    owner: str = ""
    lease: float = 0.0
    ended: float = 0.0
    envelope: dict[str, Any] | None = None


class Invocations(Protocol):
    """Where invocations are kept, shared by every worker. Each method raises `StateError` when they cannot be read or written."""

    async def add(self, invocation: Invocation, *, each: int, total: int) -> bool:
        """Keeps a new one; False where its principal has `each` that wait for an answer already, or all principals together `total`."""

    async def get(self, call_id: str) -> Invocation | None:
        """The invocation of a call, as it is now."""

    async def unfinished(self) -> tuple[Invocation, ...]:
        """Those that have not ended, the oldest first."""

    async def replace(self, known: Invocation, changed: Invocation) -> Invocation | None:
        """Puts `changed` in place of `known` and returns it as it is kept, or None where that may not be: somebody else was quicker, it
        has ended, or it is another machine's to carry out. Then nothing happened."""

    async def now(self) -> float:
        """The time that all who share these go by, in seconds since the epoch."""

    async def forget(self, before: float) -> None:
        """Removes those that ended before a time, and what they held with them."""

    async def changed(self) -> bool:
        """Whether any may have changed since this was asked before."""

    async def close(self) -> None:
        """Lets go of what is open."""


def as_json(invocation: Invocation) -> bytes:
    """An invocation as it is kept."""
    return msgspec.json.encode(invocation, enc_hook=_plain)


def from_json(body: bytes) -> Invocation:
    """An invocation as it was kept. Raises `msgspec.MsgspecError`."""
    return msgspec.json.decode(body, type=Invocation)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)
