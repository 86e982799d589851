"""The stage that holds back what a person has paused, before the policy is asked."""

from __future__ import annotations

from dataclasses import dataclass

from toolgen.model.call import Call, parties
from toolgen.model.result import Error, Refused, Result
from toolgen.pipeline.chain import Next, Trail
from toolgen.state.pauses import Pauses

__all__ = ["PauseStage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseStage:
    """Refuses what is paused. A tool that does not exist and one the principal may not see have a name alone, and so look the same."""

    pauses: Pauses

    async def __call__(self, call: Call, trail: Trail, proceed: Next) -> Result:
        pause = self.pauses.covering(parties(call.principal), call.tool.source, call.tool.name)
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
