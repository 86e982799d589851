"""Outcomes of aborted calls: the record could not be written, the gateway ran out of time, or it failed."""

from __future__ import annotations

import asyncio
import logging

from toolgen.core.errors import AuditError, place_of
from toolgen.model.call import Call
from toolgen.model.result import Cancelled, Error, Failed, Refused, Result, Success
from toolgen.model.tool import Effect
from toolgen.model.unavailable import fault_error

__all__ = ["DISCONNECTED", "UNAVAILABLE", "cut_off", "failed_inside", "not_awaited", "unrecorded", "unusable"]

DISCONNECTED = Error(
    code="cancelled",
    message="Cancelled: the client disconnected.",
    suggestion="make the call again if you still need its answer",
)
UNAVAILABLE = Refused(
    error=fault_error(AuditError(""), "the call was not made, because its record could not be written")
)

_logger = logging.getLogger(__name__)
_STOPPED = "the gateway stopped before the call had ended"


def cut_off(call: Call) -> Cancelled | Failed:
    """Return the outcome of a call for which the gateway had no more time."""
    if (task := asyncio.current_task()) is not None:
        task.uncancel()
    if call.tool.effect is Effect.READ:
        return Cancelled(error=Error(code="cancelled", message=_STOPPED, suggestion="make the call again"))
    message = f"{_STOPPED}; it may or may not have taken effect"
    return Failed(
        error=Error(code="outcome_unknown", message=message, suggestion="find out what happened before trying again")
    )


def not_awaited(call: Call, *, cancel_requested: bool, begun: bool) -> Cancelled | Failed:
    """Return the outcome of a call whose client disconnected or cancelled it: cancelled if it can have changed nothing.

    `cancel_requested`: the client cancelled the call and did not only disconnect. `begun`: an executor had it.
    """
    if not cancel_requested:
        return Cancelled(error=DISCONNECTED)
    if call.tool.effect is Effect.READ or not begun:
        return Cancelled(error=Error(code="cancelled", message="the caller cancelled this call"))
    return Failed(
        error=Error(
            code="outcome_unknown",
            message="the caller cancelled this call after it had been sent; it may or may not have taken effect",
            suggestion="find out what happened before trying again",
        )
    )


def unrecorded(result: Result) -> Result:
    """Return the answer for a call whose outcome could not be recorded: a call that was made must not be repeated."""
    match result:
        case Success() | Failed() if not (isinstance(result, Failed) and result.delivery.unsent):
            message = "the call was made, but its outcome could not be recorded, so it is withheld"
            suggestion = "do not repeat this call; ask the operator of the gateway for its outcome"
            return Failed(error=Error(code="outcome_unknown", message=message, suggestion=suggestion))
        case _:
            return UNAVAILABLE


def failed_inside(call: Call, error: Exception) -> Failed:
    """Return the outcome of a call that failed inside the gateway."""
    message = "call %s failed inside the gateway: %s"
    _logger.error(message, call.id, place_of(error))  # its text may quote any data
    return Failed(error=Error(code="internal", message=f"the gateway failed ({type(error).__name__})"))


def unusable(fault: str) -> Refused:
    """Return the outcome of a call whose arguments cannot be recorded."""
    return Refused(error=Error(code="validation", message=f"the arguments cannot be used: {fault}", rule="arguments"))
