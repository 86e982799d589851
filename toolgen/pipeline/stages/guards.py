"""Guard stages: each asks one guard and passes the call, or turns the verdict into a result."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Literal, assert_never

from msgspec import Struct
from msgspec.structs import replace

from toolgen.core.errors import StateError
from toolgen.model.call import Call, DatabaseDescription, Statement, parties
from toolgen.model.database import Database
from toolgen.model.result import Error, Refused
from toolgen.model.tool import NoBinding, Tool
from toolgen.model.unavailable import unavailable
from toolgen.model.verdict import Allow, Ask, Consent, Deny, Verdict
from toolgen.pipeline.call_plan import GENERAL, General, Prepared, PreparedStage
from toolgen.pipeline.middleware import CallContext, Judged, refused
from toolgen.pipeline.stages.access import UNCOUNTED, CallHistory
from toolgen.pipeline.stages.approve import stale
from toolgen.policy.arguments import Validator, unknown_arguments
from toolgen.policy.rules import DecisionNote
from toolgen.state.pauses import UNREADABLE, Pause, Pauses, SharedPauses

if TYPE_CHECKING:
    from toolgen.connectors.document_guard import DocumentGuard

__all__ = [
    "ArgumentsStage",
    "CurrentStage",
    "InspectStage",
    "PauseStage",
    "SqlGuard",
]

SqlGuard = Callable[[Call], Awaitable[Statement | Database | DatabaseDescription | Deny]]
"""Function that checks a call to a SQL tool: it returns the statement to run, the part of the database to describe, or a refusal."""
_NO_INDEX = Deny(
    rule="graphql",
    reason="the manifest has no index of this schema",
    suggestion="run `toolgen build` to write it again",
)

_logger = logging.getLogger(__name__)
_WRITES = Consent(rule="sql:writes")
_UNREAD = unavailable("pauses cannot be read now, so nothing was sent", rule="pause")


class PauseStage(Struct, frozen=True, kw_only=True):
    """Refuses paused calls; for a document, also calls of the tools of its root fields.

    A tool that does not exist, or that the principal may not see, passes here and is refused later as unknown: a refusal as paused would
    reveal that the tool exists. If pauses cannot be read, everything is paused, unless the policy is `tolerant` and they were read before.
    """

    pauses: Pauses | SharedPauses
    tolerant: bool = False

    def __call__(self, call: Call, _call_context: CallContext) -> Judged | Coroutine[Any, Any, Judged]:
        pauses = self.pauses
        if not (pauses.stale or pauses.all()) or isinstance(call.tool.binding, NoBinding):
            return call
        return self._asked(call)

    def prepared(self, _tool: Tool) -> Prepared:
        """Return a step that passes calls while nothing is paused."""
        return PreparedStage(self._nothing_paused)

    def _nothing_paused(self, _call: Call, _call_context: CallContext) -> Literal[General.GENERAL] | None:
        pauses = self.pauses
        return GENERAL if pauses.stale or pauses.all() else None

    async def _asked(self, call: Call) -> Judged:
        error = await self.withheld(call)
        return call if error is None else Refused(error=error)

    async def withheld(self, call: Call) -> Error | None:
        """Return the error of a call that is paused now, or None."""
        pauses = self.pauses
        if pauses.stale and not await pauses.refresh() and not (self.tolerant and pauses.known):
            return _UNREAD
        pause = self._covering(call)
        if pause is None:
            return None
        if pause is UNREADABLE:
            return _UNREAD
        return Error(
            code="paused",
            message=f"calls like this are paused: {pause.reason}" if pause.reason else "calls like this are paused",
            suggestion="try again later; the operator of the gateway resumes them",
            rule="pause",
        )

    def _covering(self, call: Call) -> Pause | None:
        if not self.pauses.all():
            return None
        who = parties(call.principal)
        tools = (call.tool, *(() if call.document is None else call.document.tools))
        found = (self.pauses.covering(who, tool.source, tool.name) for tool in tools)
        return next((pause for pause in found if pause is not None), None)


class ArgumentsStage(Struct, kw_only=True):
    """Validation of types, bounds and constraints: the arguments must conform to the tool's own schema, compiled at its first call.

    A tool that changes something accepts no unknown arguments.
    """

    _validators: dict[str, Validator] = {}

    def __call__(self, call: Call, _call_context: CallContext) -> Judged:
        validator = self._validator(call.tool)
        faults = unknown_arguments(call.tool, call.dropped, call.bound) if call.dropped else ()
        if not faults and validator.accepts(call.arguments):
            return call
        faults = faults or validator.faults(call.arguments, bound=call.bound)
        return Refused(
            error=Error(
                code="validation",
                message="; ".join(faults),
                suggestion="correct the arguments by the tool's input schema and call again",
                rule="arguments",
            )
        )

    def prepared(self, tool: Tool) -> Prepared:
        """Return a step that passes valid arguments. The general path explains the errors in others."""
        accepts = self._validator(tool).accepts

        def step(call: Call, _call_context: CallContext) -> Literal[General.GENERAL] | None:
            return None if not call.dropped and accepts(call.arguments) else GENERAL

        return PreparedStage(step)

    def _validator(self, tool: Tool) -> Validator:
        validator = self._validators.get(tool.digest)
        if validator is None:
            validator = self._validators[tool.digest] = Validator(tool.input_schema, formats=tool.checks_formats)
        return validator


class InspectStage(Struct, frozen=True, kw_only=True):
    """Inspection of a call's external effects: SQL is parsed and rebuilt, the destination of a request is checked against the egress rules.

    `guards` has a SQL guard for each database to which the policy gives a scope. `destination` judges the destination of a source's request
    before its name is resolved; the connector checks the address again.
    """

    guards: Mapping[str, SqlGuard]
    destination: Callable[[str, str], Verdict]
    documents: Mapping[str, DocumentGuard] = {}
    earlier: CallHistory | None = None

    def __call__(self, call: Call, call_context: CallContext) -> Judged | Coroutine[Any, Any, Judged]:
        binding = call.tool.binding
        if isinstance(binding, NoBinding):
            return refused(Deny(rule="default", code="unknown_tool", reason="there is no such tool"))
        match binding.inspected_as:
            case "statement":
                return self._sql(call, call_context)
            case "document":
                return self._document(call, call_context)
            case "schema":
                return self._schema(call)
            case "request":
                url = binding.destination
                return call if url is None else self._request(url, call)
            case _:
                assert_never(binding.inspected_as)

    def idle(self, tool: Tool) -> bool:
        """Return True if every call of the tool passes unchanged: the project's own code, or an open destination."""
        binding = tool.binding
        if binding.inspected_as != "request" or isinstance(binding, NoBinding):
            return False
        url = binding.destination
        return url is None or isinstance(self.destination(url, tool.source), Allow)

    def prepared(self, tool: Tool) -> Prepared:
        """Return None if every call of the tool passes unchanged. SQL and documents are read anew at each call."""
        return None if self.idle(tool) else GENERAL

    def _request(self, url: str, call: Call) -> Call | Refused:
        verdict = self.destination(url, call.tool.source)
        return call if isinstance(verdict, Allow) else refused(verdict)

    async def _schema(self, call: Call) -> Call | Refused:
        guard = self.documents.get(call.tool.source)
        return refused(_NO_INDEX) if guard is None else replace(call, graph=await guard.visible_graph(call))

    async def _document(self, call: Call, call_context: CallContext) -> Call | Refused:
        guard = self.documents.get(call.tool.source)
        notes: list[DecisionNote] = []
        turns = None if self.earlier is None else self.earlier.turn(call)
        if guard is None:
            answer: tuple[Call, Verdict] | Deny = _NO_INDEX
        elif isinstance(read := await guard.read(call), Deny) or turns is None:
            answer = guard.judge(call, read, notes)
        else:  # its root fields are calls that others count, and each was decided by the calls before it
            try:
                async with turns as turn:
                    while True:
                        answer = guard.judge(call, read, notes := [])
                        if await turn.commit():
                            break
            except StateError as error:
                _logger.error("a call was refused: %s", error)  # noqa: TRY400 - it says all there is
                return UNCOUNTED
        call_context.notes += tuple(notes)
        if isinstance(answer, Deny):
            call_context.rule = answer.rule
            return refused(answer)
        checked, verdict = answer
        match verdict:
            case Ask():
                call_context.consents = (
                    verdict.wanted if call_context.verdict != "ask" else (*call_context.consents, *verdict.wanted)
                )
                call_context.verdict, call_context.rule = "ask", verdict.rule
            case Deny():
                return refused(verdict)
            case Allow():
                pass
            case _:
                assert_never(verdict)
        return self._request(checked.tool.binding.destination or "", checked)

    async def _sql(self, call: Call, call_context: CallContext) -> Call | Refused:
        guard = self.guards.get(call.tool.source)
        if guard is None:
            return refused(
                Deny(rule="sql", code="sql_refused", reason=f"the policy opens no table of {call.tool.source}")
            )
        answer = await guard(call)
        match answer:
            case Statement():
                call_context.sql = answer.sql
                if answer.writes:
                    # For any rule: every change has to be approved by a person.
                    call_context.consents = call_context.consents if call_context.verdict == "ask" else (_WRITES,)
                    call_context.verdict, call_context.rule = "ask", _WRITES.rule
                return replace(call, statement=answer)
            case Database():
                return replace(call, database=answer)
            case DatabaseDescription(database=database, sampling=sampling, counting=counting):
                call_context.sql = sampling.statement.sql if sampling is not None else ""
                return replace(call, database=database, sampling=sampling, counting=counting)
            case Deny():
                return refused(answer)
            case _:
                assert_never(answer)


class CurrentStage(Struct, frozen=True, kw_only=True):
    """Refusal of a call that was decided under an older policy, if its part of the policy has changed since.

    The call may have waited at a limit while somebody edited the policy or revoked its caller's credential. When it is made again, it is
    decided again. `stands` returns True if a new decision would be the same. Most calls end under the policy they began under; for them it
    is one comparison.
    """

    stands: Callable[[Call], bool]

    def __call__(self, call: Call, call_context: CallContext) -> Judged:
        return call if self.stands(call) else stale(call_context)

    def prepared(self, _tool: Tool) -> Prepared:
        """Return a step that passes a call while a new decision would be the same."""
        return PreparedStage(self._standing)

    def _standing(self, call: Call, _call_context: CallContext) -> Literal[General.GENERAL] | None:
        return None if self.stands(call) else GENERAL
