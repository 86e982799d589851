"""Trials of calls against the rules, the schema, limits, a pause, an approval, a full turn, and the audit log."""

from __future__ import annotations

from typing import Any, Final

from toolgen.audit.log import AuditLog
from toolgen.core.errors import AuditError
from toolgen.model.call import Call
from toolgen.model.result import Result
from toolgen.model.verdict import Allow
from toolgen.pipeline.middleware import CallContext, Next
from toolgen.pipeline.stages.access import RedactStage
from toolgen.pipeline.stages.approve import ApproveStage
from toolgen.pipeline.stages.guards import ArgumentsStage, PauseStage
from toolgen.pipeline.stages.idempotency import LedgerStage
from toolgen.pipeline.stages.rate_limit import LimitStage, TurnStage
from toolgen.pipeline.stages.record import AuditRedaction, Record
from toolgen.policy.access import Access, Decision
from toolgen.policy.binding import BoundArguments
from toolgen.quality.doctor.scratch_gateway import CANARY, ONE, SOURCE, Scratch
from toolgen.quality.doctor.trial import Guard, RefusalChecks, UselessError, without

__all__ = ["CALL_ATTEMPTS", "free_pass"]

CALL_ATTEMPTS: Final = RefusalChecks()
"""Trials in the order of the pipeline."""

_ALLOW: Final = Allow(rule="doctor")


async def _passes(_self: object, call: Call, call_context: CallContext, proceed: Next) -> Result:
    return await proceed(call, call_context)


async def _lets_on(_self: object, call: Call, _call_context: CallContext) -> Call:
    return call


def _allows(*_: object) -> Decision:
    return Decision(verdict=_ALLOW)


def free_pass() -> Guard:
    """Return a guard whose replacement allows everything in place of the rules."""
    return Guard(Access, "judge", _allows)


def _unbound(_self: object, _principal: object, _tool: object, arguments: Any) -> BoundArguments:
    return BoundArguments(arguments=arguments)


@CALL_ATTEMPTS.add_in_scratch(
    "record before the act", "a call whose intent could not be recorded was not made", Record, "__call__", _passes
)
async def _unrecorded(place: Scratch) -> str:
    async def fails(*_: object) -> None:
        raise AuditError("the disk is full, as far as this trial is concerned")

    with without((Guard(AuditLog, "append", fails),)):
        made = await place.reached("open", ONE)
    return "a call was made that could not be recorded" if made else ""


@CALL_ATTEMPTS.add_in_scratch(
    "turn limit",
    "a conversation's turn beyond its limit was refused",
    TurnStage,
    "__call__",
    _lets_on,
    gateway={"turn_limit": 1},
)
async def _endless(place: Scratch) -> str:
    made = [await place.reached("open", ONE, session="one") for _ in range(3)]
    return "" if made == [True, False, False] else f"of three turns where one is allowed, {sum(made)} were let through"


@CALL_ATTEMPTS.add_in_scratch(
    "pause", "calls of a paused principal and of a paused source were refused", PauseStage, "__call__", _lets_on
)
async def _paused(place: Scratch) -> str:
    gateway = place.gateway
    nothing = {"principal": "", "source": "", "tool": ""}
    for what in ({"principal": "agent"}, {"source": SOURCE}, {"tool": f"{SOURCE}__op*"}):
        await gateway.pausing.pause(**{**nothing, **what}, reason="", by="doctor")
        if await place.reached("open", ONE):
            return f"a call was made although {next(iter(what))} {next(iter(what.values()))} is paused"
        await gateway.pausing.resume(gateway.pausing.all()[0].target, by="doctor")
    if not await place.reached("open", ONE):
        raise UselessError("a call was refused although nothing was paused any more")
    return ""


@CALL_ATTEMPTS.add_in_scratch("limit", "a call beyond a limit was refused", LimitStage, "__call__", _passes)
async def _beyond_a_limit(place: Scratch) -> str:
    made = [await place.reached("limited", ONE) for _ in range(3)]
    return "" if made == [True, False, False] else f"of three calls where one is allowed, {sum(made)} were let through"


@CALL_ATTEMPTS.add_in_scratch(
    "hidden tool",
    "a hidden tool is answered as one that does not exist, and is in no list",
    Access,
    "visible",
    lambda *_: True,
)
async def _hidden(place: Scratch) -> str:
    gateway, name = place.gateway, f"{SOURCE}__hidden"
    if name in {tool.name for tool in gateway.tool_calls.catalog(gateway.principal("agent"))}:
        return "a tool that no rule opens is in the list"
    there = (await gateway.call(name, ONE, principal="agent")).error
    missing = (await gateway.call(f"{SOURCE}__missing", ONE, principal="agent")).error
    if there is None or place.echo.calls:
        return "a tool that no rule opens was called"
    return "" if there == missing else "a hidden tool is answered otherwise than one that does not exist"


@CALL_ATTEMPTS.add_in_scratch(
    "visible but denied call",
    "calls outside of what a rule allows, and inside of what another denies, were refused",
    Access,
    "judge",
    _allows,
)
async def _denied(place: Scratch) -> str:
    for tool, arguments in (("narrowed", {"id": 2}), ("denied", {"id": 1})):
        if await place.reached(tool, arguments):
            return f"the call of a tool that is {tool} was let through"
    if not await place.reached("narrowed", ONE) or not await place.reached("denied", {"id": 2}):
        raise UselessError("calls that the policy allows were refused too")
    return ""


@CALL_ATTEMPTS.add_in_scratch(
    "call for a user", "an agent was refused what the user it acts for may not do", Access, "judge", _allows
)
async def _for_a_user(place: Scratch) -> str:
    both = place.gateway.principal("agent", "user")
    if await place.reached("open", {"id": 2}, principal=both):
        return "an agent did for a user what the user may not do"
    if not await place.reached("open", ONE, principal=both):
        raise UselessError("a call that both may make was refused too")
    return ""


@CALL_ATTEMPTS.add_in_scratch(
    "bound argument",
    "an argument that the policy binds was not taken from the caller",
    Access,
    "bind",
    _unbound,
    module="cel_expr_python",
    bound=True,
)
async def _bound(place: Scratch) -> str:
    await place.reached("bound", {"id": 1, "tenant": "other"})
    await place.reached("bound", ONE)
    sent = [call.arguments.get("tenant") for call in place.echo.calls]
    return "" if sent and set(sent) == {"own"} else "a bound argument was sent as the caller, or as nobody, wrote it"


@CALL_ATTEMPTS.add_in_scratch(
    "arguments", "arguments that do not fit the tool's schema were refused", ArgumentsStage, "__call__", _lets_on
)
async def _unfit(place: Scratch) -> str:
    for arguments in ({"id": "abc"}, {}, {"id": 1, "other": 1}, {"id": 1, "note": 7}):
        if await place.reached("open", arguments):
            return f"arguments that do not fit the schema were let through: {sorted(arguments)}"
    return ""


@CALL_ATTEMPTS.add_in_scratch(
    "repeated call", "a call repeated under its idempotency key was made once", LedgerStage, "__call__", _passes
)
async def _twice(place: Scratch) -> str:
    made = [await place.reached("open", ONE, idempotency_key="doctor") for _ in range(2)]
    return "" if made == [True, False] else "a call was made twice under one idempotency key"


@CALL_ATTEMPTS.add_in_scratch(
    "approval", "a call that a person must agree to was kept waiting", ApproveStage, "__call__", _lets_on
)
async def _unasked(place: Scratch) -> str:
    return "a call was made that nobody had agreed to" if await place.reached("asked", ONE) else ""


@CALL_ATTEMPTS.add_in_scratch(
    "redaction",
    "what the policy redacts was not in an answer",
    RedactStage,
    "applied",
    lambda _self, _call, result: result,
)
async def _answered(place: Scratch) -> str:
    envelope = await place.gateway.call(f"{SOURCE}__open", ONE, principal="agent")
    if envelope.status != "ok":
        raise UselessError("a call that the policy allows was refused")
    return "what the policy redacts was in the answer" if CANARY in repr(envelope.to_dict()) else ""


@CALL_ATTEMPTS.add_in_scratch(
    "sensitive arguments",
    "arguments that policy or schema call sensitive are in the audit log only as digests",
    AuditRedaction,
    "arguments",
    lambda _self, call: call.arguments,
)
async def _written_down(place: Scratch) -> str:
    for name in ("note", "pin"):
        await place.reached("open", {"id": 1, name: CANARY})
        record = place.folder / "var" / "audit"
        if any(CANARY.encode() in path.read_bytes() for path in record.glob("*.jsonl")):
            return f"the sensitive argument '{name}' is in the record as it was sent"
    return ""
