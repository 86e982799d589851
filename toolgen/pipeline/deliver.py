"""The end of the road: the one place an executor is called from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolgen.errors import SecretError
from toolgen.execute.base import Executor
from toolgen.model.call import Call
from toolgen.model.result import Error, Failed, Result, Success
from toolgen.pipeline.chain import Trail

__all__ = ["Deliver", "Preview"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """Carries the call out with the executor of its source."""

    executors: Mapping[str, Executor]

    async def __call__(self, call: Call, trail: Trail) -> Result:
        try:
            return await self.executors[call.tool.source].execute(call)
        except SecretError as error:
            return Failed(error=_secret_missing(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Says what would be sent, and sends nothing."""

    executors: Mapping[str, Executor]

    async def __call__(self, call: Call, trail: Trail) -> Result:
        try:
            return Success(data=self.executors[call.tool.source].preview(call))
        except SecretError as error:
            return Failed(error=_secret_missing(error))


def _secret_missing(error: SecretError) -> Error:
    return Error(code="secret_unavailable", message=error.message, suggestion=error.suggestion)
