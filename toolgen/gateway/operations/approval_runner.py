"""Runner of approved calls: it executes each once, and ends calls that expired or whose worker is gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, get_args

import msgspec

from toolgen.core.background import Background, FaultLog
from toolgen.core.clock import Clock
from toolgen.core.errors import AuditError, StateError, StateUnavailableError, ToolgenError, place_of
from toolgen.gateway.approvals.requests import ApprovalRequests
from toolgen.gateway.approvals.validity import expiry_reason, is_expired, kept_call
from toolgen.gateway.calls.departed_clients import DepartedClients
from toolgen.gateway.operations.background_calls import BackgroundCalls
from toolgen.gateway.operations.caller_questions import CallerQuestions
from toolgen.gateway.operations.kept_principals import of_party
from toolgen.gateway.operations.lost_calls import NOT_BEGUN, broken, forgotten, lost
from toolgen.gateway.operations.returning_caller import UNREACHABLE, ReturningCaller
from toolgen.gateway.operations.status_messages import status_error
from toolgen.gateway.operations.suspended_calls import SuspendedCalls
from toolgen.gateway.operations.waiting_calls import KEPT_S, LEASE_S, WaitingCalls
from toolgen.gateway.policies.compiled_policy import CompiledPolicy, CurrentPolicy
from toolgen.model.call import Call, parties
from toolgen.model.result import Envelope, Error
from toolgen.pipeline.middleware import CallContext
from toolgen.state.call_states import Kind
from toolgen.state.invocations import Invocation
from toolgen.state.pauses import Pauses, SharedPauses
from toolgen.state.store_watch import StoreWatch

__all__ = ["Runner"]

_logger = logging.getLogger(__name__)

_INTERVAL_S = 0.2
_ROUND_S = 1.0
_SWEEP_S = 15.0
_UNSETTLED_SWEEP_S = LEASE_S / 2
_FORGET_S = 10.0
_LATER_S = 30.0
"""Time after which a call is processed again if that failed."""
_MAX_AT_ONCE = 32
_MAX_TOLD = 10_000

CarryOut = Callable[[CompiledPolicy, Call, CallContext], Awaitable[Envelope]]
"""Function that sends one call through every stage of a policy's pipeline."""


class Runner:
    """Worker task that executes calls shared by all workers. A call is claimed by one worker, once.

    A claimed call is never executed again if its worker died: its progress is unknown, so it ends with `outcome_unknown`. `watch` returns
    whether an expired lease means a dead worker. `lost` is called, once per gateway, if the store has lost data. `recoveries` continue a
    running call of a kind whose worker stopped; for other kinds the progress is unknown.
    """

    def __init__(  # noqa: PLR0913 - all that a kept call passes
        self,
        *,
        calls: WaitingCalls,
        current: CurrentPolicy,
        requests: ApprovalRequests,
        suspended: SuspendedCalls,
        background_calls: BackgroundCalls,
        departed: DepartedClients,
        recoveries: Mapping[Kind, Callable[[Invocation], Awaitable[object]]],
        pauses: Pauses | SharedPauses,
        clock: Clock,
        carry_out: CarryOut,
        background: Background,
        watch: StoreWatch,
        lost: Callable[[str], Awaitable[None]],
    ) -> None:
        self._calls, self._current, self._requests, self._suspended = calls, current, requests, suspended
        self._background_calls, self._departed, self._recoveries = background_calls, departed, recoveries
        self._background = background
        self._store = calls.store
        self._pauses = pauses
        self._clock = clock
        self._carry_out = carry_out
        self._watch = watch
        self._lost = lost
        self._claims = calls.worker.claimed
        self._behind: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._forgot = 0.0
        self._sweep_at = 0.0
        self._restoring = False
        self._told: dict[str, None] = {}
        self.trouble = FaultLog(clock, "waiting calls are not processed")

    def start(self) -> None:
        """Start searching for approved and overdue calls."""
        self._sweep_at = self._clock.monotonic() + LEASE_S
        self._task = self._background.start("executing approved calls", self._run)

    async def stop(self) -> None:
        """Start no further calls, and wait for the running ones."""
        self._stopping = True
        self._calls.news.announce()
        if self._task is not None:
            await self._task

    async def waits_as(self, call_id: str) -> str | None:
        """Return the code with which a stored call waits, "" if it has begun or the store cannot be reached; None for a call that is not
        stored, or that its own worker executed.

        `AuditLog.end_abandoned` asks this of calls whose worker died. Any worker of the gateway ends a stored call.
        """
        try:
            known = await self._store.awaited(call_id)
            if known is None or (known.kind == "call" and known.status == "running"):
                return None
        except StateError:
            return None
        try:
            now = await self._store.get(call_id)
            waits = now is not None and now.status in {"pending", "approved"} and await self._store.fate(now) == "own"
            return status_error(now, "").code if now is not None and waits else ""
        except StateError:
            return ""

    async def _run(self) -> None:
        due = 0.0
        while self._tasks or not self._stopping:
            await self._calls.news.due(_INTERVAL_S)
            try:
                await self._calls.still_storing()
                await self._departed.hear()
                changed = await self._store.changed()
                self._watch.heard()
                if self._store.loss:
                    await self._note_loss(self._store.loss)
                if self._restoring:
                    await self._put_back()
                if changed or self._clock.monotonic() >= due:
                    due = self._clock.monotonic() + _ROUND_S
                    if changed and self._store.by_others:
                        self._calls.news.announce()
                    if await self.round():
                        self.trouble.clear()
            except ToolgenError as error:
                self.trouble.say(str(error), passing=isinstance(error, StateUnavailableError))

    async def round(self) -> bool:
        """Advance every call as far as possible. Returns False if that could not be recorded for one of them.

        Raises `StateError` if the store cannot be reached; no other error ends a round.
        """
        now = await self._store.now()
        for claimed in [one for one in self._claims.values() if one.lease - now < LEASE_S / 2]:
            await self._renew(claimed, now)
        await self._background_calls.renew(now)
        await self._calls.keep_unkept()
        due = await self._store.due(now)
        if self._watch.settled:
            await self._calls.look_up([one for one in due if one.status == "running" and one.lease <= now])
        whole = True
        for known in due:
            whole = await self._guarded(known) and whole
        if self._clock.monotonic() >= self._sweep_at:
            settled = self._watch.settled
            self._sweep_at = self._clock.monotonic() + (_SWEEP_S if settled else _UNSETTLED_SWEEP_S)
            await self._end_missing(await self._store.missing(now - LEASE_S), settled=settled)
        if now >= self._forgot + _FORGET_S:
            self._forgot = now
            await self._store.forget(now - KEPT_S)
        return whole

    async def _guarded(self, known: Invocation) -> bool:
        """Process one call; its error does not block others: a call that cannot be processed ends. Return False if that was not
        recorded."""
        try:
            await self._look_after(known)
        except asyncio.CancelledError:
            raise
        except AuditError as error:
            self.trouble.say(str(error), passing=False)
            return False
        except Exception as error:
            if isinstance(error, StateUnavailableError):
                raise
            if known.id not in self._told:
                self._told = dict.fromkeys([*list(self._told)[-_MAX_TOLD:], known.id])
                _logger.error("call %s cannot be processed, and ends: %s", known.id, place_of(error))  # noqa: TRY400
            return await self._end_broken(known)
        return True

    async def _end_broken(self, known: Invocation) -> bool:
        try:
            if self._watch.settled and await self._calls.give_up(known, verdict="lose", error=broken(known)):
                return True
        except AuditError as error:
            self.trouble.say(str(error), passing=False)
            return False
        except Exception as error:
            if isinstance(error, StateUnavailableError):
                raise
        await self._store.renew((known.id,), await self._store.now() + _LATER_S)
        return True

    async def _look_after(self, known: Invocation) -> None:
        now = await self._store.now()
        if await self._background_calls.took(known, now) or known.id in self._claims or known.lease > now:
            return
        fate = await self._store.fate(known)
        if fate == "over" or (fate in {"behind", "begun"} and self._waited(known.id)):
            await self._calls.give_up(known, verdict="lose", error=forgotten(known))
        elif fate in {"behind", "begun"}:
            pass  # the worker that executes it puts it back
        elif known.status == "running" and (resume := self._recoveries.get(known.kind)) is not None:
            await resume(known)
        elif known.status == "running":
            await self._give_up(known, "lose", lost(known))
        elif known.status == "pending" and not is_expired(known, now):
            await self._requests.step(known, now)
        elif fate == "foreign":
            pass  # its own gateway expires it, or executes it
        elif reason := self._stale(known, now):
            await self._give_up(known, "expire", Error(code="expired", message=reason, rule=known.rule))
        elif known.kind == "account" and await self._suspended.awaits_account(known):
            pass  # without a lease, so that its caller can withdraw it at any time
        elif known.workflow.waits and not await self._suspended.answered(known):
            await self._store.renew((known.id,), now + _ROUND_S)
        elif known.status == "approved":
            await self._begin(known, now)

    def _stale(self, known: Invocation, now: float) -> str:
        waits = known.status != "approved" and not is_expired(known, now)
        return "" if waits else expiry_reason(known, now, self._current.compiled_policy)

    async def _give_up(self, known: Invocation, verdict: Literal["lose", "expire"], error: Error) -> None:
        if self._watch.settled:
            await self._calls.give_up(known, verdict=verdict, error=error)

    def _waited(self, call_id: str) -> bool:
        """Return True if a call of which the store has an older version was not put back for a lease."""
        now = self._clock.monotonic()
        self._behind = {one: at for one, at in self._behind.items() if now - at < 3 * LEASE_S}
        return now - self._behind.setdefault(call_id, now) >= LEASE_S

    async def _note_loss(self, loss: str) -> None:
        """Note that the store has lost data: this worker restores what it knows until the store is complete."""
        self._restoring = True
        if await self._store.begin_epoch():
            await self._lost(loss)

    async def _put_back(self) -> None:
        """Restore the calls that this worker knows, and end those that are over. Raises `StateError` if the store is unavailable again."""
        self._sweep_at = self._clock.monotonic() + _UNSETTLED_SWEEP_S  # other gateways restore their calls first
        await self._calls.worker.put_back()
        await self._store.restore_endings()
        await self._calls.keep_unkept()
        for kind in get_args(Kind):
            for known in await self._store.unfinished(kind):
                if self._calls.worker.carried_out(known.id) is None and await self._store.fate(known) == "over":
                    await self._guarded(known)
        self._restoring = False
        self._calls.news.announce()

    async def _end_missing(self, missing: Sequence[Invocation], *, settled: bool) -> None:
        """End calls of this gateway that the store lacks. Until leases are `settled` only those that were not begun: a worker may
        restore the others."""
        await self._calls.look_up([one for one in missing if settled or one.status == "pending"])
        for known in missing:
            if self._calls.worker.carried_out(known.id) is not None:
                continue
            if not settled and (known.status != "pending" or await self._store.fate(known) != "own"):
                continue
            error = lost(known) if known.status == "running" else forgotten(known)
            try:
                await self._calls.give_up(known, verdict="lose", error=error, missing=True)
            except (StateError, AuditError) as fault:
                if isinstance(fault, StateUnavailableError):
                    raise
                _logger.error("call %s, which was lost, could not be ended: %s", known.id, place_of(fault))  # noqa: TRY400

    async def _renew(self, claimed: Invocation, now: float) -> None:
        """Extend the lease of a call, even if another process changed it or the store lost it."""
        known = await self._calls.worker.regain(claimed)
        if known is None or known.status != "running":
            return
        renewed = await self._store.replace(known, msgspec.structs.replace(known, lease=now + LEASE_S))
        if renewed is not None and claimed.id in self._claims:
            self._claims[claimed.id] = renewed

    async def _begin(self, known: Invocation, now: float) -> None:
        compiled_policy = self._current.compiled_policy
        call = kept_call(known, compiled_policy)
        if call is None or self._stopping or len(self._claims) >= _MAX_AT_ONCE:
            return
        if self._pauses.stale and not await self._pauses.refresh():
            return
        if self._pauses.covering(parties(of_party(known.principal)), call.tool.source, call.tool.name) is not None:
            return
        claimed = await self._store.replace(
            known,
            msgspec.structs.replace(known, status="running", owner=self._calls.worker.owner, lease=now + LEASE_S),
        )
        if claimed is None:
            return
        self._claims[known.id] = claimed
        self._calls.news.announce(known.id)
        task = asyncio.create_task(self._carry(claimed, compiled_policy, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, claimed: Invocation, compiled_policy: CompiledPolicy, call: Call) -> None:
        try:
            call_context = CallContext()
            connection = call_context.caller_connection
            connection.started = False
            if claimed.answerable:
                questions = CallerQuestions(self._calls)
                connection.line = ReturningCaller(connection, questions, call.id, frozenset(claimed.answerable))
            else:
                call_context.unreachable = UNREACHABLE
            with self._background_calls.running(call.id, call_context.caller_connection):
                envelope = await self._carry_out(compiled_policy, call, call_context)
            needs_account = envelope.error is not None and envelope.error.code == "authorization_required"
            if envelope.status != "pending" or (needs_account and not call_context.awaits_account):
                # The device, the calls that it made or a later attempt end any other call.
                await self._settle(self._claims[claimed.id], envelope, call_context.http_status)
        except ToolgenError as error:
            _logger.error(  # noqa: TRY400 - the cause may quote values
                "the outcome of call %s could not be stored for its caller; the audit log has it: %s",
                call.id,
                place_of(error),
            )
        finally:
            del self._claims[claimed.id]

    async def _settle(self, mine: Invocation, envelope: Envelope, http_status: int | None) -> None:
        """Store the outcome of a call that was executed here. A call that waits for calls that it made has not ended."""

        async def settle(known: Invocation) -> bool:
            if known.status == "approved" and known.workflow.waits:
                return True
            error = envelope.error if envelope.status == "refused" else None
            if error is not None and error.code in NOT_BEGUN and known.status != "ended":
                if known.status != "running" or (known.owner, known.attempt) != (mine.owner, mine.attempt):
                    return True  # it was released before: a later attempt decides its outcome
                again = await self._store.now() + (error.retry_after_s or _ROUND_S)
                back = msgspec.structs.replace(known, status="approved", lease=again)
                return await self._store.replace(known, back) is not None
            answered = msgspec.structs.replace(known, http_status=http_status)
            return await self._calls.end(answered, envelope) is not None

        await self._calls.worker.keep_outcome(mine, settle)
