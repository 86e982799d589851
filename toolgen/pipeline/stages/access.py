"""Access stage: who may call a tool, after which earlier calls, and which parts of the answer they see."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from types import MappingProxyType
from typing import assert_never

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from toolgen.core.clock import Clock, FixedClock
from toolgen.core.errors import StateError
from toolgen.model.call import Call, Principal, parties
from toolgen.model.result import Error, Failed, Pending, Refused, Result, Success
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Tool
from toolgen.model.unavailable import unavailable
from toolgen.model.verdict import Allow, Ask, Deny
from toolgen.pipeline.call_plan import GENERAL, Prepared, PreparedStage
from toolgen.pipeline.middleware import CallContext, Next, refused
from toolgen.policy.access import NOWHERE, UNKNOWN, Access, EvaluationContext
from toolgen.policy.answer_redaction import AnswerRedactor
from toolgen.policy.arguments import repair
from toolgen.policy.explain import SelfTest
from toolgen.policy.readings.call import Readings, amounts, reader_of, readings_of
from toolgen.policy.readings.wire import TooManyReadingsError
from toolgen.state.history import Histories
from toolgen.state.shared_histories import OptimisticTransaction, SharedHistories

__all__ = ["UNCOUNTED", "AccessStage", "CallHistory", "RedactStage", "imagined"]

UNCOUNTED = Refused(error=unavailable("earlier calls cannot be read now, so nothing was sent"))
_QUOTED = "the tool failed, and its message is withheld: the policy redacts fields of its answers"
_logger = logging.getLogger(__name__)


class CallHistory(Struct, frozen=True, kw_only=True):
    """Histories of calls under one policy; `labels` has the labels that each tool sets."""

    histories: Histories | SharedHistories
    clock: Clock
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    dry: bool = False

    def looking(self) -> CallHistory:
        """Return the history for a dry run, which reads earlier calls and adds none."""
        return replace(self, dry=True)

    def turn(self, call: Call) -> AbstractAsyncContextManager[OptimisticTransaction] | None:
        """Return the turn in which a call is decided, and decided again until it is committed; None if no other process shares the
        history."""
        histories = self.histories
        return histories.turn(parties(call.principal), call.session) if isinstance(histories, SharedHistories) else None

    def circumstances(self, call: Call) -> EvaluationContext:
        """Return the time and the earlier calls of this call's session and principal, and those of the user that it acts for."""
        now, user = self.clock.now(), call.principal.on_behalf_of
        session, history = self.histories.views(call.principal.id, call.session)
        if user is None:
            return EvaluationContext(now=now, session=session, history=history)
        theirs, all_theirs = self.histories.views(user.id, call.session)
        return EvaluationContext(
            now=now,
            session=session,
            history=history,
            user=EvaluationContext(now=now, session=theirs, history=all_theirs),
        )

    def begin(self, call: Call, tool: Tool, arguments: JsonObject, readings: Readings | None) -> None:
        """Count a tool of a call, for each of its parties, before it is called: concurrent calls see each other."""
        if self.dry:
            return
        numbers = arguments if readings is None else amounts(readings, arguments)
        if unknown := numbers.keys() - tool.input_schema.get("properties", {}).keys():
            numbers = {name: value for name, value in numbers.items() if name not in unknown}
        labels = self.labels.get(tool.name, ())
        party: Principal | None = call.principal
        while party is not None:
            self.histories.begin(call.id, party.id, call.session, tool.name, numbers, labels)
            party = party.on_behalf_of

    def add(self, call: Call, tool: Tool, arguments: JsonObject, readings: Readings | None) -> None:
        """Count a tool in a call that has started."""
        if self.histories.flies(call.id):
            self.begin(call, tool, arguments, readings)

    async def label(self, call: Call, labels: Sequence[str]) -> None:
        """Set labels for the effects of a call that are not known from its tool alone. Raises `StateError` if they cannot be shared."""
        if self.dry or not labels:
            return
        turns = self.turn(call)
        if turns is None:
            self._set(call, labels)
            return
        async with turns as turn:
            while True:
                self._set(call, labels)
                if await turn.commit():
                    return

    def _set(self, call: Call, labels: Sequence[str]) -> None:
        for party in parties(call.principal):
            self.histories.label(party, call.session, labels)

    def end(self, call: Call, result: Result | None) -> None:
        """Settle a call. A call without a result was broken off, and may have had an effect; so may a call to a device."""
        match result:
            case Success():
                self.histories.end(call.id, "ok")
            case Failed() | None | Pending(error=Error(code="deferred")):
                self.histories.end(call.id, "failed")
            case _:
                self.histories.end(call.id, "none")

    async def complete(self, call: Call) -> None:
        """Count a call as successful whose answer came after the end of its pipeline. Raises `StateError`."""
        turns = self.turn(call)
        if turns is None:
            self._begin_again(call)
        else:
            async with turns as turn:
                self._begin_again(call)
                while not await turn.commit():
                    self._begin_again(call)
        self.histories.end(call.id, "later")

    def _begin_again(self, call: Call) -> None:
        party: Principal | None = call.principal
        while party is not None:
            self.histories.begin(call.id, party.id, call.session, call.tool.name, {}, ())
            party = party.on_behalf_of


class AccessStage(Struct, frozen=True, kw_only=True):
    """Access control: the policy's verdict on principal, tool and arguments.

    `closed` refuses a hidden tool whose existence the policy discloses. `advice` is the suggestion for a refusal that has none.
    """

    access: Access
    earlier: CallHistory | None = None
    closed: Callable[[Principal, str], Deny | None] | None = None
    advice: Callable[[Principal, str], str] | None = None

    async def __call__(self, call: Call, call_context: CallContext, proceed: Next) -> Result:
        turns = None if self.earlier is None else self.earlier.turn(call)
        refusal = self._decided(call, call_context) if turns is None else await self._in_turn(turns, call, call_context)
        if refusal is not None:
            return refusal
        result: Result | None = None
        try:
            result = await proceed(call, call_context)
        finally:
            if self.earlier is not None:
                self.earlier.end(call, result)
        return result

    def prepared_for(self, principal: Principal, tool: Tool) -> Prepared:
        """Return a step that decides and counts calls of principals with these roles, if calls are counted in this process only."""
        earlier = self.earlier
        if earlier is None:
            return PreparedStage(self._decided)
        if isinstance(earlier.histories, SharedHistories) or earlier.dry:
            return GENERAL
        allowed = None if self.access.may_request(tool) else self.access.settled(principal, tool)
        return PreparedStage(self._decided if allowed is None else _Allowed(self, earlier, allowed, tool), earlier.end)

    async def again(self, call: Call, call_context: CallContext) -> Call | Result:
        """Judge and count a call with changed arguments, in place of the former call."""
        if self.earlier is not None and not self.earlier.dry:
            self.earlier.end(call, UNCOUNTED)
        turns = None if self.earlier is None else self.earlier.turn(call)
        refusal = self._decided(call, call_context) if turns is None else await self._in_turn(turns, call, call_context)
        return refusal or call

    async def _in_turn(
        self, turns: AbstractAsyncContextManager[OptimisticTransaction], call: Call, call_context: CallContext
    ) -> Refused | None:
        """Decide a call with a history shared with other processes, again until its count is committed without a conflict."""
        try:
            async with turns as turn:
                while True:
                    refusal = self._decided(call, call_context)
                    if await turn.commit():
                        return refusal
        except StateError as error:
            if self.earlier is not None:
                self.earlier.end(call, UNCOUNTED)
            _logger.error("a call was refused: %s", error)  # noqa: TRY400 - it says all there is
            return UNCOUNTED

    def _decided(self, call: Call, call_context: CallContext) -> Refused | None:
        """Return the refusal of a call, or None after counting it among the earlier calls. Details are noted for the audit log."""
        circumstances = NOWHERE if self.earlier is None else self.earlier.circumstances(call)
        judgement = self.access.judge(call.principal, call.tool, call.arguments, circumstances)
        with suppress(LookupError):  # the session was forgotten, and its labels with it
            call_context.labels = () if circumstances.session is None else circumstances.session.labels()
        call_context.notes = judgement.notes
        verdict = judgement.verdict if call.denied is None or judgement.verdict is UNKNOWN else call.denied
        if call.hidden and self.closed is not None:
            verdict = self.closed(call.principal, call.tool.name) or verdict
        call_context.rule = verdict.rule
        match verdict:
            case Allow():
                call_context.verdict = "allow"
            case Ask():
                call_context.verdict, call_context.consents = "ask", verdict.wanted
            case Deny():
                call_context.verdict = "deny"
                if self.advice is not None and verdict.code == "forbidden" and not verdict.suggestion:
                    verdict = replace(verdict, suggestion=self.advice(call.principal, call.tool.name))
                return refused(verdict)
            case _:
                assert_never(verdict)
        if self.access.may_request(call.tool):
            call_context.requests = self.access.requests(
                call.principal, call.tool, call.arguments, circumstances, judgement
            )
        if self.earlier is not None:
            self.earlier.begin(call, call.tool, call.arguments, judgement.readings)
        return None


class _Allowed:
    """Step for calls that the rules allow with any arguments: they only have to be counted."""

    __slots__ = ("_earlier", "_read", "_rule", "_stage")

    def __init__(self, stage: AccessStage, earlier: CallHistory, allowed: Allow, tool: Tool) -> None:
        self._stage, self._earlier, self._rule = stage, earlier, allowed.rule
        self._read = reader_of(tool)

    def __call__(self, call: Call, call_context: CallContext) -> Refused | None:
        earlier = self._earlier
        try:
            readings = self._read(call.arguments)
        except TooManyReadingsError:
            return self._stage._decided(call, call_context)
        labels: Sequence[str] = []
        if call.session:
            with suppress(LookupError):  # the session was forgotten, and its labels with it
                labels = earlier.histories.views(call.principal.id, call.session)[0].labels()
        call_context.labels = labels
        call_context.verdict, call_context.rule = "allow", self._rule
        earlier.begin(call, call.tool, call.arguments, readings)
        return None


class RedactStage(Struct, kw_only=True):
    """Removal of answer fields that the policy hides. `redactor` makes the redaction of one tool, or None."""

    redactor: Callable[[Tool], AnswerRedactor | None]
    _redactors: dict[str, AnswerRedactor | None] = {}

    async def __call__(self, call: Call, call_context: CallContext, proceed: Next) -> Result:
        hides = self._of(call.tool) is not None
        call_context.redacts, call_context.withholds = call_context.redacts or hides, hides
        result = await proceed(call, call_context)
        return self.applied(call, result) if hides or call.document is not None else result

    def idle(self, tool: Tool) -> bool:
        """Return True if the policy hides nothing in the tool's answers, for any arguments."""
        return self._of(tool) is None and not tool.takes_documents

    def prepared(self, tool: Tool) -> Prepared:
        """Return None if the policy hides nothing in the answers of the tool."""
        return None if self.idle(tool) else GENERAL

    def applied(self, call: Call, result: Result) -> Result:
        """Return the result without the hidden fields."""
        # The answer to a document is redacted like answers of the tools of its root fields.
        for tool in (call.tool, *(call.document.tools if call.document is not None else ())):
            result = self._redacted(tool, result)
        return result

    def _redacted(self, tool: Tool, result: Result) -> Result:
        redact = self._of(tool)
        if redact is None:
            return result
        match result:
            case Success(data=data, shape=shape):
                return msgspec.structs.replace(result, data=redact(data, shape))
            case Failed(error=error, data=data, shape=shape, quotes=quotes):
                said = _without_quote(error, quotes=quotes)
                return msgspec.structs.replace(result, error=said, data=redact(data, shape))
            case _:
                return result

    def _of(self, tool: Tool) -> AnswerRedactor | None:
        if tool.digest not in self._redactors:
            self._redactors[tool.digest] = self.redactor(tool)
        return self._redactors[tool.digest]


def _without_quote(error: Error, *, quotes: bool) -> Error:
    """Return an executor's message without text of the other system, which follows the first colon; the redacted data contains it."""
    if quotes:
        return msgspec.structs.replace(error, message=_QUOTED, suggestion="")
    ours, colon, _ = error.message.partition(":")
    return msgspec.structs.replace(error, message=ours) if colon else error


def imagined(
    test: SelfTest, tools: Mapping[str, Tool], labels: Mapping[str, tuple[str, ...]], clock: Clock
) -> EvaluationContext:
    """Return the time and the earlier calls that a test of a policy describes."""
    now = FixedClock(clock.now() if test.at is None else test.at)
    earlier = CallHistory(histories=Histories(now), clock=now, labels=labels)
    for index, made in enumerate(test.after):
        tool = tools[made.tool]
        arguments = repair(tool.input_schema, made.arguments).arguments
        session = "test" if made.in_session else "another"
        call = Call(id=f"test-{index}", tool=tool, arguments=arguments, principal=test.caller, session=session)
        earlier.begin(call, tool, arguments, readings_of(tool, arguments))
        if made.outcome != "running":
            earlier.histories.end(call.id, made.outcome)
    asked = Call(id="test", tool=tools[test.tool], arguments={}, principal=test.caller, session="test")
    return earlier.circumstances(asked)
