"""The stage that holds back what a person has paused, before the policy is asked."""

from __future__ import annotations

from dataclasses import dataclass

from toolgen.model.call import Call, parties
from toolgen.model.result import Error, Refused, Result
from toolgen.pipeline.middleware import Trail
from toolgen.state.pauses import Pause, Pauses, SharedPauses

__all__ = ["PauseStage"]


_UNREAD = Error(
    code="paused",
    message="whether calls like this are paused cannot be read now, so nothing was sent",
    suggestion="try again in a moment; if this goes on, tell whoever runs the gateway",
    retry_after_s=1.0,
    rule="pause",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseStage:
    """Refuses what is paused, a document also for the tools of its root fields. A tool that does not exist and one the principal may not
    see have a name alone, and so look the same.

    What cannot be read pauses everything, unless the policy is `tolerant` of that and it was read before.
    """

    pauses: Pauses | SharedPauses
    tolerant: bool = False

    async def __call__(self, call: Call, _trail: Trail) -> Call | Result:
        pauses = self.pauses
        if pauses.stale or pauses.all():
            error = await self.withheld(call)
            if error is not None:
                return Refused(error=error)
        return call

    async def withheld(self, call: Call) -> Error | None:
        """Why a call is held back now; None where it is not."""
        pauses = self.pauses
        if pauses.stale and not await pauses.refresh() and not (self.tolerant and pauses.known):
            return _UNREAD
        pause = self._covering(call)
        if pause is None:
            return None
        return Error(
            code="paused",
            message=f"calls like this are paused: {pause.reason}" if pause.reason else "calls like this are paused",
            suggestion="try again later; whoever runs the gateway resumes them",
            rule="pause",
        )

    def _covering(self, call: Call) -> Pause | None:
        if not self.pauses.all():
            return None
        who = parties(call.principal)
        tools = (call.tool, *(() if call.document is None else call.document.tools))
        found = (self.pauses.covering(who, tool.source, tool.name) for tool in tools)
        return next((pause for pause in found if pause is not None), None)
