"""The stages between the record and delivery: each asks one guard and turns its verdict into a result."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import assert_never

import msgspec

from toolgen.errors import StateError
from toolgen.model.call import Call, Described, Statement
from toolgen.model.database import Database
from toolgen.model.result import Error, Failed, Refused, Result, Success
from toolgen.model.schema import Json
from toolgen.model.tool import (
    FunctionBinding,
    GraphQLBinding,
    GraphQLDocumentBinding,
    GraphQLSchemaBinding,
    HttpBinding,
    McpBinding,
    NoBinding,
    SqlBinding,
    Tool,
)
from toolgen.model.verdict import Allow, Ask, Deny, Verdict
from toolgen.pipeline.graphql_documents import DocumentGuard
from toolgen.pipeline.middleware import Next, Trail
from toolgen.pipeline.session_history import Earlier
from toolgen.policy.access import NOWHERE, UNKNOWN, Access, Circumstances
from toolgen.policy.answer_redaction import AnswerRedactor
from toolgen.policy.arguments import Validator
from toolgen.policy.rules import Note
from toolgen.state.history_redis import Turn

__all__ = ["AccessStage", "ArgumentsStage", "InspectStage", "RedactStage", "SqlGuard"]

SqlGuard = Callable[[Call], Awaitable[Statement | Database | Described | Deny]]
"""Checks a call to a SQL tool: the statement to run, the part of the database to describe, or a refusal."""
_NO_INDEX = Deny(
    rule="graphql",
    reason="the manifest holds no index of this schema",
    suggestion="run `toolgen build` to write it again",
)


UNCOUNTED = Refused(
    error=Error(
        code="upstream_unavailable",
        message="what was called before cannot be known now, so nothing was sent",
        suggestion="try again in a moment; if this goes on, tell whoever runs the gateway",
        retry_after_s=1.0,
    )
)
_QUOTED = "the tool failed, and what it says is withheld: the policy redacts fields of its answers"
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessStage:
    """Who may call what: the policy's verdict on principal, tool and arguments."""

    access: Access
    earlier: Earlier | None = None

    async def __call__(self, call: Call, trail: Trail, proceed: Next) -> Result:
        earlier = self.earlier
        if earlier is not None and (turn := earlier.turn(call)) is not None:
            return await self._in_turn(turn, call, trail, proceed, earlier)
        verdict = self._decided(call, trail)
        if isinstance(verdict, Deny):
            return _refused(verdict)
        if earlier is None:
            return await proceed(call, trail)
        earlier.begin(call, call.tool, call.arguments)
        return await self._made(call, trail, proceed, earlier)

    async def _in_turn(
        self, turns: AbstractAsyncContextManager[Turn], call: Call, trail: Trail, proceed: Next, earlier: Earlier
    ) -> Result:
        """The same where other processes count along: what is decided holds once its count is there, and nobody was quicker."""
        try:
            async with turns as turn:
                while True:
                    verdict = self._decided(call, trail)
                    if not isinstance(verdict, Deny):
                        earlier.begin(call, call.tool, call.arguments)
                    if await turn.commit():
                        break
        except StateError as error:
            earlier.end(call, UNCOUNTED)
            _logger.error("a call was refused: %s", error)  # noqa: TRY400 - it says all there is
            return UNCOUNTED
        return _refused(verdict) if isinstance(verdict, Deny) else await self._made(call, trail, proceed, earlier)

    def _decided(self, call: Call, trail: Trail) -> Verdict:
        """The verdict, with what the record should know of it."""
        circumstances = NOWHERE if self.earlier is None else self.earlier.circumstances(call)
        judgement = self.access.judge(call.principal, call.tool, call.arguments, circumstances)
        trail.labels = _labels(circumstances)
        trail.notes = judgement.notes
        verdict = judgement.verdict if call.denied is None or judgement.verdict is UNKNOWN else call.denied
        trail.rule = verdict.rule
        match verdict:
            case Allow():
                trail.verdict = "allow"
            case Ask():
                trail.verdict = "ask"
            case Deny():
                trail.verdict = "deny"
            case _:
                assert_never(verdict)
        return verdict

    @staticmethod
    async def _made(call: Call, trail: Trail, proceed: Next, earlier: Earlier) -> Result:
        """The rest of the road, with the call counted among the earlier ones."""
        result: Result | None = None
        try:
            result = await proceed(call, trail)
        finally:
            earlier.end(call, result)
        return result


def _labels(circumstances: Circumstances) -> list[Json]:
    """The labels of the session, for the record; none where they were forgotten."""
    try:
        return [] if circumstances.session is None else [*circumstances.session.labels()]
    except LookupError:
        return []


@dataclass(slots=True, kw_only=True)
class ArgumentsStage:
    """Type, bounds and constraints: the arguments must conform to the tool's own schema, compiled at its first call."""

    _validators: dict[str, Validator] = field(default_factory=dict)

    async def __call__(self, call: Call, _trail: Trail) -> Call | Result:
        validator = self._validators.get(call.tool.digest)
        if validator is None:
            validator = self._validators[call.tool.digest] = Validator(
                call.tool.input_schema, formats=call.tool.checks_formats
            )
        if validator.accepts(call.arguments):
            return call
        faults = validator.faults(call.arguments)
        return Refused(
            error=Error(
                code="validation",
                message="; ".join(faults),
                suggestion="correct the arguments and call again; the tool's input schema says what it takes",
                rule="arguments",
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectStage:
    """What the call would do elsewhere: SQL is parsed and rebuilt, a request's destination is held against the egress rules.

    `guards` has a SQL guard for each database the policy gives a scope; `destination` judges where a request of a source would go,
    before its name is resolved. The dial asks again with the address.
    """

    guards: Mapping[str, SqlGuard]
    destination: Callable[[str, str], Verdict]
    documents: Mapping[str, DocumentGuard] = field(default_factory=dict)
    earlier: Earlier | None = None

    async def __call__(self, call: Call, trail: Trail) -> Call | Result:
        binding = call.tool.binding
        match binding:
            case SqlBinding():
                return await self._sql(call, trail)
            case HttpBinding(servers=servers):
                return self._request(servers[0] if servers else "", call)
            case GraphQLBinding(endpoint=endpoint, subscription=subscription):
                # A WebSocket begins as a request of HTTP, to the same port (RFC 6455, section 1.3).
                url = endpoint if subscription is None else re.sub("^ws", "http", subscription.url)
                return self._request(url, call)
            case GraphQLDocumentBinding(endpoint=endpoint):
                return await self._document(endpoint, call, trail)
            case GraphQLSchemaBinding():
                guard = self.documents.get(call.tool.source)
                return _refused(_NO_INDEX) if guard is None else replace(call, graph=guard.part(call))
            case FunctionBinding():
                return call  # the project's own code: what it does elsewhere is its own affair
            case McpBinding(url=url):  # a command is the operator's own program, as a function is
                return self._request(url, call) if url else call
            case NoBinding():
                return _refused(Deny(rule="default", code="unknown_tool", reason="there is no such tool"))
            case _:
                assert_never(binding)

    def _request(self, url: str, call: Call) -> Call | Refused:
        verdict = self.destination(url, call.tool.source)
        return call if isinstance(verdict, Allow) else _refused(verdict)

    async def _document(self, endpoint: str, call: Call, trail: Trail) -> Call | Refused:
        guard = self.documents.get(call.tool.source)
        notes: list[Note] = []
        turns = None if self.earlier is None else self.earlier.turn(call)
        if guard is None:
            answer: tuple[Call, Verdict] | Deny = _NO_INDEX
        elif turns is None:
            answer = guard.check(call, notes)
        else:  # its root fields are calls that others must see, and each was decided by what others left
            try:
                async with turns as turn:
                    while True:
                        answer = guard.check(call, notes := [])
                        if await turn.commit():
                            break
            except StateError as error:
                _logger.error("a call was refused: %s", error)  # noqa: TRY400 - it says all there is
                return UNCOUNTED
        trail.notes += tuple(notes)
        if isinstance(answer, Deny):
            trail.rule = answer.rule
            return _refused(answer)
        checked, verdict = answer
        match verdict:
            case Ask(rule=rule):
                trail.verdict, trail.rule = "ask", rule
            case Deny():
                return _refused(verdict)
            case Allow():
                pass
            case _:
                assert_never(verdict)
        return self._request(endpoint, checked)

    async def _sql(self, call: Call, trail: Trail) -> Call | Refused:
        guard = self.guards.get(call.tool.source)
        if guard is None:
            return _refused(
                Deny(
                    rule="sql", code="sql_refused", reason=f"the policy opens no table of {call.tool.source} to anybody"
                )
            )
        answer = await guard(call)
        match answer:
            case Statement():
                trail.sql = answer.sql
                if answer.writes:
                    trail.verdict, trail.rule = (
                        "ask",
                        "sql:writes",
                    )  # whatever a rule says: a person agrees to every change
                return replace(call, statement=answer)
            case Database():
                return replace(call, database=answer)
            case Described(database=database, sampling=sampling):
                trail.sql = sampling.statement.sql
                return replace(call, database=database, sampling=sampling)
            case Deny():
                return _refused(answer)
            case _:
                assert_never(answer)


@dataclass(slots=True, kw_only=True)
class RedactStage:
    """What the policy hides is taken out of the answer on its way back. `redactor` makes the redaction of one tool, or None."""

    redactor: Callable[[Tool], AnswerRedactor | None]
    _redactors: dict[str, AnswerRedactor | None] = field(default_factory=dict)

    async def __call__(self, call: Call, trail: Trail, proceed: Next) -> Result:
        trail.redacts = self._of(call.tool) is not None
        result = await proceed(call, trail)
        return self.applied(call, result) if trail.redacts or call.document is not None else result

    def applied(self, call: Call, result: Result) -> Result:
        """The result without what is hidden."""
        # What a document reads is hidden as it would be in the answers of the tools that it stands for.
        for tool in (call.tool, *(call.document.tools if call.document is not None else ())):
            result = self._redacted(tool, result)
        return result

    def _redacted(self, tool: Tool, result: Result) -> Result:
        redact = self._of(tool)
        if redact is None:
            return result
        match result:
            case Success(data=data, shape=shape):
                return replace(result, data=redact(data, shape))
            case Failed(error=error, data=data, shape=shape, quotes=quotes):
                return replace(result, error=_without_quote(error, quotes=quotes), data=redact(data, shape))
            case _:
                return result

    def _of(self, tool: Tool) -> AnswerRedactor | None:
        if tool.digest not in self._redactors:
            self._redactors[tool.digest] = self.redactor(tool)
        return self._redactors[tool.digest]


def _without_quote(error: Error, *, quotes: bool) -> Error:
    """An executor's message without what the other system said: that stands behind its first colon, and in the data, redacted."""
    if quotes:
        return msgspec.structs.replace(error, message=_QUOTED, suggestion="")
    ours, colon, _ = error.message.partition(":")
    return msgspec.structs.replace(error, message=ours) if colon else error


def _refused(verdict: Verdict) -> Refused:
    """A verdict that is no Allow, as the result the caller gets."""
    if isinstance(verdict, Deny):
        return Refused(
            error=Error(
                code=verdict.code,
                message=verdict.reason,
                suggestion=verdict.suggestion,
                retry_after_s=verdict.retry_after_s,
                rule=verdict.rule,
            )
        )
    return Refused(
        error=Error(code="forbidden", message="the gateway's rules do not allow this call", rule=verdict.rule)
    )
