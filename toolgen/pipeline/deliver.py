"""The end of the road: the one place an executor is called from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from toolgen.errors import SecretError, ToolgenError
from toolgen.execute.base import Executor
from toolgen.model.call import Call
from toolgen.model.result import Error, Failed, Result, Success
from toolgen.pipeline.chain import Trail

__all__ = ["Deliver", "Preview", "failure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """Carries the call out with the executor of its source."""

    executors: Mapping[str, Executor]

    async def __call__(self, call: Call, trail: Trail) -> Result:
        try:
            result = await self.executors[call.tool.source].execute(call)
        except ToolgenError as error:
            result = Failed(error=failure(error))
        return _located(result, call)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Says what would be sent, and sends nothing."""

    executors: Mapping[str, Executor]

    async def __call__(self, call: Call, trail: Trail) -> Result:
        try:
            return Success(data=self.executors[call.tool.source].preview(call))
        except ToolgenError as error:
            return _located(Failed(error=failure(error)), call)


def _located(result: Success | Failed, call: Call) -> Success | Failed:
    """A missing credential is a fault of the project's: say where in it."""
    if isinstance(result, Failed) and result.error.code == SecretError.code:
        message = f"{result.error.message} (sources.{call.tool.source}.auth in toolgen.yaml)"
        return replace(result, error=msgspec.structs.replace(result.error, message=message))
    return result


def failure(error: ToolgenError) -> Error:
    """What an executor could not do for a reason a person can put right: no secret, a request that cannot be bound."""
    return Error(code=error.code, message=error.message, suggestion=error.suggestion)
