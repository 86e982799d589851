"""The stage that ends a loop: a conversation has so many turns, and a call that would begin one more is refused."""

from __future__ import annotations

from dataclasses import dataclass

from toolgen.model.call import Call
from toolgen.model.result import Error, Refused, Result
from toolgen.pipeline.middleware import Trail
from toolgen.state.turn_counter import MAX_CALLS, Excess

__all__ = ["TurnStage"]

_RULE = "turn_limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStage:
    """Refuses what has no seat in its conversation. The seat was taken when the call was made, so that calls made at once are one turn."""

    limit: float

    async def __call__(self, call: Call, trail: Trail) -> Call | Result:
        seat = trail.seat
        if seat is None:  # it belongs to no conversation, or was counted when it was asked for
            return call
        excess = await seat.excess()
        return call if excess is None else Refused(error=self._error(excess))

    def _error(self, excess: Excess) -> Error:
        code = "turn_limit"
        match excess.reason:
            case "spent":
                message = f"this conversation has used up its {self.limit:g} turns of tool calls"
                suggestion = (
                    "call no more tools in it: answer with what is known by now and say what is missing. Another conversation has turns "
                    f"of its own, this one again in {excess.retry_after_s:.0f} s"
                )
            case "crowded":
                message = f"this turn of the conversation has {MAX_CALLS} calls already"
                suggestion = "wait until they have ended, and make fewer calls at once"
            case "unreachable":
                code = "upstream_unavailable"
                message = "the turns of this conversation cannot be counted now, so nothing was sent"
                suggestion = "try again in a moment; if this goes on, tell whoever runs the gateway"
        return Error(
            code=code, message=message, suggestion=suggestion, retry_after_s=round(excess.retry_after_s, 3), rule=_RULE
        )
