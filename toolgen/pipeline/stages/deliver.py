"""End of the pipeline: the only place that calls an executor, and that compares an answer with the tool's output schema."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, cast

import jsonschema_rs
from msgspec import Struct, field
from msgspec.structs import replace

from toolgen.connectors.executor import ChecksFirst, Executor, FileSource
from toolgen.core.error_codes import ErrorCode
from toolgen.core.errors import SecretError, ToolgenError
from toolgen.model.account_need import AuthorizationRequiredError
from toolgen.model.call import Call
from toolgen.model.client_channel import ClientChannel
from toolgen.model.excerpt import current_masking
from toolgen.model.result import Error, Failed, Pending, Refused, Result, Success
from toolgen.model.tool import Effect, Tool
from toolgen.model.trace_context import Trace
from toolgen.pipeline.caller_requests import CallerRequests
from toolgen.pipeline.filtered_channel import EXTERNAL, INSPECTED, REDACTED, FilteredChannel
from toolgen.pipeline.middleware import CallContext, Next
from toolgen.pipeline.response_cache import Caching
from toolgen.pipeline.stages.broken_off import not_awaited
from toolgen.pipeline.text_files import named_texts, written_texts
from toolgen.policy.rules import DecisionNote

__all__ = [
    "BROKEN",
    "AccountQueue",
    "Deliver",
    "ExecutionSpan",
    "ExecutionSpans",
    "Preview",
    "Promises",
    "checked_first",
    "failure",
]

_WAITS = frozenset({"input_required", "approval_required", "authorization_required", "deferred"})
BROKEN = DecisionNote(rule="output_schema", verdict="", status="broken")
_CHOSEN = DecisionNote(rule="account", verdict="", status="chosen")
_MAX_LENGTH = 262_144


class Promises:
    """Output schemas of tools, each compiled at the first answer. Answers above a size limit are not validated."""

    def __init__(self) -> None:
        self._validators: dict[str, jsonschema_rs.Validator | None] = {}

    def kept(self, tool: Tool, result: Success) -> bool:
        """Return False for an answer that violates its output schema; True also if there is no schema."""
        if tool.output_schema is None or not tool.sends_request or result.truncated:
            return True
        size = result.delivery.bytes
        if isinstance(size, int) and size > _MAX_LENGTH:
            return True
        if tool.digest not in self._validators:
            self._validators[tool.digest] = _compiled(tool)
        validator = self._validators[tool.digest]
        return validator is None or validator.is_valid(result.data)


def _compiled(tool: Tool) -> jsonschema_rs.Validator | None:
    """Compile the output schema of a tool; None if it does not compile, so that answers are not validated."""
    try:
        return jsonschema_rs.validator_for(dict(tool.output_schema or {}), offline=True)
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError):
        return None


class AccountQueue(Protocol):
    """Queue of calls whose person has to link an account.

    A protocol, because the gateway implements it, which the pipeline must not import.
    """

    async def await_account(self, call: Call, needed: AuthorizationRequiredError) -> Error | None:
        """Store a call until the account is linked; return the error for its caller, or None if the call is not stored."""


class ExecutionSpan(Protocol):
    """Span of an execution. A protocol, because the gateway implements it, and the pipeline must not import it."""

    @property
    def trace(self) -> Trace: ...

    def executed(self, result: Success | Failed | Refused) -> None:
        """End the span with an outcome."""

    def end(self, error: str) -> None:
        """End the span of an execution without an outcome; `error` is its code."""


class ExecutionSpans(Protocol):
    """Receiver of the span of each execution. A protocol, because the gateway implements it, and the pipeline must not import it."""

    def of_execution(self, call: Call) -> ExecutionSpan | None:
        """Begin the span of an execution; None if it has none."""


class Deliver(Struct, frozen=True, kw_only=True):
    """Execution of the call by the executor of its source. A read ends if its caller disconnects; a write that has begun runs to its end. A
    call whose caller disconnected before is not started."""

    executors: Mapping[str, Executor]
    policy_digest: str = ""
    caching: Caching | None = None
    files: FileSource | None = None
    requests: CallerRequests | None = None
    accounts: AccountQueue | None = None
    spans: ExecutionSpans | None = None
    promises: Promises = field(default_factory=Promises)

    def __call__(self, call: Call, call_context: CallContext) -> Coroutine[Any, Any, Result]:
        if self.caching is None:
            return self._send(call, call_context)
        return self.caching(
            call, self.policy_digest, call_context.caller_connection, lambda: self._send(call, call_context)
        )

    def prepared(self, tool: Tool) -> Next:
        """Return the end of the pipeline for calls of a tool. A request over HTTP goes straight to its executor."""
        if not tool.sends_request or (self.caching is not None and not self.caching.idle(tool)):
            return self
        files, digest, ends_early = self.files, tool.digest, tool.effect is Effect.READ
        execute = self.executors[tool.source].execute

        def send(call: Call, call_context: CallContext) -> Coroutine[Any, Any, Result]:
            if call_context.redacts or (files is not None and digest not in files.without):
                return self._send(call, call_context)
            return self._execute(call, call_context, execute, ends_early=ends_early)

        return send

    async def _send(self, call: Call, call_context: CallContext) -> Result:
        caller_connection, asked = call_context.caller_connection, call
        if self.files is not None and call.tool.digest not in self.files.without:
            written = await written_texts(self.files, call)
            if isinstance(written, Failed):
                return written
            call = written
        # Ending a call that only reads changes nothing. A session that reads is rolled back in any case.
        ends_early = call.tool.effect is Effect.READ
        if call.tool.sends_request:
            if call_context.redacts:  # the answer may come in parts, and be a long file
                call = replace(
                    call,
                    line=call.line
                    if caller_connection.line is None
                    else FilteredChannel(caller_connection.line, EXTERNAL),
                    storable="none" if call_context.withholds else "binary",
                )
        elif call.tool.runs_function:
            call = _with_line(call, _line_of_function(caller_connection.line or caller_connection, call_context))
        elif call.tool.runs_on_device:  # the request is stored with the rule that allowed it
            return await self._ask_device(replace(call, rule=call_context.rule, line=None), call_context)
        elif call.tool.is_bridged:  # its executor tells the server of a disconnect, and ends only reads early
            line = caller_connection.line or caller_connection
            governed = None if self.requests is None else self.requests.channel(line, call, call_context)
            call = _with_line(call, governed or FilteredChannel(line, EXTERNAL))
            ends_early = True
        execute = self.executors[call.tool.source].execute
        return await self._execute(call, call_context, execute, ends_early=ends_early, asked=asked)

    async def _execute(
        self,
        call: Call,
        call_context: CallContext,
        execute: Callable[[Call], Coroutine[Any, Any, Success | Failed | Refused]],
        *,
        ends_early: bool,
        asked: Call | None = None,
    ) -> Result:
        """Run an executor for as long as its caller waits, or to the end if the call must not `end early`. `asked` is the call to keep, if
        that is another one."""
        result: Success | Failed | Refused | None = None
        ended, span = "internal", None
        caller_connection = call_context.caller_connection
        if call.principal.account:
            call_context.notes += (replace(_CHOSEN, arguments={"account": call.principal.account}),)
        task = caller_connection.enter_executor(ends_early=ends_early)
        if task is None:
            return not_awaited(call, cancel_requested=caller_connection.cancel_requested, begun=False)
        try:
            if self.spans is not None and (span := self.spans.of_execution(call)) is not None:
                result = await execute(replace(call, trace=span.trace))
            else:
                result = await execute(call)
        except asyncio.CancelledError:
            ended = "cancelled"
            if not caller_connection.is_cancelled(task):
                raise
            return not_awaited(call, cancel_requested=caller_connection.cancel_requested, begun=True)
        except AuthorizationRequiredError as error:
            ended = error.code
            return await self._awaits_account(asked or call, error, call_context)
        except ToolgenError as error:
            result = Failed(error=failure(error))
        finally:
            caller_connection.exit_executor(task)
            if span is not None:
                span.end(ended) if result is None else span.executed(result)
        if (
            isinstance(result, Success)
            and call.tool.output_schema is not None
            and not self.promises.kept(call.tool, result)
        ):
            call_context.notes += (BROKEN,)
        return _failed(result, call) if isinstance(result, Failed) else result

    async def _awaits_account(
        self, call: Call, needed: AuthorizationRequiredError, call_context: CallContext
    ) -> Result:
        """Store a call until its person has linked an account. A call that was cancelled, or that cannot be stored, is not made later."""
        error = None
        if self.accounts is not None and not call_context.caller_connection.cancel_requested:
            error = await self.accounts.await_account(call, needed)
        call_context.awaits_account = error is not None
        return Pending(error=error or failure(needed))

    async def _ask_device(self, call: Call, call_context: CallContext) -> Result:
        """Store a request to a device. The call ends here, and its caller may return for the answer."""
        if call_context.caller_connection.cancel_requested:
            return not_awaited(call, cancel_requested=True, begun=False)
        try:
            result = await self.executors[call.tool.source].execute(call)
        except ToolgenError as error:
            result = Failed(error=failure(error))
        return _failed(result, call) if isinstance(result, Failed) else result


class Preview(Struct, frozen=True, kw_only=True):
    """Preview of a call: returns the request that would be sent, and sends nothing."""

    executors: Mapping[str, Executor]

    async def __call__(self, call: Call, call_context: CallContext) -> Result:
        try:
            return Success(data=self.executors[call.tool.source].preview(named_texts(call)))
        except ToolgenError as error:
            return _located(Failed(error=failure(error)), call)


async def checked_first(executors: Mapping[str, Executor], call: Call) -> Error | None:
    """Return the error of a call that needs approval, if its request cannot be built or its executor would refuse it."""
    executor = executors.get(call.tool.source)
    if executor is None:
        return None
    try:
        if call.tool.binding.request_line:
            executor.preview(named_texts(call))
        return await executor.check(call) if isinstance(executor, ChecksFirst) else None
    except SecretError:
        return None  # the credential may be there when people have approved the call
    except ToolgenError as error:
        return failure(error)


def _with_line(call: Call, line: ClientChannel) -> Call:
    return call if call.line is line else replace(call, line=line)


def _line_of_function(given: ClientChannel, call_context: CallContext) -> ClientChannel:
    if call_context.inspected:
        return FilteredChannel(given, INSPECTED, current_masking())
    return FilteredChannel(given, REDACTED) if call_context.redacts else given


def _failed(failed: Failed, call: Call) -> Result:
    """Return the result of a failed call, which is `Pending` if the call only waits for a person or a device."""
    return Pending(error=failed.error) if failed.error.code in _WAITS else _located(failed, call)


def _located(result: Success | Failed | Refused, call: Call) -> Success | Failed | Refused:
    """Add the place in toolgen.yaml to the error of a missing credential, which is a fault of the project."""
    if isinstance(result, Failed) and result.error.code == SecretError.code:
        message = f"{result.error.message} (sources.{call.tool.source}.auth in toolgen.yaml)"
        return replace(result, error=replace(result.error, message=message))
    return result


def failure(error: ToolgenError) -> Error:
    """Return the error for a failure of an executor that a person can fix: a missing secret, a request that cannot be bound."""
    page = error.page if isinstance(error, AuthorizationRequiredError) else ""
    return Error(code=cast(ErrorCode, error.code), message=error.message, suggestion=error.suggestion, help_url=page)
