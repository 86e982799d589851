"""Background calls: stored when their client disconnects, and cancelled by their caller at any worker.

They are ordinary calls in the same pipeline; the store has their owner and their outcome.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import msgspec

from toolgen.core.errors import StateError, ToolgenError, place_of
from toolgen.gateway.calls.json_body import unmade
from toolgen.gateway.operations.call_reports import CallReports
from toolgen.gateway.operations.kept_principals import party_of
from toolgen.gateway.operations.waiting_calls import KEPT_S, LEASE_S, ROOM, WaitingCalls
from toolgen.model.call import Call, Principal, parties
from toolgen.model.result import Envelope, Error
from toolgen.model.tool import Effect
from toolgen.pipeline.middleware import CallerConnection
from toolgen.state.invocations import BackgroundState, Invocation, TaskWish

__all__ = ["MAX_CALLS", "MAX_CALLS_EACH", "BackgroundCalls"]

MAX_CALLS_EACH = 1_000
MAX_CALLS = 10_000
_GUARDS_S = 1.0
"""Maximum time for the guards of a call without a waiter; then it continues in the background."""
_CALLED_OFF_S = 5.0
_RETRY_S = 10.0
_FRESH_S = 1.0
_FOLLOWS_S = 0.05
_EVERY_S = 0.1
"""Minimum time between two stored messages of one call."""
_logger = logging.getLogger(__name__)


class BackgroundCalls:
    """Calls of a worker that run without their caller. `waiting` stores the calls of all workers.

    `pending_after_s` is how long callers wait that set no time; None for until the call ends.
    """

    def __init__(self, waiting: WaitingCalls, pending_after_s: float | None = None) -> None:
        self._waiting = waiting
        self.pending_after_s = pending_after_s
        self._running: dict[str, CallerConnection] = {}
        self._renewed = 0.0
        self._each = Counter[tuple[str, ...]]()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._left: dict[asyncio.Task[Envelope], CallerConnection] = {}
        # One object for all calls, because a bound method would be created for each.
        self._over, self._said = self._ends, self._says
        self._rooms: dict[str, tuple[float, float | None]] = {}  # by principal, with the time of the last query
        self._telling: dict[str, asyncio.Task[None]] = {}

    async def call(
        self,
        name: str,
        making: Coroutine[Any, Any, Envelope],
        *,
        caller: Principal,
        wait: float,
        caller_connection: CallerConnection,
        leave: asyncio.Event | None = None,
    ) -> Envelope:
        """Return the outcome of a call that is `making` with this `caller_connection`, or a pending answer with its id after `wait`
        seconds.

        The call is not made if its caller has too many background calls; a call that goes to the background at once is not made either if
        there is no room for its result. `leave` is as of `left_after`. Raises nothing.
        """
        who = parties(caller)
        if self._each[who] >= MAX_CALLS_EACH or len(self._waiting.worker.left) >= MAX_CALLS:
            making.close()
            return unmade(name, _too_many())
        if wait <= 0 and (full := await self._full(caller)) is not None:
            making.close()
            return unmade(name, _no_room(full))
        return await self.left_after(making, wait=wait, caller_connection=caller_connection, leave=leave)

    async def _full(self, caller: Principal) -> float | None:
        """Return the seconds until there may be room for another result of a caller; None if there is room. Queried at most once a
        second."""
        now, known = asyncio.get_running_loop().time(), self._rooms.get(caller.id)
        if known is None or now - known[0] >= _FRESH_S:
            until = None
            with suppress(StateError):  # if it cannot be read, nothing can be stored either
                until = (await self._waiting.store.held(caller.id)).full(ROOM)
                until = None if until is None else max(1.0, until + KEPT_S - await self._waiting.store.now())
            known = self._rooms[caller.id] = (now, until)
            if len(self._rooms) > MAX_CALLS:
                del self._rooms[next(iter(self._rooms))]
        return known[1]

    async def left_after(
        self,
        making: Coroutine[Any, Any, Envelope],
        *,
        wait: float,
        caller_connection: CallerConnection,
        leave: asyncio.Event | None = None,
    ) -> Envelope:
        """Run a call as `call` does. If too many calls run in the background, the call is made all the same and its caller waits for its
        end, as with an infinite `wait`. A call that changes something is also kept if its caller disconnects; an equal call finds it. A
        call is kept before `wait` is over once `leave` is set."""
        begun = caller_connection.started = asyncio.get_running_loop().create_future()
        caller_connection.has_own_task, caller_connection.pends = True, (wait if wait < math.inf else None)
        if caller_connection.line is None:
            caller_connection.line = CallReports(caller_connection)
        # One task name for all, because each default name costs a number.
        task = asyncio.create_task(making, name="call")
        caller_connection.on_leave = partial(self._client_left, task, caller_connection)
        try:
            if leave is not None:
                await _first_of(task, leave, None if wait == math.inf else wait)
            elif wait == math.inf:
                return await asyncio.shield(task)
            elif wait > 0:
                await asyncio.wait((task,), timeout=wait)
            if not (task.done() or begun.done()) and wait < _GUARDS_S:
                await asyncio.wait((task, begun), timeout=_GUARDS_S - wait, return_when=asyncio.FIRST_COMPLETED)
            while caller_connection.follows and not task.done():  # it joins an equal call in a moment, or is made then
                await asyncio.wait((task, begun), timeout=_FOLLOWS_S, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and (call := caller_connection.under_way) is not None and not _asks(caller_connection):
                known = await asyncio.shield(self._leave(task, call, caller_connection))
                if known is not None:
                    return self._waiting.envelope(known)
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if (call := caller_connection.under_way) is None:
                task.cancel()
            elif call.id not in self._waiting.worker.left:
                caller_connection.leave()  # the pipeline handles the call after the disconnect
            raise

    def _client_left(self, task: asyncio.Task[Envelope], caller_connection: CallerConnection) -> None:
        """Store a call that an executor runs and that may have an effect: its client disconnected, and may ask for the outcome."""
        call = caller_connection.under_way
        if call is None or caller_connection.started is not True or call.tool.effect is Effect.READ or task.done():
            return
        scope = ExitStack()
        scope.enter_context(self._waiting.about_to_keep(call))
        keeping = asyncio.create_task(self._leave(task, call, caller_connection))
        self._tasks.add(keeping)
        keeping.add_done_callback(self._tasks.discard)
        keeping.add_done_callback(lambda _: scope.close())

    async def _leave(
        self, task: asyncio.Task[Envelope], call: Call, caller_connection: CallerConnection
    ) -> Invocation | None:
        """Store a running call, so that its caller can return to it; None if that is not possible: then its caller waits."""
        waiting = self._waiting
        if call.id in waiting.worker.left:
            return None
        adding = waiting.worker.left[call.id] = asyncio.get_running_loop().create_future()
        known, kept = None, False
        try:
            made = _invocation(call, waiting.worker.owner, await waiting.store.now(), caller_connection.task)
            if await self._full(call.principal) is None:
                known = await waiting.store.add(made, each=MAX_CALLS_EACH, total=MAX_CALLS)
            kept = known is not None
            if known is not None:
                await waiting.stands_for_equal(known)
        except StateError as fault:
            _logger.error("a call could not continue in the background: %s", fault)  # noqa: TRY400 - it says all there is
        finally:
            adding.set_result(kept)
            if kept:
                waiting.worker.left[call.id] = True
            else:
                del waiting.worker.left[call.id]
            if isinstance(caller_connection.line, CallReports):
                caller_connection.line.decide(kept=kept)
        if known is None:
            return None
        self._waiting.worker.mine[call.id] = known
        caller_connection.stay()
        self._each[parties(call.principal)] += 1
        self._running[call.id] = caller_connection
        self._left[task] = caller_connection
        task.add_done_callback(self._over)
        if isinstance(line := caller_connection.line, CallReports):
            line.told = self._said
            if line.news:
                self._says(call.id, line)
        waiting.news.announce(call.id)
        return known

    async def keep_ended(self, call: Call, envelope: Envelope, task: TaskWish | None = None) -> Invocation | None:
        """Store a call that ended before its client disconnected; None if its caller has too many background calls.

        Raises `StateError`.
        """
        waiting = self._waiting
        if (known := await waiting.store.get(envelope.call_id)) is not None:
            return known
        made = msgspec.structs.replace(
            _invocation(call, waiting.worker.owner, await waiting.store.now(), task), id=envelope.call_id
        )
        kept = await waiting.store.add(made, each=MAX_CALLS_EACH, total=MAX_CALLS)
        if kept is None or kept.status == "ended":
            return kept
        return await waiting.end(kept, envelope) or await waiting.store.get(made.id)

    @contextmanager
    def running(self, call_id: str, caller_connection: CallerConnection) -> Iterator[None]:
        """Return the context of a call that runs in this worker and reports to its caller at another one."""
        self._running[call_id] = caller_connection
        try:
            yield
        finally:
            del self._running[call_id]

    def _ends(self, task: asyncio.Task[Envelope]) -> None:
        """Store the outcome of a call. A call that was cut off is left to other workers, because its progress is unknown."""
        caller_connection = self._left.pop(task)
        call = caller_connection.under_way
        assert call is not None  # noqa: S101 - it was left for that
        ending = asyncio.create_task(self._ended(task, call, caller_connection))
        self._tasks.add(ending)
        ending.add_done_callback(self._tasks.discard)

    async def _ended(self, task: asyncio.Task[Envelope], call: Call, caller_connection: CallerConnection) -> None:
        """Store the outcome of a call. A call that waits now is ended by its approvers or its device."""
        try:
            if not task.cancelled():
                await self._settle(self._waiting.worker.mine[call.id], task.result(), caller_connection.line)
        except ToolgenError as error:
            _logger.error(  # noqa: TRY400 - the cause may quote values
                "the outcome of call %s could not be stored for its caller; the audit log has it: %s",
                call.id,
                place_of(error),
            )
        finally:
            if (telling := self._telling.get(call.id)) is not None:
                telling.cancel()
            del self._running[call.id]
            del self._waiting.worker.mine[call.id]
            del self._waiting.worker.left[call.id]
            who = parties(call.principal)
            self._each[who] -= 1
            if not self._each[who]:
                del self._each[who]

    def _says(self, call_id: str, line: CallReports) -> None:
        """Schedule the storage of a call's messages."""
        if call_id not in self._telling and call_id in self._running:
            telling = self._telling[call_id] = asyncio.create_task(self._tell(call_id, line))
            telling.add_done_callback(lambda _: self._telling.pop(call_id, None))

    async def _tell(self, call_id: str, line: CallReports) -> None:
        """Store the messages of a call for its followers at every worker."""
        while line.news:
            line.news = False
            said = None
            with suppress(StateError):
                known, now = await self._waiting.store.get(call_id), await self._waiting.store.now()
                if known is None or known.status != "running":
                    return
                said = await self._waiting.store.replace(known, line.added_to(known, now))
            if said is not None:
                self._waiting.worker.mine[call_id] = said
                self._waiting.news.announce(call_id)
            else:  # the store is unavailable, or other data of the call, such as a question, was stored meanwhile
                line.news = True
            await asyncio.sleep(_EVERY_S)

    async def _settle(self, mine: Invocation, envelope: Envelope, line: object) -> None:
        waiting = self._waiting

        async def settle(known: Invocation) -> bool:
            # A call that has ended here does not wait: the store has that, but did not confirm it.
            waits = envelope.status == "pending" or known.status not in {"pending", "approved"}
            if known.kind != "call" and waits:
                return True
            if envelope.status == "pending" and known.id in waiting.questions:
                if await waiting.keep_question(known.id):
                    return False  # its stored form is read again in this case
                # The store lost the question before this call went on without its caller.
                return await waiting.end_forgotten(known) is not None
            if isinstance(line, CallReports):
                known = line.added_to(known, await waiting.store.now())
            return await waiting.end(known, envelope) is not None

        await waiting.worker.keep_outcome(mine, settle)

    async def renew(self, now: float) -> None:
        """Renew the leases of all calls that this worker runs in the background."""
        if self._waiting.worker.left and now >= self._renewed + LEASE_S / 3:
            self._renewed = now
            await self._waiting.store.renew(list(self._waiting.worker.left), now + LEASE_S, unless_due=now)

    async def took(self, known: Invocation, now: float) -> bool:
        """Renew the lease of a call if it runs in this worker, and end it if its caller cancelled it at any worker. Return True if it runs
        here."""
        caller_connection = self._running.get(known.id)
        if caller_connection is None:
            return False
        if known.cancel:
            caller_connection.call_off()
        await self._waiting.store.renew((known.id,), now + LEASE_S)
        return True

    async def cancel(self, call_id: str, caller: Principal) -> Envelope | None:
        """Withdraw a caller's own call, or cancel it where it runs, and return its state; None if there is none."""
        waiting = self._waiting
        while True:
            known = await waiting.own(call_id, caller)
            if known is None:
                return None
            if known.status != "running":
                return await waiting.cancel(call_id, caller)
            lease = await waiting.store.now() + LEASE_S
            if known.cancel or await waiting.store.replace(
                known, msgspec.structs.replace(known, cancel=True, lease=lease)
            ):
                break
        if (caller_connection := self._running.get(call_id)) is not None:
            caller_connection.call_off()
        waiting.news.announce(call_id)
        return await waiting.outcome(call_id, caller, _CALLED_OFF_S)

    async def close(self) -> None:
        """Close after the outcome of every call was stored."""
        while self._tasks or self._left:
            await asyncio.wait({*self._tasks, *self._left})


async def _first_of(task: asyncio.Task[Envelope], event: asyncio.Event, within: float | None) -> None:
    """Wait until a task is done, an event is set, or the time is over."""
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait((task, waiting), timeout=within, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


def _asks(caller_connection: CallerConnection) -> bool:
    """Return True if a call is ending because it has a question, and will be made again with the answer."""
    return isinstance(caller_connection.line, CallReports) and caller_connection.line.ending


def _invocation(call: Call, owner: str, now: float, task: TaskWish | None) -> Invocation:
    """Return a running call in its stored form, without its arguments, which are not needed again."""
    return Invocation(
        id=call.id,
        waits_for=BackgroundState(),
        status="running",
        principal=party_of(call.principal),
        tool=call.tool.name,
        effect=call.tool.effect.value,
        arguments={},
        digest="",
        tool_digest=call.tool.digest,
        policy_digest="",
        session=call.session,
        client=call.client,
        parent=call.parent,
        ancestry=call.ancestry,
        equal=call.equal,
        asked=now,
        expires=0.0,
        owner=owner,
        lease=now + LEASE_S,
        task=task,
    )


def _too_many() -> Error:
    return Error(
        code="rate_limited",
        message="too many of this caller's calls run in the background already; this one was not made",
        suggestion="wait until some have ended, or cancel them",
        retry_after_s=_RETRY_S,
        rule="concurrency",
    )


def _no_room(seconds: float) -> Error:
    return Error(
        code="rate_limited",
        message=f"results of this caller's background calls use all of its storage ({ROOM.each} bytes a caller); this call was not made",
        suggestion="make it without wait: 0, or after earlier results were deleted, an hour after their calls ended",
        retry_after_s=round(seconds, 1),
        rule="kept_results",
    )
