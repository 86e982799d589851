"""Attempts at calls: past the rules, the schema, SQL's guard, limits, a pause, an approval, a full turn, the record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from toolgen.audit.log import AuditLog
from toolgen.doctor.scratch_gateway import CANARY, ONE, SOURCE, Attempt, Guard, Scratch, UselessError, scratch, without
from toolgen.errors import AuditError
from toolgen.gateway import compiled_policy
from toolgen.gateway.audit_redaction import Concealing
from toolgen.model.call import Call, Statement
from toolgen.model.result import Result
from toolgen.model.verdict import Allow
from toolgen.pipeline.middleware import Next, Trail
from toolgen.pipeline.stages.approval import ApproveStage
from toolgen.pipeline.stages.guards import ArgumentsStage, RedactStage
from toolgen.pipeline.stages.idempotency import LedgerStage
from toolgen.pipeline.stages.pause import PauseStage
from toolgen.pipeline.stages.rate_limit import LimitStage
from toolgen.pipeline.stages.record import Record
from toolgen.pipeline.stages.turn_limit import TurnStage
from toolgen.policy.access import Access, Judgement
from toolgen.policy.binding import Bound

__all__ = ["attempts_at_calls", "free_pass"]

_ALLOW: Final = Allow(rule="doctor")
_REFUSED_SQL: Final = {
    "a column that the policy hides": "SELECT ssn FROM customers",
    "a hidden column in a filter": "SELECT id FROM customers WHERE ssn LIKE 'a%'",
    "a table that the policy does not open": "SELECT amount FROM salaries",
    "a hidden table in a subquery": "SELECT id FROM customers WHERE id IN (SELECT id FROM salaries)",
    "the engine's own tables": "SELECT sql FROM sqlite_master",
    "a change": "DELETE FROM customers",
    "two statements": "SELECT id FROM customers; DELETE FROM customers",
    "a function that loads code": "SELECT load_extension('x')",
    "a setting": "PRAGMA table_info(customers)",
}
_BY_ANOTHER_WAY: Final = (
    "SELECT id FROM customers WHERE 1 = 1 OR tenant = 'other'",
    "SELECT c.id FROM customers c JOIN customers d ON 1 = 1",
    "SELECT id FROM customers UNION ALL SELECT id FROM customers",
)


async def _passes(_self: object, call: Call, trail: Trail, proceed: Next) -> Result:
    return await proceed(call, trail)


async def _lets_on(_self: object, call: Call, _trail: Trail) -> Call:
    return call


def _allows(*_: object) -> Judgement:
    return Judgement(verdict=_ALLOW)


async def _as_written(call: Call, **_: object) -> Statement:
    sql = str(call.arguments.get("sql", ""))
    nothing: frozenset[str] = frozenset()
    return Statement(
        sql=sql,
        parameters=(),
        tables=nothing,
        columns=nothing,
        max_rows=1_000_000,
        max_bytes=0,
        max_cell_bytes=0,
        timeout_s=1.0,
    )


def free_pass() -> Guard:
    """The rules, and what allows everything in their place."""
    return Guard(owner=Access, name="judge", instead=_allows)


def _within(check: Callable[[Scratch], Awaitable[str]], **made: Any) -> Callable[[], Awaitable[str]]:
    """An attempt in a gateway of its own."""

    async def make() -> str:
        async with scratch(**made) as place:
            return await check(place)

    return make


def attempts_at_calls() -> tuple[Attempt, ...]:
    """In the order of the road."""
    sql = Guard(owner=compiled_policy, name="sql_verdict", instead=_as_written)
    return (
        Attempt(
            name="record before the act",
            shown="a call whose intent could not be recorded was not made",
            guards=(Guard(owner=Record, name="__call__", instead=_passes),),
            make=_within(_unrecorded),
        ),
        Attempt(
            name="turn limit",
            shown="a conversation's turn beyond its limit was refused",
            guards=(Guard(owner=TurnStage, name="__call__", instead=_lets_on),),
            make=_within(_endless, gateway={"turn_limit": 1}),
        ),
        Attempt(
            name="pause",
            shown="calls of a paused principal and of a paused source were refused",
            guards=(Guard(owner=PauseStage, name="__call__", instead=_lets_on),),
            make=_within(_paused),
        ),
        Attempt(
            name="limit",
            shown="a call beyond a limit was refused",
            guards=(Guard(owner=LimitStage, name="__call__", instead=_passes),),
            make=_within(_beyond_a_limit),
        ),
        Attempt(
            name="hidden tool",
            shown="a hidden tool is answered as one that does not exist, and is in no list",
            guards=(Guard(owner=Access, name="visible", instead=lambda *_: True),),
            make=_within(_hidden),
        ),
        Attempt(
            name="visible but denied call",
            shown="calls outside of what a rule allows, and inside of what another denies, were refused",
            guards=(free_pass(),),
            make=_within(_denied),
        ),
        Attempt(
            name="call for a user",
            shown="an agent was refused what the user it acts for may not do",
            guards=(free_pass(),),
            make=_within(_for_a_user),
        ),
        Attempt(
            name="bound argument",
            shown="an argument that the policy binds was not taken from the caller",
            guards=(Guard(owner=Access, name="bind", instead=_unbound),),
            make=_within(_bound),
        ),
        Attempt(
            name="arguments",
            shown="arguments that do not fit the tool's schema were refused",
            guards=(Guard(owner=ArgumentsStage, name="__call__", instead=_lets_on),),
            make=_within(_unfit),
        ),
        Attempt(
            name="SQL",
            shown=f"{len(_REFUSED_SQL)} statements beyond what the policy opens were refused",
            guards=(sql,),
            make=_within(_statements),
        ),
        Attempt(
            name="SQL rows",
            shown="statements were given the policy's row filter and its limit",
            guards=(sql,),
            make=_within(_rows),
        ),
        Attempt(
            name="repeated call",
            shown="a call repeated under its idempotency key was made once",
            guards=(Guard(owner=LedgerStage, name="__call__", instead=_passes),),
            make=_within(_twice),
        ),
        Attempt(
            name="approval",
            shown="a call that a person must agree to was kept waiting",
            guards=(Guard(owner=ApproveStage, name="__call__", instead=_lets_on),),
            make=_within(_unasked),
        ),
        Attempt(
            name="redaction",
            shown="what the policy redacts was not in an answer",
            guards=(Guard(owner=RedactStage, name="applied", instead=lambda _self, _call, result: result),),
            make=_within(_answered),
        ),
        Attempt(
            name="sensitive arguments",
            shown="what policy and schema call sensitive is in the record as a digest alone",
            guards=(Guard(owner=Concealing, name="arguments", instead=lambda _self, call: call.arguments),),
            make=_within(_written_down),
        ),
    )


def _unbound(_self: object, _principal: object, _tool: object, arguments: Any) -> Bound:
    return Bound(arguments=arguments)


async def _unrecorded(place: Scratch) -> str:
    async def fails(*_: object) -> None:
        raise AuditError("the disk is full, as far as this trial is concerned")

    with without((Guard(owner=AuditLog, name="append", instead=fails),)):
        made = await place.reached("open", ONE)
    return "a call was made that could not be recorded" if made else ""


async def _endless(place: Scratch) -> str:
    made = [await place.reached("open", ONE, session="one") for _ in range(3)]
    return "" if made == [True, False, False] else f"of three turns where one is allowed, {sum(made)} were let through"


async def _paused(place: Scratch) -> str:
    gateway = place.gateway
    nothing = {"principal": "", "source": "", "tool": ""}
    for what in ({"principal": "agent"}, {"source": SOURCE}, {"tool": f"{SOURCE}__op*"}):
        await gateway.pausing.pause(gateway, **{**nothing, **what}, reason="", by="doctor")
        if await place.reached("open", ONE):
            return f"a call was made although {next(iter(what))} {next(iter(what.values()))} is paused"
        await gateway.pausing.resume(gateway.pausing.all()[0].target, by="doctor")
    if not await place.reached("open", ONE):
        raise UselessError("a call was refused although nothing was paused any more")
    return ""


async def _beyond_a_limit(place: Scratch) -> str:
    made = [await place.reached("limited", ONE) for _ in range(3)]
    return "" if made == [True, False, False] else f"of three calls where one is allowed, {sum(made)} were let through"


async def _hidden(place: Scratch) -> str:
    gateway, name = place.gateway, f"{SOURCE}__hidden"
    if name in {tool.name for tool in gateway.catalog(gateway.principal("agent"))}:
        return "a tool that no rule opens is in the list"
    there = (await gateway.call(name, ONE, principal="agent")).error
    missing = (await gateway.call(f"{SOURCE}__missing", ONE, principal="agent")).error
    if there is None or place.echo.calls:
        return "a tool that no rule opens was called"
    return "" if there == missing else "a hidden tool is answered otherwise than one that does not exist"


async def _denied(place: Scratch) -> str:
    for tool, arguments in (("narrowed", {"id": 2}), ("denied", {"id": 1})):
        if await place.reached(tool, arguments):
            return f"the call of a tool that is {tool} was let through"
    if not await place.reached("narrowed", ONE) or not await place.reached("denied", {"id": 2}):
        raise UselessError("calls that the policy allows were refused too")
    return ""


async def _for_a_user(place: Scratch) -> str:
    both = place.gateway.principal("agent", "user")
    if await place.reached("open", {"id": 2}, principal=both):
        return "an agent did for a user what the user may not do"
    if not await place.reached("open", ONE, principal=both):
        raise UselessError("a call that both may make was refused too")
    return ""


async def _bound(place: Scratch) -> str:
    await place.reached("bound", {"id": 1, "tenant": "other"})
    await place.reached("bound", ONE)
    sent = [call.arguments.get("tenant") for call in place.echo.calls]
    return "" if sent and set(sent) == {"own"} else "a bound argument was sent as the caller, or as nobody, wrote it"


async def _unfit(place: Scratch) -> str:
    for arguments in ({"id": "abc"}, {}, {"id": 1, "other": 1}, {"id": 1, "note": 7}):
        if await place.reached("open", arguments):
            return f"arguments that do not fit the schema were let through: {sorted(arguments)}"
    return ""


async def _statements(place: Scratch) -> str:
    for what, sql in _REFUSED_SQL.items():
        if await place.reached("query", {"sql": sql}):
            return f"a statement with {what} was let through"
    return ""


async def _rows(place: Scratch) -> str:
    for sql in _BY_ANOTHER_WAY:
        if not await place.reached("query", {"sql": sql}):
            continue  # refused is as good
        statement = place.echo.calls[-1].statement
        if statement is None or "own" not in statement.parameters or "tenant" not in statement.sql:
            return f"a statement was let through without the row filter: {sql}"
        if statement.max_rows > 5 or "LIMIT" not in statement.sql.upper():
            return f"a statement was let through without the limit on its rows: {sql}"
    if not place.echo.calls:
        raise UselessError("statements that the policy allows were refused too")
    return ""


async def _twice(place: Scratch) -> str:
    made = [await place.reached("open", ONE, idempotency_key="doctor") for _ in range(2)]
    return "" if made == [True, False] else "a call was made twice under one idempotency key"


async def _unasked(place: Scratch) -> str:
    return "a call was made that nobody had agreed to" if await place.reached("asked", ONE) else ""


async def _answered(place: Scratch) -> str:
    envelope = await place.gateway.call(f"{SOURCE}__open", ONE, principal="agent")
    if envelope.status != "ok":
        raise UselessError("a call that the policy allows was refused")
    return "what the policy redacts was in the answer" if CANARY in repr(envelope.to_dict()) else ""


async def _written_down(place: Scratch) -> str:
    for name in ("note", "pin"):
        await place.reached("open", {"id": 1, name: CANARY})
        record = place.folder / "var" / "audit"
        if any(CANARY.encode() in path.read_bytes() for path in record.glob("*.jsonl")):
            return f"the sensitive argument '{name}' is in the record as it was sent"
    return ""
