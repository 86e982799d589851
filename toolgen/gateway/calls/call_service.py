"""Callers under the policy in force, and their calls: through the pipeline, to the envelope of the answer."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from enum import Enum
from typing import Any

from msgspec.structs import replace

from toolgen.core.clock import Clock
from toolgen.core.errors import ConfigError
from toolgen.gateway.approvals.decisions import Approvals
from toolgen.gateway.calls.call_preparation import CallOptions, CallPreparation
from toolgen.gateway.calls.file_reading import CallerFiles
from toolgen.gateway.calls.inner_call import InnerCall
from toolgen.gateway.calls.json_body import enveloped, invalid, unmade
from toolgen.gateway.calls.response_shaping import ResponseShaper
from toolgen.gateway.calls.tool_plan import ToolPlan
from toolgen.gateway.catalog.search_tools import CALLING, RUN, canonical
from toolgen.gateway.catalog.tool_discovery import Discovery
from toolgen.gateway.identity import NO_CLAIMS, Claims, TokenRejected
from toolgen.gateway.identity.issued_tokens import IssuedToken
from toolgen.gateway.identity.jwt import RefusedTokenError, SignedToken
from toolgen.gateway.operations.call_results import CallResults
from toolgen.gateway.operations.device_calls import DeviceCalls, owner_of
from toolgen.gateway.policies.compiled_policy import CompiledPolicy, CurrentPolicy
from toolgen.model.call import Call, Principal, parties
from toolgen.model.excerpt import masking
from toolgen.model.media import SHOWN
from toolgen.model.result import Envelope, Error, Failed, Pending, Refused, Result, Shape, Success
from toolgen.model.schema import JsonObject
from toolgen.model.secret import Secret
from toolgen.model.tool import Effect, Tool
from toolgen.pipeline.input_validation import no_ids
from toolgen.pipeline.middleware import CallContext, CallerConnection, InFlightCalls
from toolgen.pipeline.responses.answer_argument import WHOLE, AnswerOptions
from toolgen.pipeline.responses.pagination import Pagings
from toolgen.pipeline.stages.results import told
from toolgen.policy.credentials import ClaimsError, TokenRule
from toolgen.policy.detectors.restored_values import CallMasking
from toolgen.state.encryption import Seal
from toolgen.state.turn_counter import TurnCounter

__all__ = ["REVIEWER", "UNNAMED", "Callers", "Calls", "Unnamed"]


class Unnamed(Enum):
    """Marker for a call without a principal. An empty name is different: it may be a mistake, and is refused."""

    UNNAMED = "the policy's only principal"


UNNAMED = Unnamed.UNNAMED

REVIEWER = "reviewer"
"""Role whose principals may read the audit log over REST."""


class Callers:
    """Lookup of callers. `current` is the policy in force, `note` records events of the gateway itself. With `exchanges`, tokens of callers
    are exchanged for upstream tokens, and are kept for the length of a call."""

    def __init__(
        self,
        current: CurrentPolicy,
        note: Callable[[Mapping[str, Any]], Awaitable[None]],
        *,
        exchanges: bool,
    ) -> None:
        self._current = current
        self._note = note
        self._exchanges = exchanges

    @property
    def has_credentials(self) -> bool:
        """Return True if any principal could authenticate."""
        return self._current.compiled_policy.identity.has_credentials

    @property
    def exchange_tokens(self) -> bool:
        """Return True if tokens of callers are exchanged for upstream tokens, by some source or the policy in force."""
        return self._exchanges or any(one.exchanges for one in self._current.compiled_policy.policy.assignments)

    @property
    def issuers(self) -> tuple[str, ...]:
        """Return the names of the issuers whose users the policy knows."""
        return tuple(self._current.compiled_policy.policy.credentials.issuers)

    @property
    def providers(self) -> tuple[TokenRule, ...]:
        """Return the token rules of each identity provider whose users are principals."""
        return self._current.compiled_policy.identity.issuers

    @property
    def principals(self) -> tuple[str, ...]:
        """Return the ids of the policy's principals."""
        return self._current.compiled_policy.identity.names

    def who(self, principal: Principal | str | Unnamed) -> Principal | str:
        """Return the caller: the policy's only principal if none was named. Raises `ConfigError` if there is more than one, or none."""
        if not isinstance(principal, Unnamed):
            return principal
        names = self.principals
        if len(names) == 1:
            return names[0]
        raise ConfigError(f"name the caller with principal=; the policy's principals are: {', '.join(names) or 'none'}")

    def recognised(self, credential: str) -> Principal | None:
        """Return the principal of a bearer credential that was accepted before and still is; None for any other."""
        principal = self._current.compiled_policy.identity.recognised(credential)
        if principal is None or principal.proof is None or not principal.proof.issuer:
            return principal
        return self._bearing(principal, credential)

    async def authenticate(self, credential: str) -> Principal | TokenRejected:
        """Return the principal of a bearer credential, or the reason for a refusal."""
        answer = await self._current.compiled_policy.identity.authenticate(credential)
        return answer if isinstance(answer, TokenRejected) else self._bearing(answer, credential)

    async def signed_in(self, token: str) -> Principal | TokenRejected:
        """Return the person that an id token of the console's client signs in to the console, or the reason for a refusal."""
        return await self._current.compiled_policy.identity.signed_in(token)

    def person_of(self, issued: IssuedToken) -> Principal | TokenRejected:
        """Return the person of a token that the gateway issued itself, or the reason for a refusal."""
        try:
            return self._current.compiled_policy.identity.person_of(issued)
        except RefusedTokenError as error:
            return error.unaccepted
        except ClaimsError as error:
            return TokenRejected(str(error))

    async def check_signature(self, token: SignedToken) -> None:
        """Verify that the issuer of a token signed it. Raises `RefusedTokenError`. Nothing else is checked."""
        await self._current.compiled_policy.identity.check_signature(token)

    def certified(self, value: str) -> Principal | TokenRejected:
        """Return the principal of a client certificate, from the header of a proxy that is trusted to have verified it."""
        return self._current.compiled_policy.identity.certified(value)

    def named(
        self, name: str, on_behalf_of: str | None = None, *, claims: Claims = NO_CLAIMS, user_claims: Claims = NO_CLAIMS
    ) -> Principal:
        """Return a principal by its id, for code that runs the gateway. Raises `ConfigError` if there is none."""
        return self._current.compiled_policy.identity.named(name, on_behalf_of, claims=claims, user_claims=user_claims)

    def current(self, principal: Principal) -> Principal | None:
        """Return the principal as defined by the policy in force, or None if it is gone. For code that keeps a principal for long."""
        compiled_policy = self._current.compiled_policy
        return principal if principal.under is compiled_policy.identity.mark else compiled_policy.current(principal)

    def acting_for(self, principal: Principal, user: Principal | str) -> Principal | None:
        """Return the principal acting for a user, who is named or proved by a token; None if the policy does not permit it."""
        return self._current.compiled_policy.identity.acting_for(principal, user)

    def narrowed(self, principal: Principal, toolset: str) -> Principal | None:
        """Return the principal narrowed to a toolset, or None if the policy has no such toolset."""
        if toolset not in self._current.compiled_policy.policy.toolsets:
            return None
        return replace(principal, toolsets=principal.toolsets | {toolset})

    def may_review(self, principal: Principal) -> bool:
        """Return True if this principal may read the audit log."""
        return principal.on_behalf_of is None and REVIEWER in principal.roles

    async def note_refusal(self, code: str, client: str) -> None:
        """Record a request that was refused before its sender was identified. `client` is an address."""
        await self._note({"event": "refusal", "status": "refused", "code": code, "client": client})

    async def note_session(self, code: str, principal: str, client: str) -> None:
        """Record a sign-in to the console, or a sign-out, from an address."""
        status = "refused" if code.endswith("_refused") else "ok"
        await self._note({"event": "session", "status": status, "code": code, "principal": principal, "client": client})

    async def note_verification(self, faults: int) -> None:
        """Record that a verification of the audit log found faults, so that destinations of the log hear of it."""
        said = {"faults": faults}
        await self._note({"event": "verification", "status": "error", "code": "record_broken", "arguments": said})

    def _bearing(self, principal: Principal, credential: str) -> Principal:
        """Return the caller with its token, if some source exchanges it; keys and tokens of the gateway itself are neither exchanged
        nor kept: their person comes with the id token of the sign-in."""
        if principal.proof is None or not principal.proof.issuer or principal.proof.client:
            return principal
        return replace(principal, token=Secret(credential)) if self.exchange_tokens else principal


class Calls:
    """Tools of callers and calls to them: search before the pipeline; after it the shown part of an answer, and the fallback."""

    def __init__(  # noqa: PLR0913 - all that a call passes
        self,
        *,
        running: InFlightCalls,
        answering: ResponseShaper,
        discovery: Discovery,
        approvals: Approvals,
        devices: DeviceCalls,
        clock: Clock,
        current: CurrentPolicy,
        turns: TurnCounter | None,
        make_seal: Callable[[], Seal],
        files: CallerFiles,
        preparation: CallPreparation,
        results: CallResults,
        accounts: Collection[str],
    ) -> None:
        self.files, self._preparation, self._results = files, preparation, results
        self._with_accounts = accounts
        self._running, self._answering, self._discovery = running, answering, discovery
        self._turns, self._make_seal = turns, make_seal
        self.approvals, self.devices = approvals, devices
        self._clock, self._current = clock, current
        self._seal: Seal | None = None
        self._pending_after_s = approvals.background.pending_after_s

    @property
    def seal(self) -> Seal:
        """Seal for state that clients store and send back; equal in every worker. Raises `StateError`."""
        if self._seal is None:
            self._seal = self._make_seal()
        return self._seal

    @property
    def elicits(self) -> bool:
        """Return True if a person at a caller's own client may approve its calls."""
        return self._current.compiled_policy.policy.approval.elicits

    def changed(self) -> Coroutine[Any, Any, object]:
        """Return a wait until the lists of principals may have changed, counted from this call."""
        return self._current.changed()

    def catalog(self, principal: Principal, session: str | None = None) -> tuple[Tool, ...]:
        """Return the tools that a principal may call, in name order, with the schemas it is given; with a session, those that a middleware
        shows in this step. The object is the same until the catalog changes."""
        return self._current.compiled_policy.catalog(principal, session)

    def offered(self, principal: Principal, session: str | None = None) -> tuple[Tool, ...]:
        """Return the tools listed to a principal: its catalog, or the search tools in place of a long one. The object is the same until the
        catalog changes."""
        catalog = self.catalog(principal, session)
        offered = self._discovery.offered(catalog)
        return self._results.listed(offered, lambda: self._may_wait(principal, catalog))

    def _may_wait(self, principal: Principal, catalog: Sequence[Tool]) -> bool:
        """Return True if a call of one of these tools may be answered as pending."""
        compiled_policy = self._current.compiled_policy
        left = self._pending_after_s is not None
        return (
            left
            or any(tool.source in self._with_accounts for tool in catalog)
            or any(compiled_policy.pending_after(principal, tool.name) is not None for tool in catalog)
            or compiled_policy.may_wait(principal, catalog)
        )

    def plan(self, principal: Principal, name: str) -> ToolPlan | None:
        """Return the plan under the policy in force for a principal's calls of a tool, or None.

        The object is the same until the policy or the catalog changes.
        """
        return self._current.compiled_policy.tool_plans.of(principal, name)

    def pending_after(
        self, principal: Principal, name: str, arguments: JsonObject, session: str | None = None
    ) -> float | None:
        """Return the seconds after which a call that its caller awaits is answered as pending.

        The rules about the tool decide (about the inner tool for a `run_tool`), or the gateway's setting. Infinity: the call may change
        something, so it is kept if its caller disconnects. None: the caller waits for the answer.
        """
        compiled_policy, after = self._current.compiled_policy, self._pending_after_s
        tool = compiled_policy.tools.get(name)
        if compiled_policy.access.bounds_waiting and isinstance(caller := compiled_policy.by_now(principal), Principal):
            inner = name if tool is not None else self._inner_name(compiled_policy, caller, name, arguments, session)
            after = after if (own := compiled_policy.pending_after(caller, inner)) is None else own
        if after is not None:
            return after
        changes = canonical(name) == RUN if tool is None else tool.effect is not Effect.READ
        return math.inf if changes else None

    def _inner_name(
        self, compiled_policy: CompiledPolicy, caller: Principal, name: str, arguments: JsonObject, session: str | None
    ) -> str:
        """Return the name of the tool within a `run_tool` or `run_read_tool`; any other name unchanged."""
        if (meta := canonical(name)) not in CALLING or not isinstance(arguments, Mapping):
            return name
        catalog = compiled_policy.catalog(caller, session)
        inner = self._discovery.inner(meta, arguments, catalog) if self._discovery.answers(meta, catalog) else None
        return inner.name if isinstance(inner, InnerCall) else name

    async def search(
        self, principal: Principal, query: str, limit: int, session: str | None = None
    ) -> tuple[Tool, ...] | Error:
        """Return the tools of this principal that match a query in words, best first; an error for a caller that searches too often."""
        return await self._discovery.find(principal, self.catalog(principal, session), query, limit)

    async def call(  # noqa: PLR0913 - a call has its fields
        self,
        name: str,
        arguments: JsonObject,
        *,
        principal: Principal | str,
        session: str = "",
        connection: str = "",
        client: str = "",
        parent: str = "",
        idempotency_key: str = "",
        caller_connection: CallerConnection | None = None,
    ) -> Envelope:
        """Run a call through all pipeline stages. Never raises.

        If the awaiting task is cancelled or the client disconnects (`caller_connection`), a write runs to its end. A read is ended, at the
        service or database too, and recorded as `cancelled`.

        `session` is the conversation that the caller named, whose turns are counted. Without one, rules about earlier calls use the
        transport's own `connection`, which can last as long as the agent.
        """
        compiled_policy = (
            self._current.compiled_policy
        )  # the same policy to the end, even if another comes into force meanwhile
        if (
            isinstance(principal, Principal)
            and type(name) is str
            and (plan := compiled_policy.tool_plans.of(principal, name)) is not None
            and type(session) is type(connection) is type(client) is str
            and f"{session}{connection}{client}".isascii()
            and not (parent or idempotency_key or (session and self._turns is not None))
            and plan.ordinary.includes(arguments)
            and self._preparation.takes_no_files(plan.tool)
        ):
            caller_connection = caller_connection or CallerConnection()
            made = plan.call(arguments, principal, session or connection, client, caller_connection)
            if made is not None:
                call_context = CallContext(caller_connection=caller_connection)
                return await self._carried(compiled_policy, made, call_context, WHOLE, last=False, mask=None)
        if fault := no_ids(
            session=session, connection=connection, client=client, parent=parent, idempotency_key=idempotency_key
        ):
            return unmade(name, invalid(fault))
        caller_connection = caller_connection or CallerConnection()
        options = CallOptions(
            name=name,
            arguments=arguments,
            principal=principal,
            session=session or connection,
            client=client,
            parent=parent,
            idempotency_key=idempotency_key,
            caller_connection=caller_connection,
        )
        prepared = await self._preparation.prepare(compiled_policy, options)
        if isinstance(prepared, Envelope):
            return prepared
        call, reading = prepared.call, prepared.reading
        if reading.cursor:
            return await self._answering.read_on(compiled_policy, call, reading.cursor)
        del arguments, options, prepared  # `call` has their values, and these are not needed any more
        call_context = CallContext(caller_connection=caller_connection)
        turns = self._turns
        if turns is None or not session:
            return await self.carry_out(compiled_policy, call, call_context, reading)
        # Nothing has waited so far, so that concurrent calls find each other in flight.
        async with turns.join(parties(call.principal), session) as call_context.turn_lease:
            return await self.carry_out(compiled_policy, call, call_context, reading)

    async def preview(self, name: str, arguments: JsonObject, *, principal: Principal | str) -> Envelope:
        """Return the request that the call would send, with secrets masked, after all guards. Sends, counts and records nothing."""
        compiled_policy = self._current.compiled_policy
        options = CallOptions(name=name, arguments=arguments, principal=principal, purpose="preview")
        prepared = await self._preparation.prepare(compiled_policy, options)
        if isinstance(prepared, Envelope):
            return prepared
        started, call = self._clock.monotonic(), prepared.call
        result = await self._guided(compiled_policy, call, await compiled_policy.would_send(call, CallContext()))
        return enveloped(call, result, CallContext(), (self._clock.monotonic() - started) * 1000)

    def carry_out(
        self,
        compiled_policy: CompiledPolicy,
        call: Call,
        call_context: CallContext | None = None,
        reading: AnswerOptions = WHOLE,
        *,
        last: bool = False,
    ) -> Coroutine[Any, Any, Envelope]:
        """Execute a call, and its fallback if it fails; with `last` there is no fallback."""
        mask = compiled_policy.masking(call)
        carried = self._carried(compiled_policy, call, call_context or CallContext(), reading, last=last, mask=mask)
        return carried if mask is None else _within(mask, carried)

    async def _carried(
        self,
        compiled_policy: CompiledPolicy,
        call: Call,
        call_context: CallContext,
        reading: AnswerOptions,
        *,
        last: bool,
        mask: CallMasking | None,
    ) -> Envelope:
        started = self._clock.monotonic()
        running = self._running
        if (task := running.begin(call, call_context)) is None:
            result = await running.run(compiled_policy.run, call, call_context)
        else:
            try:
                result = await compiled_policy.run(call, call_context)
            finally:
                running.end(task)
        if call.restored and mask is not None:
            result = told(result, mask)
        call_context.http_status = result.delivery.status if isinstance(result, Success | Failed) else None
        if isinstance(result, Success) and _is_shaped(call, result, reading, compiled_policy.pagings):
            result = await self._answering.presented(
                compiled_policy, call, result, reading, call_context.caller_connection
            )
        if isinstance(result, Success | Failed) and result.delivery.files:
            if result.shape is Shape.CONTENT:
                result = await self._answering.with_links(compiled_policy, call, result)
            result = await self._answering.files.referenced(compiled_policy, call, result)
        if isinstance(result, Refused):
            result = await self._guided(compiled_policy, call, result)
        elif isinstance(result, Pending):  # the request to the device is recorded, so it may be sent
            self.devices.announce(owner_of(call.principal))
        envelope = enveloped(call, result, call_context, (self._clock.monotonic() - started) * 1000)
        if envelope.call_id != call.id:
            return await self.approvals.calls.repeated(envelope, call.principal, equal=not call.idempotency_key)
        if (
            last
            or call.restored
            or isinstance(result, Success)
            or (other := compiled_policy.fallbacks.instead(call, result)) is None
            or call_context.caller_connection.disconnected()
        ):
            return envelope
        name, arguments = other
        options = CallOptions(
            name=name,
            arguments=arguments,
            principal=call.principal,
            session=call.session,
            client=call.client,
            caller_connection=call_context.caller_connection,
            outer=call,
            purpose="fallback",
        )
        prepared = await self._preparation.prepare(compiled_policy, options)
        if isinstance(prepared, Envelope):
            return envelope
        made = prepared.call
        instead = await self.carry_out(
            compiled_policy, made, CallContext(caller_connection=call_context.caller_connection), last=True
        )
        return instead if compiled_policy.fallbacks.better(instead) else envelope

    async def _guided(self, compiled_policy: CompiledPolicy, call: Call, result: Result) -> Result:
        """Suggest the nearest tools that this principal may call in place of an unknown one, if tools are searched for."""
        if not isinstance(result, Refused) or result.error.code != "unknown_tool":
            return result
        catalog = compiled_policy.catalog(call.principal, call.session)
        if not self._discovery.stands_in(catalog):
            return result
        return await self._discovery.guided(call.tool.name, result, catalog)


async def _within(mask: CallMasking, carried: Coroutine[Any, Any, Envelope]) -> Envelope:
    with masking(mask):
        return await carried


def _is_shaped(call: Call, result: Success, reading: AnswerOptions, pagings: Pagings) -> bool:
    """Return True for an answer that is changed before it is returned: fields or pages were chosen, there are more pages, or it is
    long."""
    tool = call.tool
    if reading is not WHOLE or result.next_cursor or result.truncated:
        return True
    paged = pagings.paged.get(tool.digest)
    if paged is None:
        paged = pagings.of(tool) is not None and tool.effect is Effect.READ
    if paged or not tool.sends_request:
        return paged
    size = result.delivery.bytes
    return result.delivery.cache != "" or (isinstance(size, int) and size > SHOWN)
