"""Length limit of the message of an error, by tool: of a tool that says so, whatever carries it out."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from toolgen.connectors.executor import Executor
from toolgen.model.call import Call
from toolgen.model.excerpt import bounded
from toolgen.model.result import Failed, Refused, Success
from toolgen.model.schema import JsonObject

__all__ = ["ErrorLimits"]


class ErrorLimits:
    """An executor whose errors are cut. `limits` are characters by the name of the tool."""

    def __init__(self, inner: Executor, limits: Mapping[str, int]) -> None:
        self._inner = inner
        self._limits = limits

    async def execute(self, call: Call) -> Success | Failed | Refused:
        """Execute the call with the inner executor, and bound the message of its error."""
        result = await self._inner.execute(call)
        limit = self._limits.get(call.tool.name)
        if limit is None or isinstance(result, Success):
            return result
        return replace(result, error=replace(result.error, message=bounded(result.error.message, limit)))

    def preview(self, call: Call) -> JsonObject:
        """Return the preview of the inner executor."""
        return self._inner.preview(call)

    async def close(self) -> None:
        """Closes the inner one."""
        await self._inner.close()
