"""How calls end whose record could not be written, or that the gateway had no more time for."""

from __future__ import annotations

import asyncio

from toolgen.model.call import Call
from toolgen.model.result import Cancelled, Error, Failed, Refused, Result, Success
from toolgen.model.tool import Effect

__all__ = ["UNAVAILABLE", "cut_off", "unrecorded"]

UNAVAILABLE = Refused(
    error=Error(
        code="audit_unavailable",
        message="the call was not made, because its record could not be written",
        suggestion="try again once the gateway's audit log works",
    )
)

_STOPPED = "the gateway stopped before the call had ended"


def cut_off(call: Call) -> Cancelled | Failed:
    """How a call ends that the gateway had no more time for."""
    if (task := asyncio.current_task()) is not None:
        task.uncancel()
    if call.tool.effect is Effect.READ:
        return Cancelled(error=Error(code="cancelled", message=_STOPPED, suggestion="make the call again"))
    message = f"{_STOPPED}; it may or may not have taken effect"
    return Failed(
        error=Error(code="outcome_unknown", message=message, suggestion="find out what happened before trying again")
    )


def unrecorded(result: Result) -> Result:
    """What the caller is told of a call whose ending is on no record: what was done must not be done again."""
    match result:
        case Success() | Failed() if not (isinstance(result, Failed) and result.delivery.unsent):
            message = "the call was made, but its outcome could not be recorded, so it is withheld"
            suggestion = "do not repeat this call; ask the operator of the gateway what became of it"
            return Failed(error=Error(code="outcome_unknown", message=message, suggestion=suggestion))
        case _:
            return UNAVAILABLE
