"""Calls that the caller's own device executes: their requests, who may fetch them, and one answer each."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
from msgspec import Struct, field

from toolgen.audit.log import AuditLog
from toolgen.core.background import Background, FaultLog
from toolgen.core.clock import Clock
from toolgen.core.errors import AuditError, StateError, StateUnavailableError
from toolgen.gateway.approvals.validity import is_expired, kept_call
from toolgen.gateway.calls.answer_files import AnswerFiles
from toolgen.gateway.calls.json_body import ended, enveloped
from toolgen.gateway.operations.device_answers import DeviceAnswer, faults, legible_answer, result_of
from toolgen.gateway.operations.kept_principals import of_party, party_of
from toolgen.gateway.operations.waiting_calls import LEASE_S, WaitingCalls
from toolgen.gateway.policies.compiled_policy import CurrentPolicy
from toolgen.model.call import Call, Principal
from toolgen.model.excerpt import masking
from toolgen.model.result import Envelope, Error, Failed, Refused, Success
from toolgen.model.schema import JsonObject
from toolgen.model.unavailable import unavailable
from toolgen.pipeline.middleware import CallContext
from toolgen.pipeline.stages.approve import STALE, approval_digest
from toolgen.pipeline.stages.results import told
from toolgen.state.count_connection import StoreUnreachableError
from toolgen.state.invocations import DeviceState, Invocation

__all__ = ["MAX_EACH", "DeviceCalls", "owner_of"]

MAX_EACH = 100
"""Maximum number of waiting requests for the device of one principal."""
MAX_WAITING = 20_000
_STORM_RETRY_S = 30.0
_LOOK_S = 0.1
_RETRY_S = 1.0
_CALL_ID = re.compile(r"call_[0-9a-f]{24}\Z")
_TRIES = 5
_logger = logging.getLogger(__name__)
_UNKEPT = unavailable("the store of device requests cannot be reached now, so nothing was asked")
_CROWDED = Error(
    code="rate_limited",
    message="too many requests wait for this user's device already",
    suggestion="wait until the device has answered some, or withdraw them",
    retry_after_s=_STORM_RETRY_S,
)
_UNKNOWN = Error(code="not_found", message="no request with this id is waiting for your device")
_LATE = Error(code="expired", message="this request is not waiting any more: it expired, or was withdrawn")
_TWICE = Error(code="conflict", message="this request was already answered")


def owner_of(principal: Principal) -> str:
    """Return the principal whose device a call is for: the user that its caller acts for, or the caller itself."""
    return (principal.on_behalf_of or principal).id


class DeviceCalls:
    """Requests to all devices (`DeviceQueue`), stored with all other waiting calls.

    A device is identified by its user's own credential: an agent that acts for a user does not answer for the user's device. A request is
    checked again when it is fetched, and when it is answered: neither is possible if the policy in force then decides differently.
    """

    def __init__(
        self,
        *,
        calls: WaitingCalls,
        current: CurrentPolicy,
        log: AuditLog,
        clock: Clock,
        background: Background,
        files: AnswerFiles,
    ) -> None:
        self._calls, self._current, self._log, self._background, self._files = calls, current, log, background, files
        self._store = calls.store
        self._listening: dict[str, _Listening] = {}
        self._watching: asyncio.Task[None] | None = None
        self.trouble = FaultLog(clock, "device requests are not watched")

    async def keep(self, call: Call, asked: JsonObject, timeout_s: float) -> Error | None:
        """Store a request durably before it is announced. A call that was approved is stored already, and waits on."""
        scope_hash = self._current.compiled_policy.scope_hash(call.principal, call.tool)
        try:
            now = await self._store.now()
            kept = _DeviceRequest(
                waits_for=DeviceState(request=dict(asked)),
                digest=approval_digest(call, scope_hash),
                expires=now + timeout_s,
            )
            if call.approval:
                return None if await self._goes_on(call.id, kept) else _UNKEPT
            invocation = _invocation(call, now, kept, self._current.compiled_policy.policy.digest)
            added = await self._calls.keep(invocation, each=MAX_EACH, total=MAX_WAITING)
        except StateError as fault:
            _logger.error("a call for a device was refused: %s", fault)  # noqa: TRY400 - it says all there is
            return _UNKEPT
        return None if added else _CROWDED

    async def _goes_on(self, call_id: str, kept: _DeviceRequest) -> bool:
        """Let an approved call wait for the device; return True if it does. Its worker may have renewed its lease meanwhile. If the store
        did not confirm the change, the call is treated as waiting: otherwise it would count as lost when the lease expires."""
        unconfirmed = False
        for _ in range(_TRIES):
            try:
                known = await self._store.get(call_id)
                if known is not None and known.kind == "device":  # an earlier try succeeded after all
                    return True
                if known is None or known.status != "running":
                    return False
                asked = msgspec.structs.replace(kept.waits_for, approval=known.approval)
                waiting = msgspec.structs.replace(
                    known,
                    waits_for=asked,
                    digest=kept.digest,
                    expires=kept.expires,
                    status="pending",
                    lease=0.0,
                    owner="",
                )
                if await self._store.replace(known, waiting) is not None:
                    return True
            except StateUnavailableError as fault:
                unconfirmed = unconfirmed or fault.unconfirmed
                if not unconfirmed:
                    raise
        return unconfirmed

    async def requests(self, device: Principal) -> tuple[Invocation, ...]:
        """Return the requests for this device, oldest first, without paused calls and calls that the current policy treats differently."""
        if device.on_behalf_of is not None:
            return ()
        found = await self._store.waiting("device", (device.id,))
        now, compiled_policy = await self._store.now(), self._current.compiled_policy
        wanted: list[Invocation] = []
        for call_id in found.get(device.id, ()):
            known = await self._calls.current_of(call_id)
            if known is None or not _waits(known, device) or is_expired(known, now):
                continue
            call = kept_call(known, compiled_policy)
            if call is None:
                await self._expire(known, STALE)
            elif await compiled_policy.withheld(call) is None:
                wanted.append(known)
        return tuple(sorted(wanted, key=lambda one: (one.asked, one.id)))

    async def answer(self, answer: DeviceAnswer, device: Principal) -> Envelope | Error:
        """Accept the answer of a device, which ends the call; or return the reason for a refusal, which is recorded too.

        Raises `AuditError` if it cannot be recorded (then it was not accepted, or its caller is informed), and `StateError`.
        """
        known = await self._calls.current_of(answer.id)
        for _ in range(_TRIES):
            if known is None or known.kind != "device" or device.on_behalf_of is not None or not _is_own(known, device):
                return await self._refused(_UNKNOWN, answer.id, device)
            if known.status != "pending":
                return await self._refused(_why_late(known), answer.id, device, known)
            call = kept_call(known, self._current.compiled_policy)
            if is_expired(known, await self._store.now()) or call is None:
                await self._expire(known, STALE if call is None else _TOO_LATE)
                return await self._refused(_LATE, answer.id, device, known)
            kept = legible_answer(answer)
            if wrong := faults(call, kept):
                error = Error(code="validation", message="result: " + "; ".join(wrong))
                return await self._refused(error, answer.id, device, known)
            await self._calls.check_current(known)
            taken = await self._take(known, kept)
            if taken is not None:
                return await self._taken(taken)
            known = await self._calls.current_of(answer.id)
        return await self._refused(_TWICE, answer.id, device, known)

    async def _taken(self, known: Invocation) -> Envelope:
        """End a call; if that cannot be recorded, it was not answered, and the device may answer again."""
        try:
            return await self.finish(known)
        except AuditError:
            again = msgspec.structs.replace(
                known, waits_for=_answered(known, None), status="pending", owner="", lease=0.0
            )
            await self._store.replace(known, again)
            raise

    async def _take(self, known: Invocation, answer: dict[str, Any]) -> Invocation | None:
        """Store the answer once: among concurrent processes, one succeeds."""
        lease = await self._store.now() + LEASE_S
        taken = msgspec.structs.replace(
            known, waits_for=_answered(known, answer), status="running", owner=self._calls.worker.owner, lease=lease
        )
        return await self._store.replace(known, taken)

    async def finish(self, known: Invocation) -> Envelope:
        """End a call whose answer is stored; again if the worker that accepted it died before. No request is sent."""
        compiled_policy = self._current.compiled_policy
        call = kept_call(known, compiled_policy)
        if call is None or known.device.answer is None:
            return await self._end_stale(known)
        call_context = CallContext(verdict="allow", rule=known.rule)
        duration_ms = (await self._store.now() - known.asked) * 1000
        mask = compiled_policy.masking(call)
        with masking(mask):
            result = result_of(call, known.device.answer)
            result = await compiled_policy.completion(call, result, call_context, duration_ms)
        if isinstance(result, Success | Failed):
            result = await self._files.referenced(compiled_policy, call, result)
        if mask is not None:
            result = told(result, mask)
        return await self._end(known, enveloped(call, result, call_context, duration_ms))

    async def _end(self, known: Invocation, envelope: Envelope) -> Envelope:
        """Store the outcome of a call, whatever its caller requests meanwhile."""
        while (kept := await self._calls.end(known, envelope)) is None:
            now = await self._store.get(known.id)
            if now is None or now.status == "ended":
                return envelope if now is None else self._calls.envelope(now)
            known = now
        return self._calls.envelope(kept)

    async def _end_stale(self, known: Invocation) -> Envelope:
        """End a call that the policy in force decides differently, without the device's answer."""
        ending = {"status": "refused", "code": "expired"}
        seq = await self._calls.record(known, by="", verdict="expire", ending=ending)
        error = Error(code="expired", message=STALE, rule=known.rule)
        result = Refused(error=error)
        envelope = ended(known.tool, known.id, result, CallContext(outcome_seq=seq), 0.0)
        return await self._end(known, envelope)

    async def recover(self, known: Invocation) -> None:
        """End a call whose answer is stored, if no other process does: the worker that accepted the answer stopped."""
        held = await self._calls.hold(known)
        if held is not None:
            await self.finish(held)

    @contextmanager
    def listening(self, device: Principal) -> Iterator[Callable[[float], Awaitable[bool]]]:
        """Context of a connected device, with a function that waits for a change of its requests, or for some seconds, and returns which
        of them.

        Changes since its last wait are not missed.
        """
        mine = self._listening.setdefault(device.id, _Listening())
        mine.places += 1
        if self._watching is None:
            self._watching = self._background.start("watching device requests", self._watch)
        seen = mine.changes

        async def changed(within: float) -> bool:
            nonlocal seen
            if seen == mine.changes:
                with suppress(TimeoutError):
                    async with asyncio.timeout(within):
                        await mine.news.wait()
            before, seen = seen, mine.changes
            return before != seen

        try:
            yield changed
        finally:
            mine.places -= 1
            if not mine.places:
                del self._listening[device.id]
            if not self._listening and self._watching is not None:
                self._watching.cancel()
                self._watching = None

    def announce(self, owner: str) -> None:
        """Wake the devices of one principal that listen here."""
        if (mine := self._listening.get(owner)) is not None:
            mine.change()

    async def _watch(self) -> None:
        """Look for requests that other workers and gateways store or remove, for the devices that are connected here."""
        while True:
            news = self._calls.news.next
            try:
                found = await self._store.waiting("device", tuple(self._listening))
                self.trouble.clear()
            except StateError as error:
                self.trouble.say(str(error), passing=isinstance(error.__cause__, StoreUnreachableError))
                await asyncio.sleep(_RETRY_S)
                continue
            for owner, mine in self._listening.items():
                if (ids := found.get(owner, ())) != mine.ids:
                    mine.ids = ids
                    mine.change()
            await asyncio.sleep(_LOOK_S)  # at any number of notifications, requests are read only this often
            await news.wait()

    async def note_malformed(self, device: Principal) -> None:
        """Record an invalid answer. Raises `AuditError`."""
        await self._log.append({"event": "refusal", "principal": device.id, "status": "refused", "code": "validation"})

    async def _refused(self, error: Error, call_id: str, device: Principal, known: Invocation | None = None) -> Error:
        entry = {"event": "refusal", "principal": device.id, "status": "refused", "code": error.code}
        if _CALL_ID.match(call_id):
            entry["call_id"] = call_id
        if known is not None:
            entry |= {"tool": known.tool, "rule": known.rule}
        await self._log.append(entry)
        return error

    async def _expire(self, known: Invocation, why: str) -> None:
        error = Error(code="expired", message=why, rule=known.rule)
        await self._calls.close(known, by="", verdict="expire", error=error)


class _DeviceRequest(Struct, frozen=True, kw_only=True):
    """Request to a device, the digest that its answer is bound to, and the deadline of the answer."""

    waits_for: DeviceState
    digest: str
    expires: float


class _Listening(Struct):
    """Connected devices of one principal: their number, their last requests, and the number of changes."""

    places: int = 0
    ids: tuple[str, ...] = ()
    changes: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def change(self) -> None:
        """Wake them."""
        self.changes += 1
        news, self.news = self.news, asyncio.Event()
        news.set()


_TOO_LATE = "the user's device did not answer in time; make the call again if you still need it"


def _invocation(call: Call, now: float, kept: _DeviceRequest, policy_digest: str) -> Invocation:
    """Return a call in the form in which it is stored until the device answers."""
    return Invocation(
        id=call.id,
        principal=party_of(call.principal),
        tool=call.tool.name,
        effect=call.tool.effect.value,
        arguments=dict(call.arguments),
        bound=call.bound,
        restored=call.restored,
        rule=call.rule,
        tool_digest=call.tool.digest,
        policy_digest=policy_digest,
        session=call.session,
        client=call.client,
        parent=call.parent,
        ancestry=call.ancestry,
        idempotency_key=call.idempotency_key,
        equal=call.equal,
        asked=now,
        waits_for=kept.waits_for,
        digest=kept.digest,
        expires=kept.expires,
    )


def _answered(known: Invocation, answer: dict[str, Any] | None) -> DeviceState:
    return msgspec.structs.replace(known.device, answer=answer)


def _is_own(known: Invocation, device: Principal) -> bool:
    return owner_of(of_party(known.principal)) == device.id


def _waits(known: Invocation, device: Principal) -> bool:
    return known.kind == "device" and known.status == "pending" and _is_own(known, device)


def _why_late(known: Invocation) -> Error:
    """Return the error for a device that answers a call which no longer waits for it."""
    error = (known.envelope or {}).get("error") or {}
    withdrawn = known.device.answer is None and error.get("code") in {"expired", "cancelled"}
    return _LATE if withdrawn else _TWICE
