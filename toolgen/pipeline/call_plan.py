"""Call plan: the remaining stages for calls of principals with the same roles to one tool under one policy.

When a plan is made, the method `prepared` of each stage returns its work for such calls: nothing, a plain function, or `GENERAL` if it
needs each call as in the general pipeline. The plan runs the functions in the order of the stages, without a coroutine for each of them.
If a function returns `GENERAL`, its own stage and all that follow run as in the general pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from toolgen.model.call import Call
from toolgen.model.result import Result
from toolgen.pipeline.middleware import CallContext, Next

__all__ = ["GENERAL", "CallPlan", "General", "Prepared", "PreparedStage", "Step", "unasked"]


class General(Enum):
    """Answer of a stage that leaves a call, or every call of a plan, to the general pipeline."""

    GENERAL = auto()


GENERAL: Final = General.GENERAL

Step: TypeAlias = Callable[[Call, CallContext], Result | Literal[General.GENERAL] | None]
"""Prepared part of a stage. It returns None to pass the call, a result to end it here, or `GENERAL` if the general stage has to
handle the call: then the step has changed nothing."""


class PreparedStage(Struct, frozen=True):
    """Part of a stage in a plan: a step on the way in, and optionally one on the way out.

    `leave` is called once for a call that the step passed, with its result, or None if the call was broken off by an exception.
    """

    step: Step
    leave: Callable[[Call, Result | None], None] | None = None


Prepared: TypeAlias = PreparedStage | Literal[General.GENERAL] | None
"""Answer of a stage about the calls of a plan: a prepared stage, `GENERAL` for the unchanged stage, or None if there is nothing to do."""


def unasked(_call: Call, call_context: CallContext) -> Literal[General.GENERAL] | None:
    """Step that passes a call if no rule asks about it."""
    return GENERAL if call_context.verdict == "ask" else None


class CallPlan:
    """Prepared stages and the end of the pipeline, as one function.

    `places` are the places of the stages in the order, and `rest` returns the general pipeline from a place on.
    """

    __slots__ = ("_last", "_leaves", "_places", "_rest", "_steps")

    def __init__(
        self, stages: Sequence[PreparedStage], places: Sequence[int], last: Next, rest: Callable[[int], Next]
    ) -> None:
        self._steps = tuple(stage.step for stage in stages)
        self._leaves = tuple((number, stage.leave) for number, stage in enumerate(stages) if stage.leave is not None)
        self._places = bytes(places)
        self._last, self._rest = last, rest

    async def __call__(self, call: Call, call_context: CallContext) -> Result:
        """Run a call after its intent was recorded. Raises the errors of the executor, like the general pipeline."""
        result: Result | None = None
        passed = 0
        try:
            for step in self._steps:
                judged = step(call, call_context)
                if judged is not None:
                    if judged is not GENERAL:
                        result = judged
                    else:
                        result = await self._rest(self._places[passed])(call, call_context)
                    return result
                passed += 1
            result = await self._last(call, call_context)
            return result
        finally:
            for number, leave in self._leaves:
                if number < passed:
                    leave(call, result)
