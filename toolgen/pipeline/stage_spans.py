"""Spans of the stages of a call: the time that each took, and the code with which it ended the call."""

from __future__ import annotations

from typing import Protocol

from toolgen.model.call import Call
from toolgen.model.result import Failed, Refused, Result
from toolgen.model.trace_context import Trace
from toolgen.pipeline.middleware import CallContext, Guard, Judged, Next, Stage, judge

__all__ = ["StageSpan", "StageSpans", "spanned", "spanned_guard"]


class StageSpan(Protocol):
    """Span of a stage that runs. A protocol, because the gateway implements it, and the pipeline must not import it."""

    def end(self, error: str) -> None:
        """End the span; `error` is the code of the error, "" for success."""


class StageSpans(Protocol):
    """Receiver of the spans of stages. A protocol, because the gateway implements it, and the pipeline must not import it."""

    def of_stage(self, name: str, trace: Trace | None) -> StageSpan:
        """Begin the span of a stage, below the request."""


def spanned(stage: Stage, spans: StageSpans) -> Stage:
    """Return a stage whose span lasts until the stages after it have ended."""
    name = _name_of(stage)

    async def run(call: Call, call_context: CallContext, proceed: Next) -> Result:
        span, error = spans.of_stage(name, call.trace), "cancelled"
        try:
            result = await stage(call, call_context, proceed)
            error = _code_of(result)
        finally:
            span.end(error)
        return result

    return run


def spanned_guard(guard: Guard, spans: StageSpans) -> Guard:
    """Return a guard with a span."""
    name = _name_of(guard)

    async def run(call: Call, call_context: CallContext) -> Judged:
        span, error = spans.of_stage(name, call.trace), "cancelled"
        try:
            judged = await judge(guard, call, call_context)
            error = "" if isinstance(judged, Call) else _code_of(judged)
        finally:
            span.end(error)
        return judged

    return run


def _name_of(stage: object) -> str:
    return type(stage).__name__.removesuffix("Stage").lower()


def _code_of(result: Result) -> str:
    return result.error.code if isinstance(result, Failed | Refused) else ""
