"""Order of the stages of a call, from which the general pipeline and the call plans are made.

record -> turn -> pause -> limit -> access -> arguments -> inspect -> ledger -> equal -> middleware -> approve -> meter ->
pause -> current -> results -> redact -> deliver

Guards only judge; the other stages act on the way in and out. The middleware and the results stage exist where a project configures them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolgen.model.call import Call, Principal
from toolgen.model.result import Result, Success
from toolgen.model.tool import Tool
from toolgen.pipeline.call_plan import GENERAL, CallPlan, Prepared, PreparedStage
from toolgen.pipeline.middleware import CallContext, Next, Stage, compose, guarded
from toolgen.pipeline.stage_spans import StageSpans, spanned, spanned_guard
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
    "with_stage_spans",
]

_MAX_PLANS = 10_000
_MAX_SHARED = 5_000  # tools


class Parts(Struct, frozen=True, kw_only=True):
    """Stages of one gateway, each created once."""

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


class _Placed(Struct, frozen=True):
    """Stage at its place in the order. One that `judges` is a guard; any other acts on the way in and on the way out."""

    stage: Any
    judges: bool = False


def _order(parts: Parts) -> tuple[_Placed, ...]:
    """Return the stages between the record and the executor, in their order."""
    placed = (
        _Placed(parts.turn, True),
        _Placed(parts.pause, True),
        _Placed(parts.limit),
        _Placed(parts.access),
        _Placed(parts.arguments, True),
        _Placed(parts.inspect, True),
        _Placed(parts.ledger),
        _Placed(parts.equal),
        _Placed(_judging(parts.middleware, parts)),
        _Placed(parts.approve, True),
        _Placed(parts.meter),
        # Pauses are checked again, because the call may have waited at a limit, or have turned out to be a document of other tools' fields.
        _Placed(parts.pause, True),
        _Placed(parts.current, True),
        _Placed(parts.results),
        _Placed(parts.redact),
    )
    return tuple(one for one in placed if one.stage is not None)


def _composed(placed: Sequence[_Placed], last: Next) -> Next:
    """Return the general pipeline of some stages, which ends with `last`. Guards that follow each other are one stage."""
    stages: list[Stage | None] = []
    for judges, group in groupby(placed, key=lambda one: one.judges):
        found = [one.stage for one in group]
        stages += [guarded(*found)] if judges else found
    return compose(stages, last)


def call_pipeline(parts: Parts, idle: Collection[object] = ()) -> Next:
    """Return the general pipeline of a call, without the `idle` parts."""
    placed = [one for one in _order(parts) if all(one.stage is not part for part in idle)]
    return partial(parts.record, proceed=_composed(placed, parts.deliver))


class Plans:
    """Pipeline under one policy. Calls of principals with the same roles to the same tool share a plan, made at the first of them.

    Plans of one tool differ only in the access stage. Data that can change while the policy is in force is checked at every call, as are
    the arguments. A call with anything unusual about it (a user it acts for, toolsets, a conversation whose turns are counted,
    an idempotency key, an approval) takes the general pipeline.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts, self._general = parts, call_pipeline(parts)
        self._placed = _order(parts)
        self._plans: dict[tuple[str, frozenset[str]], tuple[Tool, Next]] = {}
        self._shared: dict[str, _SharedStages] = {}

    def __call__(self, call: Call, call_context: CallContext) -> Coroutine[Any, Any, Result]:
        """Return the coroutine of a call, by its plan if there is one for calls like it."""
        who, tool = call.principal, call.tool
        if (
            who.on_behalf_of is not None
            or who.toolsets
            or call.idempotency_key
            or call.approval
            or call.denied is not None
            or call_context.turn_lease is not None
        ):
            return self._general(call, call_context)
        found = self._plans.get((tool.name, who.roles))
        if found is None or found[0] is not tool:
            return self._planned(who, tool)(call, call_context)
        return found[1](call, call_context)

    def _planned(self, who: Principal, tool: Tool) -> Next:
        parts = self._parts
        if not parts.access.access.visible(who, tool):
            return self._general  # no plan is stored for a name that does not exist for its caller
        if len(self._plans) >= _MAX_PLANS:
            self._plans.clear()
        shared = self._stages(tool)
        plan = partial(shared.record, proceed=self._plan(shared, parts.access.prepared_for(who, tool)))
        self._plans[tool.name, who.roles] = (tool, plan)
        return plan

    def _stages(self, tool: Tool) -> _SharedStages:
        found = self._shared.get(tool.name)
        if found is None or found.tool is not tool:
            if len(self._shared) >= _MAX_SHARED:
                self._shared.clear()
            parts = self._parts
            prepared = tuple(GENERAL if one.stage is parts.access else one.stage.prepared(tool) for one in self._placed)
            record, last = parts.record.for_plan(tool), parts.deliver.prepared(tool)
            found = self._shared[tool.name] = _SharedStages(tool, record, prepared, last)
        return found

    def _plan(self, shared: _SharedStages, access: Prepared, first: int = 0) -> Next:
        """Return the stages from a place on that have something to do for these calls. A stage that has to see each call is in the plan
        unchanged, followed by a plan of the later stages."""
        stages: list[PreparedStage] = []
        places: list[int] = []
        last = shared.last
        for place, one in enumerate(self._placed[first:], first):
            prepared = access if one.stage is self._parts.access else shared.prepared[place]
            if prepared is GENERAL:
                last = _composed([one], self._plan(shared, access, place + 1))
                break
            if prepared is not None and not (stages and stages[-1] == prepared):
                stages.append(prepared)
                places.append(place)
        return CallPlan(stages, places, last, self._rest) if stages else last

    def _rest(self, place: int) -> Next:
        """Return the general pipeline from a place on, behind the record."""
        return _composed(self._placed[place:], self._parts.deliver)


def with_stage_spans(parts: Parts, spans: StageSpans) -> Next:
    """Return the pipeline whose sampled calls take the general one, with a span for each stage. All other calls take their plans."""
    plans = Plans(parts)
    stages = [
        guarded(spanned_guard(one.stage, spans)) if one.judges else spanned(one.stage, spans) for one in _order(parts)
    ]
    general = compose((spanned(parts.record, spans), *stages), parts.deliver)

    def run(call: Call, call_context: CallContext) -> Coroutine[Any, Any, Result]:
        sampled = call.trace is not None and call.trace.sampled
        return general(call, call_context) if sampled else plans(call, call_context)

    return run


class _SharedStages(Struct, frozen=True):
    """Stages of all plans for one tool: the record, each stage in the order, and the end of the pipeline. The place of the access stage
    holds nothing."""

    tool: Tool
    record: Record
    prepared: tuple[Prepared, ...]
    last: Next


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

    No person is asked about it, and it is neither cached nor repeated by a key. `stands` returns True if it would still be allowed.
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
    """Return the inspect stage alone, which sends and counts nothing: its refusal, or a success without data. The call that passed is
    `judged` of the call context."""
    return compose((guarded(replace(parts.inspect, earlier=None)),), _passed)


async def _passed(call: Call, call_context: CallContext) -> Result:
    call_context.judged = call
    return Success(data=None)
