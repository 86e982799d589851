"""Execution of workflows: each step is a separate call through the complete pipeline."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from toolgen.connectors.executor import InnerCalls
from toolgen.connectors.workflow.run import Run, Sleep, Waiting, arguments_of
from toolgen.connectors.workflow.values import ExpressionScope, MissingError
from toolgen.core.clock import Clock, SystemClock
from toolgen.core.errors import StateError
from toolgen.core.json_codec import FRAMED_DEPTH, TooDeepError, carried, encode_json
from toolgen.model.argument_names import own_arguments
from toolgen.model.call import Call
from toolgen.model.expressions import ExpressionError
from toolgen.model.result import Delivery, Error, Failed, Refused, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import WorkflowBinding
from toolgen.model.workflow import Step, steps_of

__all__ = ["WorkflowExecutor"]

_MAX_SIZE = 1_048_576


class WorkflowExecutor:
    """Executor of workflows. `inner` makes the calls; without it, only previews are possible. `sleep` waits between attempts, and
    `clock` measures time limits.
    """

    def __init__(self, inner: InnerCalls | None, sleep: Sleep = asyncio.sleep, clock: Clock | None = None) -> None:
        self._inner = inner
        self._sleep = sleep
        self._clock = clock or SystemClock()

    async def execute(self, call: Call) -> Success | Failed | Refused:
        """Run the steps. If one waits for a person, the results so far are stored, and the run continues with the answer."""
        assert self._inner is not None  # noqa: S101 - a preview executes nothing
        ended = await Run(call, self._inner, self._sleep, self._clock).to_end()
        if isinstance(ended, Waiting):
            return await self._suspended(self._inner, call, ended)
        if ended.error is not None:
            report = carried(ended.report, str, FRAMED_DEPTH)
            return Failed(error=ended.error, data=report, row_notes=ended.row_notes)
        try:
            data: Json = carried(ended.outputs, str)
        except TooDeepError as error:
            message = f"the output of the workflow is {error}; all of its steps were executed"
            return Failed(error=Error(code="step_failed", message=message, suggestion="reduce its outputs"))
        size = len(encode_json(data))
        if size > _MAX_SIZE:
            message = f"the output of the workflow has {size} bytes, and {_MAX_SIZE} are the limit; all of its steps were executed"
            return Failed(error=Error(code="response_too_large", message=message, suggestion="reduce its outputs"))
        return Success(data=data, truncated=ended.truncated, delivery=Delivery(bytes=size), row_notes=ended.row_notes)

    async def _suspended(self, inner: InnerCalls, call: Call, waiting: Waiting) -> Failed:
        state = carried(waiting.state, str, FRAMED_DEPTH)
        size = len(encode_json(state))
        try:
            if size <= _MAX_SIZE:
                return Failed(error=await inner.suspend(call, state, tuple(waiting.waits.values())))
            fault = f"the results of its steps have {size} bytes, and {_MAX_SIZE} are the limit"
        except StateError as error:
            fault = error.message
        for call_id in waiting.waits.values():
            await inner.withdraw(call, call_id)
        done = [
            {"step": key, "tool": one["tool"], "call_id": one["call_id"]} for key, one in waiting.state["done"].items()
        ]
        message = f"a step waits for a person, and the workflow cannot wait for it: {fault}"
        return Failed(error=Error(code="step_failed", message=message), data={"done": done})

    def preview(self, call: Call) -> JsonObject:
        """Return the tools that would be called with their arguments, as far as both are known before the first call."""
        binding = call.tool.binding
        assert isinstance(binding, WorkflowBinding)  # noqa: S101 - the tool of such a source
        scope = ExpressionScope(inputs=own_arguments(call.tool, call.arguments), steps={})
        steps: Iterable[Step] = steps_of(binding.stages)
        if self._inner is not None:
            seen = {tool.name for tool in self._inner.catalog(call)}
            steps = (step for step in steps if step.use.tool in seen)
        return {"workflow": binding.workflow, "steps": [_shown(step, scope) for step in steps]}

    async def close(self) -> None:
        """Do nothing, because no resource is open."""


def _shown(step: Step, scope: ExpressionScope) -> JsonObject:
    try:
        arguments: Json = arguments_of(step.use, scope)
    except (MissingError, ExpressionError):
        arguments = step.use.arguments
    return {"step": step.id, "tool": step.use.tool, "arguments": arguments}
