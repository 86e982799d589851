"""Guards and stages of the pipeline, and their composition. A guard judges a call; a stage also acts before and after it.

A call that only reads is ended if its client disconnects, at the server too, and recorded as cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

import msgspec

from toolgen.model.call import Call
from toolgen.model.client_channel import ClientChannel, Unasked
from toolgen.model.result import Error, Refused, Result
from toolgen.model.schema import Json, JsonObject
from toolgen.model.trace_context import Trace
from toolgen.model.verdict import Consent, Deny, Verdict
from toolgen.policy.caller_requests import NO_ALLOWANCES, Allowances
from toolgen.policy.rules import DecisionNote
from toolgen.state.invocations import TaskWish
from toolgen.state.turn_counter import TurnLease

__all__ = [
    "CallContext",
    "CallerConnection",
    "Guard",
    "InFlightCalls",
    "Judged",
    "Next",
    "Stage",
    "compose",
    "guarded",
    "judge",
    "refused",
]

T = TypeVar("T")


class CallerConnection:
    """Connection of the caller of one request, which may make several calls at once: it tells if somebody still waits for the answer.

    A caller that disconnects, or cancels the request, ends `awaiting` work and every call in an executor that only reads. A write that an
    executor has runs to its end. Set by the front end:

    - `elicits`: the person at the client can be asked to approve a call. `roots` asks for the folders that the client opens.
    - `line`: channel to the client, for progress and questions. `trace`: the trace of the request. `task`: options of the task that the
      call becomes. `local`: the caller runs on this machine, as its user.
    - `on_leave`: called when the caller disconnects. `returns`: the client comes back for a call that waits, and for its questions.

    Set by the gateway:

    - `started`: for a call that may continue without its caller. True once an executor has it, before that a future for its waiter, or
      False.
    - `under_way`: that call. `has_own_task`: it has a task of its own, which no waiter cancels.
    - `pends`: seconds after which it is answered as pending, None for never. `follows`: it waits for an equal call to end, or to be stored.
    """

    __slots__ = (
        "_executing",
        "_left",
        "_others",
        "_stays",
        "_tasks",
        "cancel_requested",
        "elicits",
        "follows",
        "has_own_task",
        "line",
        "local",
        "on_leave",
        "pends",
        "returns",
        "roots",
        "started",
        "task",
        "trace",
        "under_way",
    )

    # These attributes make a connection a client channel without progress, messages or questions.
    capabilities: ClassVar[frozenset[str]] = frozenset()
    listens: ClassVar[bool] = False

    def __init__(self) -> None:
        self.elicits = self.local = self.returns = False
        self.roots: Callable[[], Awaitable[tuple[Path, ...]]] | None = None
        self.line: ClientChannel | None = None
        self.task: TaskWish | None = None
        self.trace: Trace | None = None
        self.has_own_task = False
        self.started: asyncio.Future[None] | bool | None = None
        self.under_way: Call | None = None
        self.cancel_requested = False
        self.pends: float | None = None
        self.follows = False
        self.on_leave: Callable[[], None] | None = None
        self._executing: asyncio.Task[Any] | None = None
        self._left = False
        self._others: tuple[CallerConnection, ...] = ()
        self._stays = False
        self._tasks: tuple[asyncio.Task[Any], ...] = ()

    def leave(self) -> None:
        """Mark the client as disconnected and cancel the tasks that end with it."""
        if self._left or self._stays:
            return
        self._left = True
        if self.on_leave is not None:
            self.on_leave()
        for task in self._tasks:
            task.cancel()
        for other in self._others:
            other.leave()

    @contextmanager
    def several(self, count: int) -> Iterator[tuple[CallerConnection, ...]]:
        """Yield `count` connections for the calls of one request. They disconnect together with this one; each can be cancelled alone."""
        made = tuple(CallerConnection() for _ in range(count))
        for one in made:
            one.trace = self.trace
            if self._left:
                one.leave()
        self._others = made
        try:
            yield made
        finally:
            self._others = ()

    def stay(self) -> None:
        """Keep the call running if the client disconnects, because the client will come back for the result."""
        self._stays = True

    def call_off(self) -> None:
        """Cancel the call for its client: at once if an executor has it, otherwise before an executor gets it."""
        if not self.cancel_requested:
            self.cancel_requested = self._left = True
            if self._executing is not None:
                self._executing.cancel()

    def enter_executor(self, *, ends_early: bool) -> asyncio.Task[Any] | None:
        """Start the execution of a call in the current task; a disconnect cancels that task if the call `ends_early`.

        Returns None if the caller has disconnected or cancelled the call before: then it must not be started.
        """
        if self._left:
            return None
        task = asyncio.current_task()
        self._executing = task
        if ends_early:
            assert task is not None  # noqa: S101 - a coroutine runs in one
            self._tasks = (*self._tasks, task) if self._tasks else (task,)
        if (started := self.started) is not None:
            if started is not True and started is not False:
                started.set_result(None)
            self.started = True
        return task

    def is_cancelled(self, task: asyncio.Task[Any]) -> bool:
        """Return True if a cancellation that reached an executor came only from the caller."""
        ended = self.cancel_requested or (self._left and task in self._tasks)
        return ended and task.cancelling() <= 1

    def exit_executor(self, task: asyncio.Task[Any]) -> None:
        """Note that the executor has returned, even after a cancellation."""
        if self._left and task.cancelling() and (self.cancel_requested or task in self._tasks):
            task.uncancel()
        self._executing = None
        if tasks := self._tasks:
            self._tasks = () if tasks == (task,) else tuple([one for one in tasks if one is not task])

    def disconnected(self) -> bool:
        """Return True if the client has disconnected or cancelled the call."""
        return self._left

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Drop the progress, because the client did not ask for it."""

    def partial(self, data: Json) -> None:
        """Drop the partial answer."""

    def log(self, level: str, text: str) -> None:
        """Drop the message, because the client did not ask for any."""

    async def ask(self, key: str, method: str, params: JsonObject) -> Json:
        """Raise `Unasked`."""
        raise Unasked

    async def awaiting(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of `work`, or None if it was cancelled, or not started, because the client has disconnected.

        The work runs in the task of the call, because a separate task would be more expensive than everything else here.
        """
        if self.disconnected():
            work.close()
            return None
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in one
        self._tasks = (*self._tasks, task)
        try:
            return await work
        except asyncio.CancelledError:
            if not self.disconnected() or task.cancelling() > 1:  # also by another cause
                raise
            return None
        finally:
            self._tasks = tuple(one for one in self._tasks if one is not task)
            if self.disconnected():  # take back the cancellation by the disconnect, also if `work` ended normally
                task.uncancel()


class CallContext(msgspec.Struct):
    """Mutable state of one call: entries of the stages for the audit log, the client's connection, and the lease of a turn in a session.

    Everything else in a call is immutable.
    """

    caller_connection: CallerConnection = msgspec.field(default_factory=CallerConnection)
    turn_lease: TurnLease | None = None
    verdict: str = ""
    rule: str = ""
    consents: tuple[Consent, ...] = ()  # requirements of the rules that ask
    outcome_seq: int | None = None
    sql: str = ""  # the statement that would run
    replays: str = ""  # the call that this one repeats; it gets the outcome of that call
    labels: Sequence[Json] = ()  # labels of the session
    notes: tuple[DecisionNote, ...] = ()
    redacts: bool = False  # a part of the answer is hidden from this caller
    inspected: bool = False  # detectors inspect the answer
    withholds: bool = False  # fields of the answer are redacted, so an answer that is a file would be withheld
    http_status: int | None = None  # HTTP status of the system's answer
    requests: Allowances = NO_ALLOWANCES  # requests to the caller that the server of the tool may make
    awaits_account: bool = False  # the call is stored until its person has linked an account
    unreachable: str = ""  # reason why the caller can answer no requests
    judged: Call | None = None  # of a dry run or an explained call: the call after its guards


Next: TypeAlias = Callable[[Call, CallContext], Coroutine[Any, Any, Result]]
"""Function that runs a call through the following stages, or through all of them."""


class InFlightCalls:
    """Calls in flight. A call runs to its end if its caller disconnects, unless its `CallContext` permits an early end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, call: Call, call_context: CallContext) -> asyncio.Task[Any] | None:
        """Start a call in its own task (`has_own_task`), until its `end`; None if it has no task, so that it needs `run`."""
        call_context.caller_connection.under_way = call
        task = asyncio.current_task() if call_context.caller_connection.has_own_task else None
        if task is not None:
            self._tasks.add(task)
        return task

    def end(self, task: asyncio.Task[Any]) -> None:
        """Remove a call that has ended."""
        self._tasks.discard(task)

    async def run(self, pipeline: Next, call: Call, call_context: CallContext) -> Result:
        """Run a call through the whole pipeline, in a task of its own."""
        task = asyncio.create_task(pipeline(call, call_context))
        self._tasks.add(task)
        if call_context.turn_lease is not None:
            call_context.turn_lease.hold(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            call_context.caller_connection.leave()  # the caller that is cancelled here does not wait any longer
            raise

    def cut_off(self) -> None:
        """Cancel all calls, because the process ends."""
        for task in self._tasks:
            task.cancel()

    async def ended(self) -> None:
        """Return when all calls that are in flight now have ended."""
        if self._tasks:
            await asyncio.wait(self._tasks)


Judged: TypeAlias = Call | Result
"""The call to continue with, or its result if it ends here; nothing was sent."""
Guard: TypeAlias = Callable[[Call, CallContext], Judged | Coroutine[Any, Any, Judged]]
"""Function that judges a call: at once, or as a coroutine if it has to wait."""


class Stage(Protocol):
    """Stage that acts before and after the rest of the pipeline. It calls `proceed` at most once."""

    def __call__(self, call: Call, call_context: CallContext, proceed: Next) -> Coroutine[Any, Any, Result]: ...


def compose(stages: Sequence[Stage | None], last: Next) -> Next:
    """Return a function that sends a call through all stages that are not None, the first outermost, and then to `last`."""
    pipeline = last
    for stage in reversed(stages):
        if stage is not None:
            pipeline = partial(stage, proceed=pipeline)
    return pipeline


def guarded(*all_guards: Guard | None) -> Stage | None:
    """Return a stage that asks guards one after the other and ends at the first result. None without guards."""
    guards = tuple(guard for guard in all_guards if guard is not None)
    return partial(_ask, guards) if guards else None


def _ask(guards: Sequence[Guard], call: Call, call_context: CallContext, proceed: Next) -> Coroutine[Any, Any, Result]:
    """Run the guards and return the coroutine of the remaining pipeline without awaiting it.

    If no guard waits, nothing of this function is kept during the call.
    """
    for number, guard in enumerate(guards, 1):
        answer = guard(call, call_context)
        if not isinstance(answer, Call):
            return _ask_on(answer, guards[number:], call_context, proceed)
        call = answer
    return proceed(call, call_context)


async def _ask_on(
    answer: Judged | Coroutine[Any, Any, Judged], guards: Sequence[Guard], call_context: CallContext, proceed: Next
) -> Result:
    judged = await answer if isinstance(answer, Coroutine) else answer
    return await _ask(guards, judged, call_context, proceed) if isinstance(judged, Call) else judged


async def judge(guard: Guard, call: Call, call_context: CallContext) -> Judged:
    """Return the answer of a guard, awaited if it is a coroutine."""
    answer = guard(call, call_context)
    return await answer if isinstance(answer, Coroutine) else answer


def refused(verdict: Verdict) -> Refused:
    """Return the result for a verdict that is not Allow."""
    if isinstance(verdict, Deny):
        return Refused(
            error=Error(
                code=verdict.code,
                message=verdict.reason,
                suggestion=verdict.suggestion,
                retry_after_s=verdict.retry_after_s,
                rule=verdict.rule,
            )
        )
    return Refused(
        error=Error(code="forbidden", message="the gateway's rules do not allow this call", rule=verdict.rule)
    )
