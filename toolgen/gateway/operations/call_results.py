"""Tool `get_call_result`: it reads the result of a call that was answered `pending`, for clients that support only tools."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from toolgen.core.clock import Clock
from toolgen.core.errors import StateError
from toolgen.gateway.calls.json_body import ended, unmade
from toolgen.gateway.operations.waiting_calls import KEPT_S, WaitingCalls
from toolgen.model.call import Principal
from toolgen.model.result import Envelope, Error, Success
from toolgen.model.schema import Json, JsonObject, Schema
from toolgen.model.tool import Effect, NoBinding, Tool, seal
from toolgen.model.unavailable import fault_error
from toolgen.model.waiting import GET_CALL_RESULT
from toolgen.pipeline.middleware import CallContext, CallerConnection
from toolgen.policy.arguments import Validator, excess, repair
from toolgen.policy.limits import Limit, LimitCharge
from toolgen.policy.null_arguments import without_null
from toolgen.state.invocations import Invocation
from toolgen.state.rate_limits import MemoryBuckets

__all__ = ["CallResults"]

_MAX_WAIT_S = 60.0
_WAIT_S = 3.0  # shorter than any client's timeout
_MAX_LISTED = 20
_MAX_LOOKED_AT = 1000
_MAX_LISTINGS = 64
_READS = Limit(id="call_results", per=("principal",), per_second=20.0, burst=200)
_INPUT: Schema = {
    "type": "object",
    "properties": {
        "call_id": {
            "type": "string",
            "minLength": 1,
            "maxLength": 128,
            "description": "The id that the pending answer named. Without it the recent calls are listed.",
        },
        "wait_s": {
            "type": "number",
            "minimum": 0,
            "maximum": _MAX_WAIT_S,
            "default": _WAIT_S,
            "description": "Seconds to wait for the end of the call.",
        },
    },
}
_TOOL = seal(
    Tool(
        name=GET_CALL_RESULT,
        title="Get the result of a call",
        description="Reads the result of a call that was answered as pending: the answer of the tool itself, or the state "
        "of the call (a person has to approve it, a device is asked, it still runs). Without call_id it lists your recent calls "
        "with their ids. It repeats no call.",
        input_schema=_INPUT,
        output_schema=None,
        effect=Effect.READ,
        idempotent=True,
        source="",
        origin="",
        binding=NoBinding(),
    )
)
_UNKNOWN = Error(
    code="not_found",
    message="there is no such call of yours that is pending or ended within the last hour",
    suggestion=f"{GET_CALL_RESULT} without call_id lists your recent calls",
)


class CallResults:
    """Results of the calls in `waiting`, each for the principal that made it: calls of others are unknown."""

    def __init__(self, waiting: WaitingCalls, clock: Clock) -> None:
        self._waiting = waiting
        self._buckets = MemoryBuckets(clock)
        self._validator = Validator(_INPUT)
        self._listed: dict[int, tuple[tuple[Tool, ...], tuple[Tool, ...]]] = {}

    def listed(self, offered: tuple[Tool, ...], may_wait: Callable[[], bool]) -> tuple[Tool, ...]:
        """Return the listed tools, with this one added if a call of them may be pending. The same object for the same tools."""
        known = self._listed.get(id(offered))
        if known is None:
            several = (
                tuple(sorted((*offered, _TOOL), key=lambda tool: tool.name)) if offered and may_wait() else offered
            )
            known = self._listed[id(offered)] = (
                offered,
                several,
            )  # it has the tuple, so its id is not reused
            if len(self._listed) > _MAX_LISTINGS:
                del self._listed[next(iter(self._listed))]
        return known[1]

    async def answer(
        self, arguments: JsonObject, caller: Principal, caller_connection: CallerConnection | None
    ) -> Envelope:
        """Answer a call of `get_call_result`. Never raises."""
        fault = excess(arguments)
        given: JsonObject = {} if fault else repair(_INPUT, without_null(_INPUT, arguments)).arguments
        if faults := (fault,) if fault else self._validator.faults(given):
            suggestion = "correct the arguments and call again"
            error = Error(code="validation", message="; ".join(faults), suggestion=suggestion, rule="arguments")
            return unmade(GET_CALL_RESULT, error)
        if refusal := self._buckets.take((LimitCharge(_READS, (_READS.id, caller.id)),)):
            return unmade(
                GET_CALL_RESULT,
                Error(
                    code="rate_limited",
                    message="results are asked for too often",
                    suggestion="ask with wait_s, which waits for the end of the call",
                    retry_after_s=refusal.retry_after_s,
                    rule=refusal.limit,
                ),
            )
        call_id, wait = given.get("call_id"), given.get("wait_s", _WAIT_S)
        try:
            if call_id is None:
                return ended(GET_CALL_RESULT, "", Success(data=await self._recent(caller)), CallContext(), 0.0)
            seconds = float(wait) if isinstance(wait, int | float) else 0.0
            outcome = self._waiting.outcome(str(call_id), caller, seconds)
            found = await (outcome if caller_connection is None else caller_connection.awaiting(outcome))
        except StateError as error:
            return unmade(GET_CALL_RESULT, fault_error(error, "the state of the call cannot be read now"))
        return found or unmade(GET_CALL_RESULT, _UNKNOWN)

    async def _recent(self, caller: Principal) -> Json:
        """Return the caller's calls that have not ended, and those made within the last hour, the newest first."""
        waiting = self._waiting
        now = await waiting.store.now()
        recent, more = await waiting.owned(caller, (now - KEPT_S, ""), _MAX_LOOKED_AT)
        found = {known.id: known for known in recent}
        for older in (await waiting.store.waiting("approval", [caller.id])).get(caller.id, ()):
            if older not in found and (known := await waiting.own(older, caller)) is not None:
                found[older] = known
        newest = sorted(found.values(), key=lambda known: (known.status == "ended", -known.asked, known.id))
        listed: dict[str, Json] = {"calls": [_entry(known) for known in newest[:_MAX_LISTED]]}
        if len(newest) > _MAX_LISTED or more is not None:
            listed["note"] = f"only {_MAX_LISTED} calls are listed: those that have not ended first, the newest first"
        return listed


def _entry(known: Invocation) -> Json:
    made = datetime.fromtimestamp(known.asked, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {"call_id": known.id, "tool": known.tool, "state": known.state.value, "made": made}
