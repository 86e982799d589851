"""The one order every call goes through. Those that only judge are `guarded`, the others act on the way in and out. Read it aloud:

Calls alike go by a plan, compiled once, without the stages that would let each of them pass as it is.

The middleware, and what looks at results, are there where a project asks for them.

record -> turn -> pause -> limit -> access -> arguments -> inspect -> ledger -> equal -> middleware -> approve -> meter ->
pause -> current -> results -> redact -> deliver
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from toolgen.model.call import Call, Principal
from toolgen.model.result import Result, Success
from toolgen.model.tool import Effect, Tool
from toolgen.pipeline.middleware import CallContext, Next, compose, guarded
from toolgen.pipeline.stages.access import AccessStage, RedactStage
from toolgen.pipeline.stages.approve import ApproveStage
from toolgen.pipeline.stages.completion import Completion
from toolgen.pipeline.stages.deliver import Deliver, Preview
from toolgen.pipeline.stages.equal_calls import EqualCallsStage
from toolgen.pipeline.stages.guards import ArgumentsStage, CurrentStage, InspectStage, PauseStage
from toolgen.pipeline.stages.idempotency import LedgerStage
from toolgen.pipeline.stages.middleware import MiddlewareStage
from toolgen.pipeline.stages.rate_limit import LimitStage, MeterStage, TurnStage
from toolgen.pipeline.stages.record import Record
from toolgen.pipeline.stages.results import ResultsStage
from toolgen.policy.access import Access

__all__ = [
    "Parts",
    "Plans",
    "call_pipeline",
    "completion",
    "context_pipeline",
    "dry_pipeline",
    "inspection",
    "resource_pipeline",
]

_T = TypeVar("_T")
_MAX_PLANS = 20_000


class Parts(Struct, frozen=True, kw_only=True):
    """The stages of one gateway, each made once."""

    record: Record
    turn: TurnStage
    pause: PauseStage
    limit: LimitStage
    access: AccessStage
    arguments: ArgumentsStage
    inspect: InspectStage
    ledger: LedgerStage
    equal: EqualCallsStage
    approve: ApproveStage
    meter: MeterStage
    current: CurrentStage
    redact: RedactStage
    deliver: Deliver
    preview: Preview
    middleware: MiddlewareStage | None = None
    results: ResultsStage | None = None


def call_pipeline(parts: Parts, idle: Collection[object] = ()) -> Next:
    """Return the pipeline of a call, without the `idle` parts."""

    def busy(part: _T) -> _T | None:
        return None if any(part is one for one in idle) else part

    return compose(
        (
            parts.record,
            guarded(parts.turn, parts.pause),
            parts.limit,
            parts.access,
            guarded(parts.arguments, busy(parts.inspect)),
            busy(parts.ledger),
            busy(parts.equal),
            _judging(parts.middleware, parts),
            guarded(busy(parts.approve)),
            parts.meter,
            # Paused again: meanwhile the call may have waited at a limit, or turned out to be a document of other tools' fields.
            guarded(parts.pause, parts.current),
            busy(parts.results),
            busy(parts.redact),
        ),
        parts.deliver,
    )


class Plans:
    """The pipeline under one policy. Calls of principals with the same roles to the same tool share a plan.

    What is left out is what this policy and this tool settle: a destination that is open, an answer of which nothing is hidden, a verdict
    that is the same whatever the arguments. Everything that changes while the policy is in force is asked at every call, as are the
    arguments. A call with anything unusual about it (a user it acts for, toolsets, an idempotency key, an approval) takes every stage.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts, self._whole = parts, call_pipeline(parts)
        self._plans: dict[tuple[str, frozenset[str]], tuple[Tool, Next]] = {}

    def __call__(self, call: Call, call_context: CallContext) -> Coroutine[Any, Any, Result]:
        """The call through every stage that has something to say about it."""
        who, tool = call.principal, call.tool
        if (
            who.on_behalf_of is not None
            or who.toolsets
            or call.idempotency_key
            or call.approval
            or call.denied is not None
        ):
            return self._whole(call, call_context)
        found = self._plans.get((tool.name, who.roles))
        if found is None or found[0] is not tool:
            return self._planned(who, tool)(call, call_context)
        return found[1](call, call_context)

    def _planned(self, who: Principal, tool: Tool) -> Next:
        parts = self._parts
        if not parts.access.access.visible(who, tool):
            return self._whole  # nothing is kept of the names that strangers make up
        idle: list[object] = [parts.ledger]
        if parts.results is not None and parts.results.idle(tool):
            idle.append(parts.results)
        if parts.redact.idle(tool):
            idle.append(parts.redact)
        if parts.inspect.idle(tool):
            idle.append(parts.inspect)
            if parts.access.access.allows(who, tool):  # inspecting may ask too, whatever the rules say
                idle.append(parts.approve)
                if tool.effect is Effect.READ:
                    idle.append(parts.equal)
        if len(self._plans) >= _MAX_PLANS:
            self._plans.clear()
        plan = call_pipeline(parts, idle)
        self._plans[tool.name, who.roles] = (tool, plan)
        return plan


def resource_pipeline(parts: Parts) -> Next:
    """Return the pipeline for reading a resource that the answer of a call links to.

    That call was judged, so the access stages are left out. The read is recorded, limited and counted like a call of the same tool, the
    project's own checks are asked, and the answer is inspected and redacted. The answer is not cached.
    """
    checks = None if parts.middleware is None else replace(parts.middleware, again=())
    return compose(
        (
            parts.record,
            guarded(parts.pause),
            parts.limit,
            checks,
            parts.meter,
            guarded(parts.pause),
            parts.results,
            parts.redact,
        ),
        replace(parts.deliver, caching=None),
    )


def context_pipeline(parts: Parts, access: Access, stands: Callable[[Call], bool]) -> Next:
    """Return the pipeline for getting a prompt and reading a resource: that of a call that reads, under the rules of `access`.

    Nothing is asked about it, and it is neither cached nor repeated by a key. `stands` returns True if it would still be allowed.
    """
    judged = replace(parts.access, access=access, closed=None, advice=None)
    deliver = replace(parts.deliver, caching=None)
    reads = replace(parts, access=judged, deliver=deliver, current=CurrentStage(stands=stands))
    return call_pipeline(reads, (reads.ledger, reads.equal, reads.approve))


def completion(parts: Parts) -> Completion:
    """Return the stages for the answer of a device, which arrives after its call has passed every stage."""
    return Completion(
        record=parts.record,
        redact=parts.redact,
        earlier=parts.access.earlier,
        middleware=parts.middleware,
        results=parts.results,
    )


def dry_pipeline(parts: Parts) -> Next:
    """Return the pipeline of a dry run: all guards, but nothing is counted, sent or recorded."""
    earlier = parts.access.earlier
    access = replace(parts.access, earlier=None if earlier is None else earlier.looking())
    arguments, inspect = parts.arguments, parts.inspect
    asked = _judging(parts.middleware, replace(parts, access=access))
    entered = None if asked is None else asked.dry_run
    return compose((access, guarded(arguments, inspect, entered, parts.approve.dry_run)), parts.preview)


def _judging(middleware: MiddlewareStage | None, parts: Parts) -> MiddlewareStage | None:
    """Return the middleware stage set up so that the guards before it judge a narrowed call again. The guards after it run in any case."""
    if middleware is None:
        return None
    return replace(middleware, again=(parts.access.again, parts.arguments, parts.inspect))


def inspection(parts: Parts) -> Next:
    """The inspect stage alone, which sends and counts nothing: its refusal, or a success without data. The call that it let through is
    `judged` of the trail."""
    return compose((guarded(replace(parts.inspect, earlier=None)),), _passed)


async def _passed(call: Call, call_context: CallContext) -> Result:
    call_context.judged = call
    return Success(data=None)
