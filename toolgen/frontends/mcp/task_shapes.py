"""A call that is kept, as the task that each era of MCP shows of it: `tasks` of 2025-11-25, the extension of 2026-07-28."""

from __future__ import annotations

from datetime import UTC, datetime

from toolgen.frontends.mcp.messages import INTERNAL_ERROR, ProtocolStyle
from toolgen.gateway.operations.waiting_calls import WaitingCalls, kept_until
from toolgen.model.excerpt import bounded
from toolgen.model.result import Error
from toolgen.state.call_states import CallState
from toolgen.state.invocations import Invocation

__all__ = ["error_of", "status_of", "task_of"]

POLL_MS = 1000


def status_of(known: Invocation, protocol_style: ProtocolStyle) -> str:
    """Return the status of a task, one of five.

    2026-07-28 uses `failed` only for faults of the call itself: a refused or unsuccessful call is `completed`, with a result that says so.
    In 2025-11-25 a cancelled task stays `cancelled`, however the call ended.
    """
    if known.cancel and (protocol_style is ProtocolStyle.STATEFUL or known.state is CallState.OUTCOME_UNKNOWN):
        return "cancelled"
    match known.state:
        case CallState.WORKING | CallState.INPUT_REQUIRED | CallState.COMPLETED | CallState.CANCELLED:
            return known.state.value
        case CallState.FAILED | CallState.EXPIRED if (
            protocol_style is ProtocolStyle.STATELESS and _code(known) != "internal"
        ):
            return "completed"
        case _:
            return "failed"


def task_of(known: Invocation, now: float, protocol_style: ProtocolStyle, calls: WaitingCalls) -> dict[str, object]:
    """The task, without how it ended. Times are ISO 8601 in UTC, lengths of time in whole milliseconds."""
    lasts, polled = (
        ("ttlMs", "pollIntervalMs") if protocol_style is ProtocolStyle.STATELESS else ("ttl", "pollInterval")
    )
    shaped: dict[str, object] = {
        "taskId": known.id,
        "status": status_of(known, protocol_style),
        "createdAt": _time(known.asked),
        "lastUpdatedAt": _time(max(known.asked, known.updated, known.ended)),
        lasts: int((kept_until(known, now) - known.asked) * 1000),
        polled: POLL_MS,
    }
    if message := _message(known, calls):
        shaped["statusMessage"] = message
    return shaped


def error_of(known: Invocation, calls: WaitingCalls) -> dict[str, object]:
    """The JSON-RPC error of a call that failed in itself."""
    error = calls.envelope(known).error or Error(code="internal", message="the gateway gave no reason")
    told = f"{error.code}: {error.message}" + (f" What to do: {error.suggestion}" if error.suggestion else "")
    return {"code": INTERNAL_ERROR, "message": bounded(told), "data": {"code": error.code, "call_id": known.id}}


def _message(known: Invocation, calls: WaitingCalls) -> str:
    if known.status == "running" and known.progress is not None:
        percent, message = known.progress.get("percent"), known.progress.get("message", "")
        return bounded(f"{percent}% {message}".strip() if percent is not None else str(message))
    error = calls.envelope(known).error
    return "" if error is None else bounded(f"{error.code}: {error.message}")


def _code(known: Invocation) -> str:
    error = (known.envelope or {}).get("error")
    return str(error.get("code", "")) if isinstance(error, dict) else ""


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
