"""The stage that holds back what a person has paused, before the policy is asked."""

from __future__ import annotations

from dataclasses import dataclass

from toolgen.model.call import Call, parties
from toolgen.model.result import Error, Refused, Result
from toolgen.pipeline.chain import Next, Trail
from toolgen.state.pauses import Pause, Pauses

__all__ = ["PauseStage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseStage:
    """Refuses what is paused, a document also for the tools of its root fields. A tool that does not exist and one the principal may not
    see have a name alone, and so look the same.
    """

    pauses: Pauses

    async def __call__(self, call: Call, trail: Trail, proceed: Next) -> Result:
        pause = self._covering(call)
        if pause is None:
            return await proceed(call, trail)
        return Refused(
            error=Error(
                code="paused",
                message=f"calls like this are paused: {pause.reason}" if pause.reason else "calls like this are paused",
                suggestion="try again later; whoever runs the gateway resumes them",
                rule="pause",
            )
        )

    def _covering(self, call: Call) -> Pause | None:
        if not self.pauses.all():
            return None
        who = parties(call.principal)
        tools = (call.tool, *(() if call.document is None else call.document.tools))
        found = (self.pauses.covering(who, tool.source, tool.name) for tool in tools)
        return next((pause for pause in found if pause is not None), None)
