"""Calls with an unknown outcome: the data that a person needs to find it out, and the outcome that a person recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from toolgen.audit.call_window import CallWindow, seconds_of
from toolgen.core.background import each
from toolgen.core.clock import Clock
from toolgen.core.errors import ToolgenError
from toolgen.gateway.identity import Identity
from toolgen.model.excerpt import bounded
from toolgen.model.idempotency_keys import written
from toolgen.model.manifest import Manifest
from toolgen.model.reason import reason_in
from toolgen.pipeline.stages.record import Journal
from toolgen.state.idempotency import IdempotencyStore, KeyClaim
from toolgen.state.invocations import Invocations

__all__ = ["EVENT", "HAPPENED", "OpenOutcomes", "UnknownOutcomes"]

EVENT = "reconcile"
_UNKNOWN = "outcome_unknown"
_WAITS = frozenset({"approval_required", "deferred"})
"""Codes of calls that are stored while they wait."""
_UNKNOWN_AS = {"unfinished": "unfinished", "pending": "lost"}
"""Kind of doubt by the recorded status of a call; `outcome_unknown` for others."""
HAPPENED = ("happened", "did_not_happen")
_TOLD = (
    "call_id",
    "seq",
    "stream",
    "time",
    "principal",
    "on_behalf_of",
    "tool",
    "session",
    "client",
    "parent",
    "arguments",
    "sql",
)


class OpenOutcomes(Struct, frozen=True, kw_only=True):
    """Calls in doubt, the oldest first, and the number of reads without an outcome: those changed nothing."""

    calls: list[dict[str, Any]]
    unfinished_reads: int


class UnknownOutcomes:
    """Reconciliation of unknown outcomes, over the audit log, the ledger and the stored calls of a project. A person's finding becomes an
    entry of the log, and the first one is final.

    `identity` is that of the policy in force: it compares persons.
    """

    def __init__(
        self,
        *,
        directory: Path,
        manifest: Callable[[], Manifest],
        notes: Journal,
        ledger: IdempotencyStore,
        waiting: Invocations,
        clock: Clock,
        identity: Callable[[], Identity],
    ) -> None:
        self._directory = directory
        self._manifest = manifest
        self._notes = notes
        self._ledger = ledger
        self._waiting = waiting
        self._clock = clock
        self._identity = identity

    async def close(self) -> None:
        """Close the ledger and the store of waiting calls, for a command that only reads them."""
        await each(self._ledger.close, self._waiting.close)

    async def open(self, since: float = 0.0) -> OpenOutcomes:
        """Return the calls in doubt that began at `since` (seconds since the epoch) or later and that nobody has reconciled.

        `doubt` is `outcome_unknown`, `unfinished` or `lost`: the log shows it as waiting, and it is not stored any more. `request` is the
        request and its destination, `idempotency_key` the key by which the other system may know the call. Raises `AuditError` and
        `StateError`.
        """
        claims = await self._ledger.of_calls()
        window = CallWindow(self._directory, since)
        rows = await asyncio.to_thread(window.ended_with, {_UNKNOWN, *_WAITS})
        doubted = await self._in_doubt(window, rows)
        reads = [row for row in rows if _is_unknown(row) and self._is_read(row)]
        return OpenOutcomes(
            calls=[self._told(row, claims) for row in doubted],
            unfinished_reads=sum(row["call_id"] not in window.reconciled for row in reads),
        )

    async def settle(self, call_id: str, found: str, *, by: str, note: str, since: float = 0.0) -> None:
        """Record the finding of a person: one of `HAPPENED`. A call that did not happen releases its idempotency key.

        The call is searched for from `since` on. Raises `ToolgenError` for a call that is not in doubt, still runs, or is `by`'s own;
        `AuditError` if it cannot be recorded.
        """
        claims = await self._ledger.of_calls()
        window = CallWindow(self._directory, since)
        rows = await asyncio.to_thread(window.only, {call_id})
        row = next(iter(await self._in_doubt(window, rows)), None)
        if row is None:
            raise ToolgenError(
                f"no call {bounded(call_id, 80)} has an unknown outcome",
                suggestion="`toolgen audit reconcile` lists the calls that have one",
            )
        if self._identity().concerns(by, [row[name] for name in ("principal", "on_behalf_of") if name in row]):
            raise ToolgenError("you cannot reconcile your own call, or one made for you")
        claim = claims.get(call_id)
        if claim is not None and claim.status == "running" and claim.lease > await self._ledger.now():
            raise ToolgenError(f"the call {call_id} is still running", suggestion="wait until it ends")
        fields = {"event": EVENT, "call_id": call_id, "principal": by, "tool": row.get("tool"), "status": found}
        await self._notes.append({**fields, **({"arguments": {"note": note}} if (note := reason_in(note)) else {})})
        if claim is not None and found == "did_not_happen":
            await self._ledger.release(claim)

    async def _in_doubt(self, window: CallWindow, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the rows of a window whose outcome is unknown and not reconciled."""
        waiting = {row["call_id"]: seconds_of(row) for row in rows if _is_waiting(row)}
        for call_id in window.repeated:
            waiting.pop(call_id, None)
        lost = frozenset(await self._waiting.absent(waiting)) if waiting else frozenset[str]()
        return [
            row
            for row in rows
            if row["call_id"] not in window.reconciled
            and (row["call_id"] in lost or (_is_unknown(row) and not self._is_read(row)))
        ]

    def _is_read(self, row: Mapping[str, Any]) -> bool:
        """Return True for a call that changed nothing; for a tool that is gone, its effect is unknown."""
        return self._manifest().is_read(str(row.get("tool", "")))

    def _told(self, row: Mapping[str, Any], claims: Mapping[str, KeyClaim]) -> dict[str, Any]:
        claim = claims.get(row["call_id"])
        tool = str(row.get("tool", ""))
        return {
            **{name: row[name] for name in _TOLD if row.get(name) not in (None, "")},
            "doubt": _UNKNOWN_AS.get(str(row.get("status")), _UNKNOWN),
            "request": self._request(tool),
            "idempotency_key": self._key(tool, row["call_id"] if claim is None else claim.id),
        }

    def _key(self, name: str, text: str) -> str:
        """Return the idempotency key as the other system knows it."""
        tool = self._manifest().tools.get(name)
        return text if tool is None else written(tool.binding, text)

    def _request(self, name: str) -> str:
        """Return method and address, with the path template of its description: the arguments are listed separately."""
        tool = self._manifest().tools.get(name)
        return "" if tool is None else tool.binding.request_line


def _is_waiting(row: Mapping[str, Any]) -> bool:
    return row.get("status") == "pending" and row.get("code") in _WAITS


def _is_unknown(row: Mapping[str, Any]) -> bool:
    return row.get("status") == "unfinished" or row.get("code") == _UNKNOWN
