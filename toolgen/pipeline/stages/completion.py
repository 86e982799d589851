"""Completion of a call whose answer came after the end of its pipeline, as from a device: redacted, inspected, counted and recorded."""

from __future__ import annotations

import logging

from msgspec import Struct

from toolgen.core.errors import StateError
from toolgen.model.call import Call
from toolgen.model.result import Result, Success
from toolgen.pipeline.middleware import CallContext
from toolgen.pipeline.stages.access import CallHistory, RedactStage
from toolgen.pipeline.stages.middleware import MiddlewareStage
from toolgen.pipeline.stages.record import Record
from toolgen.pipeline.stages.results import ResultsStage

__all__ = ["Completion"]

_logger = logging.getLogger(__name__)


class Completion(Struct, frozen=True, kw_only=True):
    """Stages for the answer of a device. Nothing is sent here: every other stage ran before the device was asked.

    It is for calls on which the policy's verdict has not changed.
    """

    record: Record
    redact: RedactStage
    earlier: CallHistory | None
    middleware: MiddlewareStage | None = None
    results: ResultsStage | None = None

    async def __call__(self, call: Call, result: Result, call_context: CallContext, duration_ms: float) -> Result:
        """Return the result as its caller may see it. Its entry is durable before; an answer without an entry is withheld."""
        result = self.redact.applied(call, result)
        if self.results is not None:
            result = await self.results.answered(call, result, call_context)
        if self.middleware is not None:
            result = await self.middleware.answered(call, result, call_context)
        if isinstance(result, Success) and self.earlier is not None:
            try:
                await self.earlier.complete(call)
            except StateError as error:  # rules that require an earlier success do not see this one
                _logger.error("call %s is not counted as one that succeeded: %s", call.id, error)  # noqa: TRY400
        return await self.record.complete(call, call_context, result, duration_ms)
