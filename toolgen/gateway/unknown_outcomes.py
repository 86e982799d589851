"""Calls of which nobody knows whether they took effect: what a person needs to find out, and what they found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from toolgen.audit.reader import calls, entries
from toolgen.clock import Clock
from toolgen.errors import ToolgenError
from toolgen.gateway.identity import Identity
from toolgen.model.excerpt import bounded
from toolgen.model.http import written
from toolgen.model.manifest import Manifest
from toolgen.model.reason import reason_in
from toolgen.model.tool import GraphQLBinding, GraphQLDocumentBinding, HttpBinding
from toolgen.state.idempotency import Claim, Ledger

__all__ = ["EVENT", "HAPPENED", "Notes", "UnknownOutcomes"]

EVENT = "reconcile"
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


class Notes(Protocol):
    """The log, as far as it is written to here."""

    async def append(self, fields: Mapping[str, Any]) -> tuple[str, int]: ...


class UnknownOutcomes:
    """Over the record and the ledger of a project. What a person found is an entry of the record, and the first one stands.

    `identity` is that of the policy in force: it knows who is whom.
    """

    def __init__(
        self,
        *,
        directory: Path,
        manifest: Manifest,
        notes: Notes,
        ledger: Ledger,
        clock: Clock,
        identity: Callable[[], Identity],
    ) -> None:
        self._directory = directory
        self.manifest = manifest
        self._notes = notes
        self._ledger = ledger
        self._clock = clock
        self._identity = identity

    async def close(self) -> None:
        """Lets go of the ledger, for a command that reads it alone."""
        await self._ledger.close()

    async def open(self) -> list[dict[str, Any]]:
        """The calls in doubt that nobody has looked into, the oldest first: `doubt` is `outcome_unknown` or `unfinished`, `request` what
        was to be sent where, `idempotency_key` what the system behind may know the call by. Raises `AuditError` and `StateError`."""
        claims = await self._ledger.of_calls()
        return [dict(row) for row in await asyncio.to_thread(lambda: list(self._rows(claims)))]

    async def settle(self, call_id: str, found: str, *, by: str, note: str) -> None:
        """Records what somebody found: one of `HAPPENED`. A call that did not happen gives its idempotency key back.

        Raises `ToolgenError` for a call that is in no doubt, under way, or `by`'s own; `AuditError` when it cannot be recorded.
        """
        row = next((row for row in await self.open() if row["call_id"] == call_id), None)
        if row is None:
            raise ToolgenError(
                f"no call {bounded(call_id, 80)} has an unknown outcome",
                suggestion="`toolgen audit reconcile` lists those that have",
            )
        if self._identity().concerns(by, [row[name] for name in ("principal", "on_behalf_of") if name in row]):
            raise ToolgenError("nobody says what became of a call of their own, or one made for them")
        claim = (await self._ledger.of_calls()).get(call_id)
        if claim is not None and claim.status == "running" and claim.lease > await self._ledger.now():
            raise ToolgenError(f"the call {call_id} is under way", suggestion="wait until it ends")
        fields = {"event": EVENT, "call_id": call_id, "principal": by, "tool": row.get("tool"), "status": found}
        await self._notes.append({**fields, **({"arguments": {"note": note}} if (note := reason_in(note)) else {})})
        if claim is not None and found == "did_not_happen":
            await self._ledger.release(claim)

    def _rows(self, claims: Mapping[str, Claim]) -> Iterator[dict[str, Any]]:
        settled = {entry.get("call_id") for entry in entries(self._directory) if entry.get("event") == EVENT}
        for row in calls(self._directory):
            doubt = "unfinished" if row.get("status") == "unfinished" else row.get("code")
            if doubt not in {"unfinished", "outcome_unknown"} or row["call_id"] in settled:
                continue
            told = {name: row[name] for name in _TOLD if row.get(name) not in (None, "")}
            claim = claims.get(row["call_id"])
            yield {
                **told,
                "doubt": doubt,
                "request": self._request(str(row.get("tool", ""))),
                "idempotency_key": self._key(str(row.get("tool", "")), row["call_id"] if claim is None else claim.id),
            }

    def _key(self, name: str, text: str) -> str:
        """What the system behind knows the call by."""
        tool = self.manifest.tools.get(name)
        return text if tool is None else written(tool.binding, text)

    def _request(self, name: str) -> str:
        """Method and address, with the path as its description has it: the arguments stand beside."""
        tool = self.manifest.tools.get(name)
        match tool.binding if tool is not None else None:
            case HttpBinding(method=method, servers=servers, path=path):
                return f"{method} {servers[0] if servers else ''}{path}"
            case GraphQLBinding(endpoint=endpoint) | GraphQLDocumentBinding(endpoint=endpoint):
                return f"POST {endpoint}"
            case _:
                return ""
