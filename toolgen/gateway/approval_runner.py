"""Carries out what people approved, once each, and looks after calls whose time or whose worker is gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from toolgen.background import Background, FaultLog
from toolgen.clock import Clock
from toolgen.errors import ToolgenError, place_of
from toolgen.gateway.approvals import Approvals
from toolgen.gateway.compiled_policy import Governance
from toolgen.gateway.waiting_calls import KEPT_S, LEASE_S, of_party
from toolgen.model.call import Call, parties
from toolgen.model.result import Envelope, Error
from toolgen.pipeline.middleware import Trail
from toolgen.state.count_connection import UnreachableError
from toolgen.state.invocations import Invocation
from toolgen.state.pauses import Pauses, SharedPauses

__all__ = ["Runner"]

_logger = logging.getLogger(__name__)

_INTERVAL_S = 0.2
_ROUND_S = 1.0
_MAX_AT_ONCE = 32
_NOT_BEGUN = frozenset({"paused", "rate_limited", "audit_unavailable", "upstream_unavailable"})
"""What a call may be refused with before anything happened: it stays approved, and is tried again."""

CarryOut = Callable[[Governance, Call, Trail], Awaitable[Envelope]]
"""One call through every stage of a policy's pipeline."""


class Runner:
    """One worker's part in calls that everybody's workers see. Claiming a call is what makes it this worker's, and happens once.

    A claimed call whose worker died is never carried out again: nobody knows how far it came, and it ends `outcome_unknown`.
    """

    def __init__(
        self,
        *,
        approvals: Approvals,
        pauses: Pauses | SharedPauses,
        clock: Clock,
        carry_out: CarryOut,
        background: Background,
    ) -> None:
        self._background_calls = approvals.background
        self._background = background
        self._approvals = approvals
        self._store = approvals.store
        self._pauses = pauses
        self._clock = clock
        self._carry_out = carry_out
        self._claims: dict[str, Invocation] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._forgot = 0.0
        self.trouble = FaultLog(clock, "calls that wait are not looked after")

    def start(self) -> None:
        """Begins to look for work."""
        self._task = self._background.start("carrying out approved calls", self._run)

    async def stop(self) -> None:
        """Begins nothing more, and waits for what is under way."""
        self._stopping = True
        self._approvals.announce()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        due = 0.0
        while self._tasks or not self._stopping:
            await self._approvals.due(_INTERVAL_S)
            try:
                changed = await self._store.changed()
                if changed or self._clock.monotonic() >= due:
                    due = self._clock.monotonic() + _ROUND_S
                    if changed and self._store.by_others:
                        self._approvals.announce()
                    await self.round()
                self.trouble.clear()
            except ToolgenError as error:
                self.trouble.say(str(error), passing=isinstance(error.__cause__, UnreachableError))

    async def round(self) -> None:
        """Moves on every call that can be."""
        now = await self._store.now()
        for claimed in [one for one in self._claims.values() if one.lease - now < LEASE_S / 2]:
            await self._renew(claimed, now)
        await self._background_calls.renew(now)
        for known in await self._store.due(now):
            try:
                await self._look_after(known)
            except (ToolgenError, asyncio.CancelledError):
                raise
            except Exception as error:  # noqa: BLE001 - a call that nobody can look after holds up no other
                _logger.error("call %s is left alone: %s", known.id, place_of(error))  # noqa: TRY400
        if now >= self._forgot + _ROUND_S:
            self._forgot = now
            await self._store.forget(now - KEPT_S)

    async def _look_after(self, known: Invocation) -> None:
        now = await self._store.now()
        if await self._background_calls.took(known, now) or known.id in self._claims or known.lease > now:
            return
        if known.status == "running" and (resume := self._approvals.resumes.get(known.kind)) is not None:
            await resume(known)
        elif known.status == "running":
            await self._approvals.close(known, by="", verdict="lose", error=_lost(known))
        elif known.status == "pending" and known.expires > now:
            await self._approvals.step(known, now)
        elif stale := (self._approvals.stale(known, now) if known.status == "approved" or known.expires <= now else ""):
            error = Error(code="expired", message=stale, rule=known.rule)
            await self._approvals.close(known, by="", verdict="expire", error=error)
        elif known.waits and not await self._approvals.answered(known):
            await self._store.renew((known.id,), now + _ROUND_S)
        elif known.status == "approved":
            await self._begin(known, now)

    async def _renew(self, claimed: Invocation, now: float) -> None:
        """Holds on to a call for longer, also where somebody else changed it, or took it for lost, meanwhile."""
        known = await self._store.get(claimed.id)
        if known is None or known.status != "running":
            return
        renewed = await self._store.replace(known, msgspec.structs.replace(known, lease=now + LEASE_S))
        if renewed is not None and claimed.id in self._claims:
            self._claims[claimed.id] = renewed

    async def _begin(self, known: Invocation, now: float) -> None:
        governance = self._approvals.current.governance
        call = self._approvals.call(known, governance)
        if call is None or self._stopping or len(self._claims) >= _MAX_AT_ONCE:
            return
        if self._pauses.stale and not await self._pauses.refresh():
            return
        if self._pauses.covering(parties(of_party(known.principal)), call.tool.source, call.tool.name) is not None:
            return
        claimed = await self._store.replace(
            known,
            msgspec.structs.replace(known, status="running", owner=self._approvals.owner, lease=now + LEASE_S),
        )
        if claimed is None:
            return
        self._claims[known.id] = claimed
        self._approvals.announce(known.id)
        task = asyncio.create_task(self._carry(claimed, governance, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, claimed: Invocation, governance: Governance, call: Call) -> None:
        try:
            trail = Trail()
            trail.presence.begun = False
            with self._background_calls.running(call.id, trail.presence):
                envelope = await self._carry_out(governance, call, trail)
            if envelope.status != "pending":  # its device is asked, and ends it
                await self._settle(claimed.id, envelope, trail.http_status)
        except ToolgenError as error:
            _logger.error(  # noqa: TRY400 - what it came from may quote anything
                "how call %s ended could not be kept for its caller; the record has it: %s", call.id, place_of(error)
            )
        finally:
            del self._claims[claimed.id]

    async def _settle(self, call_id: str, envelope: Envelope, http_status: int | None) -> None:
        """Who carried a call out knows how it ended. Where others had to give it up meanwhile, what its caller was told stands.

        One that waits for calls that it made has not ended: who suspended it has kept it.
        """
        while (known := await self._store.get(call_id)) is not None and known.status != "ended":
            if known.status == "approved" and known.waits:
                return
            error = envelope.error if envelope.status == "refused" else None
            if known.status == "running" and error is not None and error.code in _NOT_BEGUN:
                again = await self._store.now() + (error.retry_after_s or _ROUND_S)
                back = msgspec.structs.replace(known, status="approved", lease=again)
                settled = await self._store.replace(known, back)
            else:
                answered = msgspec.structs.replace(known, http_status=http_status)
                settled = await self._approvals.end(answered, envelope)
            if settled is not None:
                return


def _lost(known: Invocation) -> Error:
    """What is told of a call whose worker is gone: what only reads has changed nothing."""
    if known.effect == "read":
        message = "the gateway stopped while it carried this call out"
        return Error(code="cancelled", message=message, suggestion="make the call again", rule=known.rule)
    return Error(
        code="outcome_unknown",
        message="the gateway stopped while it carried this call out, and nobody knows how far it came",
        suggestion="look at what it was to change before making it again",
        rule=known.rule,
    )
