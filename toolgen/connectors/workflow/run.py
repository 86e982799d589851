"""Run of a workflow: its stages in order, the result of each step, and the compensation of steps when one fails.

A run that waited for a person goes through its stages again. Completed steps are not repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from toolgen.connectors.executor import Answered, InnerCalls
from toolgen.connectors.inner_calls import RowNotes
from toolgen.connectors.workflow.report import brief, called_as, error_fields, failure, fault
from toolgen.connectors.workflow.values import NOTHING, ExpressionScope, MissingError, evaluate, met
from toolgen.core.clock import Clock
from toolgen.core.json_codec import FRAMED_DEPTH, carried, encode_json
from toolgen.model.argument_names import own_arguments
from toolgen.model.call import Call
from toolgen.model.expressions import ExpressionError
from toolgen.model.result import Envelope, Error, Meta
from toolgen.model.tool import Effect, Tool, WorkflowBinding
from toolgen.model.workflow import Action, Step, ToolUse, steps_of

__all__ = ["MAX_CALLS", "MAX_KEPT", "Ended", "Run", "Waiting"]

MAX_CALLS = 1000
"""Maximum number of calls of one run."""
MAX_KEPT = 16_777_216
"""Maximum bytes of JSON of all results of one run; each result may have the size of a complete answer."""
MAX_WAIT_S = 60.0
_MAX_TURNS = 200
_WAITS = frozenset({"approval_required", "deferred"})
_UNSENT = frozenset({"rate_limited", "paused", "upstream_unavailable"})
"""Codes of refusals before anything was sent: another attempt repeats nothing."""

_NO_META = Meta(duration_ms=0.0, truncated=False)
Sleep = Callable[[float], Awaitable[object]]


class Ended(Struct, frozen=True, kw_only=True):
    """Result of a run: its outputs, or its error. `row_notes` come from the answers of its steps."""

    outputs: dict[str, Any] = {}
    truncated: bool = False
    error: Error | None = None
    report: dict[str, Any] = {}
    row_notes: tuple[str, ...] = ()


class Waiting(Struct, frozen=True, kw_only=True):
    """Suspended run. `state` is the JSON that the run continues from; `waits` are calls by step."""

    state: dict[str, Any]
    waits: Mapping[str, str]


class _TooManyError(Exception):
    """Run over its limit of calls."""


class _OverError(Exception):
    """Run over its time limit. `sent`: a call with a possible effect has started."""

    def __init__(self, *, sent: bool = False) -> None:
        super().__init__()
        self.sent = sent


class Run:
    """Run of a workflow. `call` is the workflow's own, `inner` makes those of its steps, and `sleep` waits a number of seconds."""

    def __init__(self, call: Call, inner: InnerCalls, sleep: Sleep, clock: Clock) -> None:
        binding = call.tool.binding
        assert isinstance(binding, WorkflowBinding)  # noqa: S101 - the tool of such a source
        self._call, self._binding, self._inner, self._sleep = call, binding, inner, sleep
        state: Mapping[str, Any] = call.resume or {}
        self._done: dict[str, dict[str, Any]] = {**state.get("done", {})}
        self._waits: dict[str, str] = {**state.get("waits", {})}
        self._waiting: dict[str, str] = {}
        self._steps: dict[str, dict[str, Any]] = {}
        self._order: list[tuple[Step, str, ExpressionScope]] = []  # successful calls that can be undone
        self._inputs = own_arguments(call.tool, {**_defaults(call.tool), **inner.received(call)})
        self._clock = clock
        self._began: float = state.get("began", clock.now())
        self._made: int = state.get("made", len(self._done) + len(self._waits))
        self._kept = sum(_size(one) for one in self._done.values())
        self._truncated = False
        self._row_notes = RowNotes()

    async def to_end(self) -> Ended | Waiting:
        """Run every remaining stage. Raises only a cancellation, or an exception that ends the process."""
        stages, at, turns = self._binding.stages, 0, 0
        places = {step.id: index for index, stage in enumerate(stages) for step in stage}
        while at < len(stages) and turns < _MAX_TURNS:
            turns += 1
            stage = stages[at]
            failed = await self._stage(stage)
            if self._waiting and failed is None:
                return self._suspended()
            step = stage[-1] if failed is None else failed
            action = self._action(step, failed is not None)
            if failed is not None and (action is None or action.does != "goto"):
                return await self._failed(failed)
            if action is not None and action.does == "end":
                break
            at = at + 1 if action is None else places[action.step]
        return Ended(outputs=self._outputs(), truncated=self._truncated, row_notes=self._row_notes.told)

    async def _stage(self, stage: tuple[Step, ...]) -> Step | None:
        """Run a stage. Return its first failed step, once all started ones have ended."""
        await asyncio.gather(*(self._step(step) for step in stage))
        return next((step for step in stage if self._steps[step.id]["status"] == "failed"), None)

    def _scope(self, **own: Any) -> ExpressionScope:
        return ExpressionScope(inputs=self._inputs, steps=self._steps, own=own)

    async def _step(self, step: Step) -> None:
        scope = self._scope()
        try:
            if step.when and not met(step.when, scope):
                self._steps[step.id] = {"status": "skipped", "data": None, "outputs": {}}
            elif step.each is None:
                self._steps[step.id] = await self._attempts(step, step.id, scope)
            else:
                self._steps[step.id] = await self._each(step, scope)
        except (MissingError, ExpressionError) as error:
            self._steps[step.id] = fault(str(error))

    def _left(self) -> float | None:
        """Return the remaining seconds, waiting for people included; None without a limit. Raises `_OverError` if none are left."""
        limit = self._binding.timeout_s
        if not limit:
            return None
        left = limit - (self._clock.now() - self._began)
        if left <= 0:
            raise _OverError
        return left

    async def _each(self, step: Step, scope: ExpressionScope) -> dict[str, Any]:
        items = evaluate(step.each, scope)
        if items is NOTHING:
            items = []
        if not isinstance(items, (list, tuple)):
            return fault("the value of for_each is not a list")
        if len(items) > step.at_most:
            return fault(f"it would be executed {len(items)} times, and at_most is {step.at_most}")
        places = asyncio.Semaphore(step.at_once)
        stopped = False

        async def one(index: int, item: Any) -> dict[str, Any]:
            nonlocal stopped
            async with places:
                if stopped:
                    return {"status": "not_begun"}
                found = await self._attempts(step, f"{step.id}[{index}]", scope.within(item=item, index=index))
                stopped |= found["status"] == "failed"
                return found

        made = await asyncio.gather(*(one(index, item) for index, item in enumerate(items)))
        failed = next((one for one in made if one["status"] == "failed"), None)
        if failed is not None:
            return failed
        status = "waiting" if any(one["status"] == "waiting" for one in made) else "ok"
        return {
            "status": status,
            "data": [one.get("data") for one in made],
            "outputs": {name: [one.get("outputs", {}).get(name) for one in made] for name in step.outputs},
        }

    async def _attempts(self, step: Step, key: str, scope: ExpressionScope) -> dict[str, Any]:
        attempt = 1
        while True:
            try:
                found = await self._once(step, key, scope)
            except (MissingError, ExpressionError) as error:
                return fault(str(error))
            except _OverError as over:
                return self._over(step, over)
            except _TooManyError:
                return fault(f"a workflow makes at most {MAX_CALLS} calls")
            if found.get("made"):
                self._order.append((step, key, scope))
            self._truncated |= bool(found.get("truncated"))
            self._row_notes.add(found.get("row_notes", ()))
            if found["status"] != "failed":
                return found
            again = self._again(step, found, attempt, scope)
            if again is None:
                return found
            try:
                left = self._left()
            except _OverError:
                return found
            wait_s = min(again, MAX_WAIT_S)
            if left is not None and left <= wait_s:
                return found  # another attempt would be too late
            await self._sleep(wait_s)
            self._done.pop(key, None)
            attempt += 1

    def _again(self, step: Step, found: Mapping[str, Any], attempt: int, scope: ExpressionScope) -> float | None:
        """Return the seconds to wait before another attempt; None for no other attempt.

        A call with a possible effect is repeated only if it is idempotent, or if nothing of it was sent.
        """
        most, wait = step.attempts, step.wait_s
        for action in step.on_failure:
            if action.does == "retry" and met(action.criteria, _own(scope, found)):
                most, wait = 1 + action.limit, action.after_s
                break
        error = found.get("error") or {}
        repeatable = bool(found.get("repeatable")) and error.get("code") != "outcome_unknown"
        if attempt >= most or not (repeatable or error.get("code") in _UNSENT):
            return None
        return max(wait, float(error.get("retry_after_s") or 0.0))

    async def _once(self, step: Step, key: str, scope: ExpressionScope) -> dict[str, Any]:
        """Call a step once, or return its earlier result: from before, or from a call that ended while the workflow waited."""
        if (known := self._done.get(key)) is not None:
            return known
        if (call_id := self._waits.pop(key, "")) != "":
            answered = await self._inner.outcome(self._call, call_id) or _outcome_expired(step.use.tool, call_id)
        else:
            answered = await self._in_time(step.use, scope)
        envelope = answered.envelope
        code = "" if envelope.error is None else envelope.error.code
        if envelope.status == "pending" and (code in _WAITS or answered.awaits_account):
            self._waiting[key] = envelope.call_id
            return {
                "status": "waiting",
                "tool": step.use.tool,
                "call_id": envelope.call_id,
                "data": None,
                "outputs": {},
            }
        found = self._outcome_of(step, answered, scope)
        self._done[key] = found
        return found

    def _outcome_of(self, step: Step, answered: Answered, scope: ExpressionScope) -> dict[str, Any]:
        envelope = answered.envelope
        found: dict[str, Any] = {
            "tool": envelope.tool,
            "call_id": envelope.call_id,
            "data": envelope.data,
            "http_status": answered.http_status,
            "error": None if envelope.error is None else msgspec.to_builtins(envelope.error),
            "outputs": {},
            "made": envelope.status == "ok",
            "truncated": envelope.meta.truncated,
            "row_notes": list(envelope.meta.row_notes),
        }
        own = _own(scope, found)
        fine = envelope.status == "ok"
        if step.expect and envelope.status in {"ok", "error"}:
            fine = met(step.expect, own)
            if not fine and envelope.status == "ok":
                found["error"] = {"code": "step_failed", "message": "its answer is not what the workflow expects"}
        self._kept += _size(found)
        if self._kept > MAX_KEPT:
            fine, found["data"] = False, None
            found["error"] = {
                "code": "response_too_large",
                "message": f"the results of the steps have more than {MAX_KEPT} bytes together",
            }
        tool = self._seen().get(envelope.tool)
        found |= {"status": "ok" if fine else "failed", "repeatable": _repeatable(tool)}
        if fine:
            found["outputs"] = {name: evaluate(item, own, strict=False) for name, item in step.outputs.items()}
        return found

    async def _in_time(self, use: ToolUse, scope: ExpressionScope) -> Answered:
        """Return the result of a step's call. A call over the time limit is cancelled."""
        left = self._left()
        if left is None:
            return await self._called(use, scope)
        try:
            async with asyncio.timeout(left):
                return await self._called(use, scope)
        except TimeoutError:
            tool = self._seen().get(use.tool)
            raise _OverError(sent=tool is None or tool.effect is not Effect.READ) from None

    def _over(self, step: Step, over: _OverError) -> dict[str, Any]:
        """Return the result of a step for which no time is left."""
        message = f"the time limit of the workflow was reached ({self._binding.timeout_s:g} s)"
        if over.sent:
            message += f"; the call of {step.id} was sent, and its effect is unknown"
        return fault(message, "outcome_unknown" if over.sent else "step_failed") | {"tool": step.use.tool}

    def _seen(self) -> dict[str, Tool]:
        """Return the tools that the caller may see, by name. Reports mention no others."""
        return {one.name: one for one in self._inner.catalog(self._call)}

    async def _called(self, use: ToolUse, scope: ExpressionScope) -> Answered:
        self._made += 1
        if self._made > MAX_CALLS:
            raise _TooManyError
        return await self._inner.call(self._call, use.tool, arguments_of(use, scope))

    def _action(self, step: Step, failed: bool) -> Action | None:
        """Return the action that follows a step in place of the next step; None if there is none."""
        found = self._steps[step.id]
        if found["status"] not in {"ok", "failed"}:
            return None
        scope = _own(self._scope(), found)
        actions = step.on_failure if failed else step.on_success
        return next((one for one in actions if one.does != "retry" and met(one.criteria, scope)), None)

    def _outputs(self) -> dict[str, Any]:
        """Return the outputs that the workflow declares or, if it declares none, the outputs of its steps."""
        if not self._binding.outputs:
            return {name: one["outputs"] or one["data"] for name, one in self._steps.items() if one["status"] == "ok"}
        scope = self._scope()
        return {name: evaluate(item, scope, strict=False) for name, item in self._binding.outputs.items()}

    def _suspended(self) -> Waiting:
        state = {"done": self._done, "waits": self._waiting, "made": self._made, "began": self._began}
        return Waiting(state=state, waits=dict(self._waiting))

    async def _failed(self, step: Step) -> Ended:
        """Undo the completed steps that declare an undo, the last first; no other call is started."""
        for call_id in self._waiting.values():
            await self._inner.withdraw(self._call, call_id)
        seen = self._seen()
        undone: list[dict[str, Any]] = []
        not_undone: list[dict[str, Any]] = []
        for made, key, scope in reversed(self._order):
            if made.undo is None:
                continue
            told: dict[str, Any] = {"step": key, **({"tool": made.undo.tool} if made.undo.tool in seen else {})}
            try:
                found = self._done[key]
                envelope = (await self._called(made.undo, _own(scope, found))).envelope
                told["call_id"] = envelope.call_id
                fault = None if envelope.status == "ok" else envelope.error
            except (MissingError, ExpressionError, _TooManyError) as cause:
                fault = Error(code="step_failed", message=str(cause) or f"more than {MAX_CALLS} calls")
            (undone if fault is None else not_undone).append(told | error_fields(fault))
        ended = self._steps[step.id]
        error = ended.get("error") or {}
        named = {"step": step.id, "tool": step.use.tool} if step.use.tool in seen else {}
        report = {
            "workflow": self._binding.workflow,
            "failed": {**named, **called_as(ended), **brief(error)},
            "done": [
                {"step": key, "tool": self._done[key]["tool"], **called_as(self._done[key])}
                for made, key, _ in self._order
                if made.use.tool in seen
            ],
            "not_done": [
                one.id for one in steps_of(self._binding.stages) if one.use.tool in seen and self._left_out(one, step)
            ],
            "undone": undone,
            "not_undone": not_undone,
        }
        return Ended(error=failure(step if named else None, error), report=report, row_notes=self._row_notes.told)

    def _left_out(self, one: Step, failed: Step) -> bool:
        return one.id != failed.id and self._steps.get(one.id, {"status": ""})["status"] in {"", "waiting", "failed"}


def arguments_of(use: ToolUse, scope: ExpressionScope) -> dict[str, Any]:
    """Return the arguments of a call, without those that have no value. Raises `MissingError`."""
    given = {name: evaluate(item, scope) for name, item in use.arguments.items()}
    if use.spread is not None:
        members = evaluate(use.spread, scope)
        members = {} if members is NOTHING else members
        if not isinstance(members, Mapping):
            raise MissingError("the body is not an object")
        if members:
            given = {**{use.names.get(str(name), str(name)): value for name, value in members.items()}, **given}
    return {name: value for name, value in given.items() if value is not NOTHING}


def _defaults(tool: Tool) -> dict[str, Any]:
    """Return the default values of the inputs."""
    properties = tool.input_schema.get("properties") or {}
    return {name: one["default"] for name, one in properties.items() if isinstance(one, Mapping) and "default" in one}


def _own(scope: ExpressionScope, found: Mapping[str, Any]) -> ExpressionScope:
    return scope.within(data=found.get("data"), http_status=found.get("http_status"))


def _repeatable(tool: Tool | None) -> bool:
    return tool is not None and (tool.idempotent or tool.effect is Effect.READ)


def _size(found: Mapping[str, Any]) -> int:
    return 0 if found.get("data") is None else len(encode_json(carried(found["data"], str, FRAMED_DEPTH)))


def _outcome_expired(tool: str, call_id: str) -> Answered:
    """Return the result of a call whose outcome was no longer stored when the workflow continued."""
    error = Error(code="outcome_unknown", message="the outcome of this call is no longer stored")
    return Answered(
        envelope=Envelope(status="error", tool=tool, call_id=call_id, data=None, error=error, meta=_NO_META)
    )
