"""The project's own checks around a call. Each is run before and after delivery, within its own time limit.

Checks get frozen views and return the changes that they want. A call that they narrow is judged again by every earlier guard, and passes
the later ones like any call. They have no access to the rest of the pipeline, so no stage can be skipped, repeated or reordered.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolgen.core.errors import StateError, place_of
from toolgen.core.json_codec import carried, decode_json, encode_json
from toolgen.model.call import Call
from toolgen.model.excerpt import bounded
from toolgen.model.middleware import (
    After,
    Before,
    CallView,
    Change,
    Narrow,
    Refuse,
    ResultView,
    StepView,
    ToolView,
    widening,
)
from toolgen.model.result import Error, Failed, Refused, Result, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Tool
from toolgen.pipeline.call_plan import GENERAL, Prepared
from toolgen.pipeline.call_views import call_view, result_view, step_of, tool_view
from toolgen.pipeline.event_loop_watch import given_to, in_time
from toolgen.pipeline.middleware import CallContext, Guard, Next, judge
from toolgen.policy.rules import DecisionNote

__all__ = ["Hook", "Labelling", "MiddlewareStage", "withheld"]

_logger = logging.getLogger("toolgen.middleware")
Labelling = Callable[[Call, Sequence[str]], Awaitable[None]]
"""Sets labels of a call's session. Raises `StateError`."""
Apart = Callable[[str, str, Callable[[], Any]], Awaitable[Any]]
"""Function that runs plain code in a thread, where it may hang: its arguments are the owner, a name, and the code."""
_MAX_VIEWS = 4_096
_MIN_SHOWS_S = 1.0  # seconds for a catalog of hundreds of tools, on a busy machine


class _UnusableError(Exception):
    """A middleware returned something that cannot be used; the text is the word for the audit log."""


class Hook(Struct, frozen=True, kw_only=True):
    """Middleware of a project. `name` is its name in toolgen.yaml, `digest` covers its code and options, `labels` are those it may set.

    `before`, `after` and `shows` are None if it does not define them.
    """

    name: str
    digest: str
    timeout_s: float
    before: Callable[[CallView], Before | Awaitable[Before]] | None = None
    after: Callable[[CallView, ResultView], After | Awaitable[After]] | None = None
    shows: Callable[[StepView, ToolView], bool] | None = None
    labels: frozenset[str] = frozenset()

    @property
    def rule(self) -> str:
        """Rule name in records and errors."""
        return f"middleware:{self.name}"

    def deadline(self) -> float:
        """Return the time (monotonic) until which `shows` must have answered for all tools of a catalog, counted from this call."""
        return monotonic() + max(self.timeout_s, _MIN_SHOWS_S)

    def displays(self, step: StepView, tool: ToolView, deadline: float) -> bool:
        """Return True if a tool is in the catalog of a step. A hook that fails or times out shows no tool."""
        if self.shows is None:
            return True
        if monotonic() > deadline:
            return False
        try:
            with given_to(f"{self.name}.shows", deadline):
                shown = self.shows(step, tool) is True
        except BaseException as error:  # noqa: BLE001 - the project's own code
            _logger.error("%s.shows raised %s", self.name, place_of(error))  # noqa: TRY400 - its text may quote anything
            return False
        if monotonic() > deadline:
            _logger.error("%s.shows exceeded its time limit, so it shows no more tools of this catalog", self.name)
            return False
        return shown


_Asked = tuple[Hook, Callable[..., Any], bool]
"""Hook, one of its functions, and whether that is asynchronous."""


def _asked(hook: Hook, function: Callable[..., Any]) -> _Asked:
    return hook, function, inspect.iscoroutinefunction(function)


class MiddlewareStage(Struct, kw_only=True):
    """Stage of the project's own checks, the first one outermost. `again` are the guards that judge changed arguments, `shown` the
    arguments without secrets, `recorded` the arguments of the audit log, `label` sets labels of a session."""

    hooks: tuple[Hook, ...]
    again: tuple[Guard, ...] = ()
    shown: Callable[[Call], JsonObject]
    recorded: Callable[[Call], JsonObject]
    label: Labelling
    apart: Apart
    _tools: dict[str, ToolView] = {}
    _first: tuple[_Asked, ...] = ()
    _last: tuple[_Asked, ...] = ()
    _gates: tuple[Hook, ...] = ()

    def __post_init__(self) -> None:
        self._first = tuple(_asked(hook, hook.before) for hook in self.hooks if hook.before is not None)
        self._last = tuple(_asked(hook, hook.after) for hook in reversed(self.hooks) if hook.after is not None)
        self._gates = tuple(hook for hook in self.hooks if hook.shows is not None)

    def prepared(self, _tool: Tool) -> Prepared:
        """Return the general path: the project's own checks may do anything."""
        return GENERAL

    async def __call__(self, call: Call, call_context: CallContext, proceed: Next) -> Result:
        entered = await self._entered(call, call_context)
        if not isinstance(entered, tuple):
            return entered
        call, view = entered
        call_context.redacts = call_context.redacts or bool(
            self._last
        )  # a check that may withhold the answer sees the whole answer
        return await self._left(call, view, await proceed(call, call_context), call_context)

    async def answered(self, call: Call, result: Result, call_context: CallContext) -> Result:
        """Return a result that came after the pipeline of its call had ended, as the caller may see it."""
        return await self._left(call, self._view(call, call_context), result, call_context)

    async def _left(self, call: Call, view: CallView, result: Result, call_context: CallContext) -> Result:
        if isinstance(result, Success | Failed):
            seen = result_view(result) if self._last else None
            for asked in self._last:
                before, result = (
                    result,
                    await self._after(asked, call, (view, seen or result_view(result)), result, call_context),
                )
                seen = seen if result is before else None
        return result

    async def dry_run(self, call: Call, call_context: CallContext) -> Call | Result:
        """Run the checks before the call only, for a dry run."""
        entered = await self._entered(call, call_context)
        return entered[0] if isinstance(entered, tuple) else entered

    async def _entered(self, call: Call, call_context: CallContext) -> tuple[Call, CallView] | Result:
        view = self._view(call, call_context)
        roots = self._roots(call, call_context)
        for gate in self._gates:
            until = gate.deadline()
            if not all(gate.displays(step_of(one), one.tool, until) for one in (view, *roots)):
                return _outside(gate)
        for asked in self._first:
            hook = asked[0]
            answer = await self._before(asked, call, view, call_context)
            if isinstance(answer, Refused):
                return answer
            if answer:
                changed = await self._narrowed(hook, call, answer, call_context)
                if not isinstance(changed, Call):
                    return changed
                call, view, roots = changed, self._view(changed, call_context), self._roots(changed, call_context)
            for root in roots:
                if (refused := await self._root_refused(asked, call, root, call_context)) is not None:
                    return refused
        return call, view

    def _roots(self, call: Call, call_context: CallContext) -> tuple[CallView, ...]:
        """Return the calls of a document: each of its root fields counts as a call of its tool."""
        made = () if call.document is None else call.document.roots
        return tuple(
            self._view(replace(call, tool=tool, arguments=given, document=None), call_context) for tool, given in made
        )

    async def _root_refused(
        self, asked: _Asked, call: Call, root: CallView, call_context: CallContext
    ) -> Refused | None:
        """Return the refusal of a document for one of its root fields. The arguments of a root field cannot be narrowed."""
        answer = await self._before(asked, call, root, call_context)
        if answer is None or isinstance(answer, Refused):
            return answer
        if all(name in root.arguments and root.arguments[name] == value for name, value in answer.items()):
            return None
        hook = asked[0]
        call_context.notes += (_note(hook, "refused"),)
        message = "a check of this gateway does not allow all fields of this document"
        return Refused(
            error=Error(code="forbidden", message=message, suggestion=f"call {root.tool.name} instead", rule=hook.rule)
        )

    async def _before(
        self, asked: _Asked, call: Call, view: CallView, call_context: CallContext
    ) -> Refused | JsonObject | None:
        hook = asked[0]
        try:
            said = await self._answer(asked, view)
        except Exception as error:  # noqa: BLE001 - the project's own code
            return Refused(error=_failed(hook, call, error, call_context))
        match said:
            case None:
                return None
            case Refuse():
                call_context.notes += (_note(hook, "refused"),)
                return Refused(error=_refusal(hook, said))
            case Narrow(arguments=changes) if isinstance(changes, Mapping):
                return changes
            case _:
                return Refused(error=_failed(hook, call, _UnusableError("answered"), call_context))

    async def _narrowed(self, hook: Hook, call: Call, changes: JsonObject, call_context: CallContext) -> Call | Result:
        """Return the call with changed arguments, judged again in place of the former call."""
        try:
            changes = decode_json(
                encode_json(carried(dict(changes)))
            )  # a copy, so that the judged arguments are those that are sent
        except Exception as error:  # noqa: BLE001 - the project's own classes
            return Refused(error=_failed(hook, call, error, call_context))
        properties = call.tool.input_schema.get("properties", {})
        unknown = next((name for name in changes if name not in properties), "")
        if widened := unknown or widening(call.arguments, changes, call.bound):
            _logger.error(
                "%s would have widened the argument %r of %s", hook.name, bounded(widened, 80), call.tool.name
            )
            return Refused(error=_failed(hook, call, _UnusableError("widened"), call_context))
        arguments: JsonObject = {**call.arguments, **changes}
        asked: Call = replace(call, arguments=arguments, statement=None, document=None)
        notes = (*call_context.notes, _note(hook, "narrowed", arguments=self.recorded(asked)))
        for guard in self.again:
            call_context.notes = ()
            answer = await judge(guard, asked, call_context)
            notes += call_context.notes
            if not isinstance(answer, Call):
                call_context.notes = notes
                return answer
            asked = answer
        call_context.notes = notes
        return asked

    async def _after(
        self,
        asked: _Asked,
        call: Call,
        views: tuple[CallView, ResultView],
        result: Success | Failed,
        call_context: CallContext,
    ) -> Success | Failed:
        hook = asked[0]
        try:
            said = await self._answer(asked, *views)
            match said:
                case None:
                    return result
                case Refuse():
                    call_context.notes += (_note(hook, "withheld"),)
                    return withheld(result, _refusal(hook, said).message, said.suggestion, hook.rule)
                case Change():
                    return await self._changed(hook, call, result, said, call_context)
                case _:
                    raise _UnusableError("answered")  # noqa: TRY301 - one place reports the outcome
        except Exception as error:  # noqa: BLE001 - the project's own code
            fault = _failed(hook, call, error, call_context)
            return withheld(result, "a check of this gateway failed on the answer, which is withheld", "", fault.rule)

    async def _changed(
        self, hook: Hook, call: Call, result: Success | Failed, said: Change, call_context: CallContext
    ) -> Success | Failed:
        if not hook.labels.issuperset(said.labels):
            raise _UnusableError("labelled")
        if said.labels:
            call_context.notes += (_note(hook, "labelled", labels=tuple(said.labels)),)
            await self.label(call, said.labels)
        if not said.keeps_data:
            data: Json = decode_json(encode_json(carried(said.data)))
            call_context.notes += (_note(hook, "changed"),)
            result = replace(result, data=data)
        if said.suggestion and isinstance(result, Failed):
            result = replace(result, error=replace(result.error, suggestion=str(said.suggestion)))
        return result

    async def _answer(self, asked: _Asked, *views: CallView | ResultView) -> object:
        """Return the answer of a hook within its time limit. Raises whatever it raises, and `TimeoutError`."""
        hook, function, waits = asked
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in one
        cancelled = task.cancelling()
        try:
            if not waits:
                async with asyncio.timeout(hook.timeout_s):
                    return await self.apart("middleware", hook.name, partial(function, *views))
            deadline = monotonic() + hook.timeout_s
            answer = await in_time(function(*views), deadline, hook.name)
        except BaseException as error:  # any error, except for the end of the call itself
            ends = isinstance(error, asyncio.CancelledError) and task.cancelling() > cancelled
            if ends or isinstance(error, Exception):
                raise
            raise _UnusableError("raised") from error
        if monotonic() > deadline:
            raise TimeoutError
        return answer

    def _view(self, call: Call, call_context: CallContext) -> CallView:
        tool = self._tools.get(call.tool.digest)
        if tool is None:
            if len(self._tools) >= _MAX_VIEWS:
                self._tools.clear()
            tool = self._tools[call.tool.digest] = tool_view(call.tool)
        return call_view(call, tool, self.shown(call), call_context.labels)


def withheld(result: Success | Failed, message: str, suggestion: str, rule: str) -> Failed:
    """Return the error in place of a withheld answer. It says that the call was made and must not be repeated to see the answer."""
    return Failed(
        error=Error(
            code="result_withheld",
            message=message,
            suggestion=suggestion or "the call was made; do not repeat it to see its answer",
            rule=rule,
        ),
        delivery=result.delivery,
    )


def _outside(gate: Hook) -> Refused:
    return Refused(
        error=Error(
            code="outside_catalog",
            message="this tool is not in the catalog of this step",
            suggestion="list the tools again, and use only those",
            rule=gate.rule,
        )
    )


def _refusal(hook: Hook, said: Refuse) -> Error:
    return Error(code="forbidden", message=str(said.message), suggestion=str(said.suggestion), rule=hook.rule)


def _failed(hook: Hook, call: Call, error: Exception, call_context: CallContext) -> Error:
    """Return the refusal of a call at which a hook failed; the audit log has the hook's name and digest."""
    match error:
        case TimeoutError():
            status = "timeout"
        case _UnusableError():
            status = str(error)
        case StateError():
            status = "unlabelled"
        case _:
            status = "raised"
    _logger.error("%s failed at call %s (%s): %s", hook.name, call.id, status, place_of(error))
    call_context.notes += (_note(hook, status),)
    return Error(
        code="middleware_failed",
        message="a check of this gateway failed, so nothing was sent",
        suggestion="the call is not the cause; tell the operator of the gateway",
        rule=hook.rule,
    )


def _note(hook: Hook, status: str, arguments: JsonObject | None = None, labels: tuple[str, ...] = ()) -> DecisionNote:
    verdict = "" if status in {"narrowed", "changed", "labelled"} else "deny"
    return DecisionNote(
        rule=hook.rule, verdict=verdict, status=status, digest=hook.digest, arguments=arguments, labels=labels
    )
