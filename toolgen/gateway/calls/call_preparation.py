"""Preparation of a call: from a tool's name and arguments, as an agent or another call gives them, to a call for the pipeline."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from toolgen.core.clock import Clock
from toolgen.core.errors import ConfigError, StateError
from toolgen.gateway.calls.answer_files import AnswerFiles
from toolgen.gateway.calls.file_links import READ_FILE
from toolgen.gateway.calls.file_reading import CallerFiles
from toolgen.gateway.calls.file_uploads import FileArguments
from toolgen.gateway.calls.inner_call import InnerCall
from toolgen.gateway.calls.json_body import ended, invalid, unmade, with_dropped
from toolgen.gateway.calls.nesting import inside, nesting_error
from toolgen.gateway.calls.value_tokens import NONE
from toolgen.gateway.catalog.search_tools import CALLING, INPUTS, canonical
from toolgen.gateway.catalog.tool_discovery import NOTHING_CLOSED, Closed, Discovery
from toolgen.gateway.operations.call_results import CallResults
from toolgen.gateway.policies.compiled_policy import CompiledPolicy
from toolgen.model.call import Call, Principal
from toolgen.model.names import META_TOOLS
from toolgen.model.result import Envelope, Error
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Tool
from toolgen.model.waiting import GET_CALL_RESULT
from toolgen.pipeline.input_validation import no_json, no_text
from toolgen.pipeline.middleware import CallContext, CallerConnection
from toolgen.pipeline.responses.answer_argument import WHOLE, AnswerOptions

__all__ = ["GONE", "CallOptions", "CallPreparation", "PreparedCall"]

GONE = Error(
    code="forbidden",
    message="the policy has changed since this caller was authenticated, and does not include it any more",
    suggestion="authenticate again",
    rule="default",
)
_UNSIGNED = Error(
    code="upstream_unavailable",
    message="the key that signs tokens cannot be read now, so nothing was sent",
    suggestion="if this goes on, tell the operator of the gateway",
    retry_after_s=1.0,
    rule="tokens",
)
_OWN_TOOLS = frozenset({READ_FILE, GET_CALL_RESULT})


class CallOptions(Struct, frozen=True, kw_only=True):
    """Options of a call: the tool, its arguments, and where the call comes from.

    `purpose`: a `call` of a caller, an `inner` call that `outer` makes, the `fallback` for `outer`, which failed, or the `preview` of a
    call. The arguments of a fallback are the gateway's own: no answer option, token or search tool is looked for in them.
    """

    name: str
    arguments: JsonObject
    principal: Principal | str
    session: str = ""
    client: str = ""
    parent: str = ""
    idempotency_key: str = ""
    caller_connection: CallerConnection | None = None
    outer: Call | None = None
    purpose: Literal["call", "inner", "fallback", "preview"] = "call"


class PreparedCall(Struct, frozen=True):
    """Call for the pipeline, and the requested part of its answer."""

    call: Call
    reading: AnswerOptions


class _CalledTool(Struct, frozen=True):
    """Tool that is called, and its arguments: those within a `run_tool`."""

    name: str
    arguments: JsonObject


class CallPreparation:
    """Preparation of the calls of a gateway. Searching and describing tools only reads the catalog, like listing it: such requests are
    answered here, are not calls, and are not recorded."""

    def __init__(
        self,
        *,
        discovery: Discovery,
        results: CallResults,
        files: CallerFiles,
        answer_files: AnswerFiles,
        file_arguments: FileArguments,
        clock: Clock,
    ) -> None:
        self._discovery, self._results, self._clock = discovery, results, clock
        self._files, self._answer_files, self._file_arguments = files, answer_files, file_arguments

    def takes_no_files(self, tool: Tool) -> bool:
        """Return True if a tool is known to take no files."""
        return tool.digest in self._file_arguments.without

    async def prepare(  # noqa: PLR0912 - one function, because every call runs it
        self, compiled_policy: CompiledPolicy, options: CallOptions
    ) -> PreparedCall | Envelope:
        """Return the call that is made with these options, or the answer if none is made."""
        name, arguments, reading, restored = options.name, options.arguments, WHOLE, NONE
        who, outer = options.principal, options.outer
        if options.purpose != "fallback":
            caller = compiled_policy.by_now(who)
            if caller is None:
                return unmade(name, GONE)
            given: object = arguments
            if not isinstance(given, (dict, Mapping)):  # dict first: the check is faster than that for Mapping
                return unmade(name, invalid("the arguments must be an object"))
            if fault := no_json(arguments):
                return unmade(name, invalid(fault))
            if not (type(name) is str and name.isascii()) and (fault := no_text(name)):
                return unmade(name, invalid(f"the name of the tool {fault}"))
            try:
                who = compiled_policy.identity.named(caller) if isinstance(caller, str) else caller
            except ConfigError as error:
                return unmade(name, Error(code="forbidden", message=error.message, rule="default"))
            if name in META_TOOLS:
                request = await self._meta_tool(compiled_policy, name, arguments, who, options.session)
                if isinstance(request, Envelope):
                    return request
                name, arguments = request.name, request.arguments
                if name in _OWN_TOOLS and options.purpose != "preview" and compiled_policy.tool(name) is None:
                    return await self._own_tool(compiled_policy, request, who, options)
            answer_options, arguments = compiled_policy.reading(name, arguments, who)
            if isinstance(answer_options, Error):
                return unmade(name, answer_options)
            if answer_options.cursor and outer is not None:
                return unmade(name, invalid("an inner call gets its whole answer: leave the cursor out"))
            reading = answer_options
            if compiled_policy.tokenises and options.purpose != "preview":
                try:
                    signed = outer is not None
                    restored = await compiled_policy.restored(name, arguments, who, options.session, signed=signed)
                except StateError:
                    return unmade(name, _UNSIGNED)
                arguments = restored.arguments
        assert isinstance(who, Principal)  # noqa: S101 - a fallback is for the principal of a call
        connection = options.caller_connection
        # The connection is set here, before the call is used: setting it later would copy the call.
        call = compiled_policy.call(
            name,
            arguments,
            who,
            options.session,
            options.client,
            options.parent,
            options.idempotency_key,
            caller_connection=connection,
        )
        if outer is not None and options.purpose == "inner":
            call = replace(call, restored=outer.restored)
        if restored is not NONE:
            call = restored.of(call)
        if call.tool.digest not in self._file_arguments.without and options.purpose != "fallback":
            local = options.purpose == "preview" or (connection is not None and connection.local)
            roots = None if connection is None else connection.roots
            call = await self._file_arguments.described(call, local=local, roots=roots)
        if outer is not None:
            call = inside(call, outer)
            if (refusal := nesting_error(call, compiled_policy.tool)) is not None:
                return unmade(name, refusal)
        return PreparedCall(call, reading)

    async def _meta_tool(
        self, compiled_policy: CompiledPolicy, name: str, arguments: JsonObject, who: Principal, session: str
    ) -> _CalledTool | Envelope:
        """Return the tool to call for one of the gateway's own names, the one inside a `run_tool`; or the answer of a search."""
        started = self._clock.monotonic()
        meta = canonical(name)
        if meta not in INPUTS or not self._discovery.answers(meta, catalog := compiled_policy.catalog(who, session)):
            return _CalledTool(name, arguments)
        if meta in CALLING:
            inner = self._discovery.inner(meta, arguments, catalog)
            if isinstance(inner, InnerCall):
                return _CalledTool(inner.name, inner.arguments)
            return unmade(meta, inner.error)
        tools = compiled_policy.closed_tools(who)
        closed = Closed(tools, lambda tool: compiled_policy.closed(who, tool)) if tools else NOTHING_CLOSED
        result = await self._discovery.answer(meta, arguments, who, catalog, closed)
        call_id = f"call_{secrets.token_hex(12)}"
        envelope = ended(meta, call_id, result, CallContext(), (self._clock.monotonic() - started) * 1000)
        schema = INPUTS[meta]
        return with_dropped(envelope, schema, [one for one in arguments if one not in schema["properties"]])

    async def _own_tool(
        self, compiled_policy: CompiledPolicy, request: _CalledTool, who: Principal, options: CallOptions
    ) -> Envelope:
        """Answer a call of the gateway's own tools: `read_file`, or `get_call_result`, which is not a call itself and is not recorded."""
        connection = options.caller_connection
        if request.name == GET_CALL_RESULT:
            found = await self._results.answer(request.arguments, who, connection)
            return await self._answer_files.with_media(compiled_policy, who, found)
        return await self._files.call(compiled_policy, request.arguments, who, options.session, connection)
