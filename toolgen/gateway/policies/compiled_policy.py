"""Policy in force with everything compiled from it; it is replaced as a whole when its files change."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolgen.audit.entry import keyed_digest
from toolgen.audit.log import AuditLog
from toolgen.config.settings import Settings
from toolgen.connectors.document_guard import DocumentGuard, DocumentRules
from toolgen.connectors.executor import Destination, Executor, FileSource
from toolgen.connectors.registry import CONNECTORS
from toolgen.core.canonical import digest
from toolgen.core.clock import Clock
from toolgen.gateway.approvals.approvers import answerable, roles_that_answer
from toolgen.gateway.calls.context_policy import ContextPolicy
from toolgen.gateway.calls.fallback import Fallbacks
from toolgen.gateway.calls.tool_plan import ToolPlans
from toolgen.gateway.calls.value_tokens import RestoredArguments, ValueTokens
from toolgen.gateway.catalog.operation_names import no_operation
from toolgen.gateway.identity import Identity, KeySets
from toolgen.gateway.metrics.metrics import Metrics
from toolgen.gateway.policies.own_checks import OwnChecks
from toolgen.gateway.policies.permits import destination, permitted
from toolgen.gateway.policies.policy_questions import asks_history, credentials_of, is_tolerant
from toolgen.model.argument_names import listed_arguments
from toolgen.model.call import Call, DatabaseDescription, Principal, Statement, as_asked, parties
from toolgen.model.database import Database
from toolgen.model.graphql_schema import Graph
from toolgen.model.manifest import Manifest
from toolgen.model.result import Error, Refused
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Tool, absent
from toolgen.model.verdict import Allow, Ask, Deny, Verdict
from toolgen.pipeline.caller_requests import CallerRequests
from toolgen.pipeline.input_validation import Meant, meant
from toolgen.pipeline.middleware import CallContext, CallerConnection, Next
from toolgen.pipeline.order import (
    Parts,
    Plans,
    completion,
    context_pipeline,
    dry_pipeline,
    inspection,
    resource_pipeline,
    with_stage_spans,
)
from toolgen.pipeline.response_cache import Caching
from toolgen.pipeline.responses.answer_argument import WHOLE, AnswerOptions, may_have_options, offering, taken
from toolgen.pipeline.responses.pagination import Pagings
from toolgen.pipeline.stage_spans import StageSpans
from toolgen.pipeline.stages.access import AccessStage, CallHistory, RedactStage, imagined
from toolgen.pipeline.stages.approve import STALE, ApprovalQueue, ApproveStage
from toolgen.pipeline.stages.deliver import AccountQueue, Deliver, ExecutionSpans, Preview, checked_first
from toolgen.pipeline.stages.equal_calls import EqualCallsStage, StandingCalls
from toolgen.pipeline.stages.guards import ArgumentsStage, CurrentStage, InspectStage, PauseStage, SqlGuard
from toolgen.pipeline.stages.idempotency import LedgerStage, key_digest
from toolgen.pipeline.stages.rate_limit import LimitStage, MeterStage, TurnStage
from toolgen.pipeline.stages.record import AuditRedaction, Record, UserRecorder
from toolgen.policy.access import Access, EvaluationContext, strictest
from toolgen.policy.answer_redaction import redactor
from toolgen.policy.arguments import Validator
from toolgen.policy.binding import BoundArguments
from toolgen.policy.credentials import PolicyCredentials
from toolgen.policy.detectors.restored_values import CallMasking
from toolgen.policy.disclosure import closed, disclosed, not_open, without_toolsets
from toolgen.policy.document.assignments import assigned
from toolgen.policy.document.policy import Policy
from toolgen.policy.document.policy_files import PolicyFiles
from toolgen.policy.egress import Egress
from toolgen.policy.explain import Explanation, SelfTest, SelfTestResult
from toolgen.policy.explain import run as run_selftests
from toolgen.policy.limits import Limits
from toolgen.policy.narrowing import NarrowedAccess, narrowed
from toolgen.policy.policy_fingerprint import scope_hash_of
from toolgen.policy.redacted_output import with_redactions
from toolgen.policy.rules import DecisionNote
from toolgen.state.equal_calls import EqualCalls
from toolgen.state.history import Histories
from toolgen.state.idempotency import IdempotencyStore
from toolgen.state.invocations import Requirement
from toolgen.state.pauses import Pauses, SharedPauses
from toolgen.state.rate_limits import Buckets, Upstreams
from toolgen.state.shared_histories import SharedHistories
from toolgen.state.value_vault import ValueVault

__all__ = ["CompiledPolicy", "CurrentPolicy", "GatewayDependencies"]

_MAX_TOLD_CATALOGS = 256  # maximum principals with different disclosed values of bound arguments
_MAX_PLACES = 1024  # maximum cached verdicts: they do not change under one policy


class CurrentPolicy:
    """Holder of the policy in force. Code that begins a call keeps that call's `compiled_policy` to its end."""

    compiled_policy: CompiledPolicy

    def __init__(self) -> None:
        self._changes = asyncio.Event()

    def put(self, compiled_policy: CompiledPolicy) -> None:
        """Put another policy in force, or other keys."""
        self.compiled_policy = compiled_policy
        changes, self._changes = self._changes, asyncio.Event()
        changes.set()

    def changed(self) -> Coroutine[Any, Any, object]:
        """Return a wait for the next policy, or other keys, to come into force. A change after this call is never missed, even if the wait
        begins later."""
        return self._changes.wait()

    def manifest(self) -> Manifest:
        """Return the catalog in force."""
        return self.compiled_policy.manifest

    def permit(self, destination: Destination, source: str = "") -> Verdict:
        """Return the verdict of the policy in force about a connection to an address for a source; called before every connection."""
        return self.compiled_policy.permit(destination, source)

    def operation_of(self, tool: Tool) -> str:
        """Return the operation id in the description of a tool; "" if it has none."""
        return self.compiled_policy.operation_of(tool)

    def graph_of(self, tool: Tool) -> Graph | None:
        """Return the GraphQL schema of a tool's source; None for any other source."""
        return self.compiled_policy.graph_of(tool)

    def assigned(self, source: str, principal: Principal) -> Mapping[str, object] | None:
        """Return the credentials that the policy in force assigns to a caller at a source, in place of the source's own."""
        entries = self.compiled_policy.policy.assignments
        return assigned(entries, source, principal) if entries else None


class GatewayDependencies(Struct, frozen=True, kw_only=True):
    """Objects that outlive a policy: the project, its log and executors, and all counters. `current` is the policy in force.

    `read_policy` reads the policy from its files, for the tools in force (`manifest`) and those removed at run time (`known` has both).
    `without_revoked` reads only the revocations.
    """

    settings: Settings
    manifest: Manifest
    known: Manifest
    read_policy: Callable[[PolicyFiles, Manifest], Policy]
    without_revoked: Callable[[PolicyFiles, PolicyCredentials], PolicyCredentials]
    clock: Clock
    log: AuditLog
    executors: Mapping[str, Executor]
    exchanged: Callable[[Call], bool]
    buckets: Buckets
    upstreams: Upstreams
    histories: Histories
    shared_histories: SharedHistories | None
    pauses: Pauses | SharedPauses
    approvals: ApprovalQueue
    suspended: AccountQueue
    standing: StandingCalls
    key_sets: KeySets
    caching: Caching | None = None
    files: FileSource | None = None
    ledger: IdempotencyStore | None = None
    equal_calls: EqualCalls | None = None
    vault: ValueVault
    ledger_key: Callable[[], bytes]
    fallbacks: Fallbacks
    pagings: Pagings
    metrics: Metrics
    current: CurrentPolicy
    spans: ExecutionSpans | None = None
    stage_spans: StageSpans | None = None
    checks: OwnChecks | None = None


class CompiledPolicy:
    """Compiled policy. A call that began under it ends under it, even if the policy is replaced meanwhile.

    `edited` is an edit of the policy that is not yet in force: until then the policy is narrowed to both (`narrowed`), and rules, SQL and
    addresses are checked against both. `before` is the policy that this one replaces: rules and keys in both are not compiled again.
    """

    def __init__(
        self,
        policy: Policy,
        runtime: GatewayDependencies,
        edited: CompiledPolicy | None = None,
        before: CompiledPolicy | None = None,
    ) -> None:
        self._edited: CompiledPolicy | None = edited
        self.policy: Policy = policy if edited is None else narrowed(policy, edited.policy)
        policy = self.policy
        credentials = credentials_of(policy, runtime.settings)
        known = None if before is None else before.identity
        self.identity: Identity = Identity(credentials, runtime.clock, runtime.key_sets, policy.given, known)
        self.access: Access = self._made_access(runtime.manifest.tools, None if before is None else before.access)
        # Counting for all gateways costs a round trip per call, so it is used only if the policy asks for it.
        shared = runtime.shared_histories if any(asks_history(rule) for rule in policy.rules) else None
        self.earlier = CallHistory(histories=shared or runtime.histories, clock=runtime.clock, labels=policy.labels)
        self.tools = self._tools = runtime.manifest.tools
        self.manifest, self._sources = runtime.manifest, runtime.manifest.sources
        self.pagings, self.fallbacks = runtime.pagings, runtime.fallbacks
        self._clock, self._current = runtime.clock, runtime.current
        self._concerns: dict[tuple[object, ...], str] = {}
        self._log, self._checks = runtime.log, runtime.checks
        tokens = None if runtime.checks is None else runtime.checks.tokens
        self.tokens = ValueTokens(tokens, policy.token_grants, runtime.vault, runtime.ledger_key)
        self.tokenises = tokens is not None
        self._catalogs: dict[tuple[frozenset[str], ...], tuple[Tool, ...]] = {}
        self._closed: dict[tuple[frozenset[str], ...], tuple[Tool, ...]] = {}
        self.tolerant = is_tolerant(policy)  # whether calls continue while shared state cannot be reached
        self._pause = PauseStage(pauses=runtime.pauses, tolerant=self.tolerant)
        self.concealing = AuditRedaction(policy, runtime.manifest, self._digest_of)
        self._egress: tuple[Egress, ...] = (policy.egress,) if edited is None else (policy.egress, *edited._egress)
        # Verdict of this policy on an address for a source.
        self.permit = lru_cache(_MAX_PLACES)(partial(permitted, self._egress))
        self.context: ContextPolicy = ContextPolicy(
            policy,
            runtime.manifest,
            runtime.clock,
            current=lambda: runtime.current.compiled_policy.context,
            calls=self.access,
            edited=None if edited is None else edited.context,
            counterpart=None if edited is None else edited.current,
        )
        parts = self._parts(runtime)
        self._results = parts.results
        self.tool_plans = ToolPlans(
            {} if self.tokenises or parts.results is not None else self._tools,
            self.access,
            under=self.identity.mark,
            withheld=self.withheld,
        )
        spans = runtime.stage_spans
        self.run: Next = Plans(parts) if spans is None else with_stage_spans(parts, spans)
        """Function that sends a call through every stage. Their notes for the audit log are in its call context."""
        self.would_send = dry_pipeline(parts)
        self.inspected = inspection(parts)
        self.completion = completion(parts)
        self.read_resource = resource_pipeline(parts)
        self.read_context = context_pipeline(parts, self.context.access, self.context.stands)

    def catalog(self, principal: Principal, session: str | None = None) -> tuple[Tool, ...]:
        """Return the tools that a principal may call, in name order; with a session, those of its current step. The object is the same
        every time."""
        key = (principal.toolsets, *_roles(principal))
        if self._edited is not None:
            key = (*key, *_roles(self._edited.current(principal)))
        if told := self.access.told(principal):
            key = (*key, frozenset(told))
        found = self._catalogs.get(key)
        if found is None:
            if told and len(self._catalogs) >= _MAX_TOLD_CATALOGS:
                self._catalogs.clear()
            found = self._catalogs[key] = self._shown(principal, apps=False)
        if session is not None and self._checks is not None:
            return self._checks.catalog(found, principal, session, self.earlier)
        return found

    def app_tools(self, principal: Principal) -> tuple[Tool, ...]:
        """Return the tools that this principal may call and that are only for apps, in name order. No catalog has them."""
        return self._shown(principal, apps=True)

    def _shown(self, principal: Principal, *, apps: bool) -> tuple[Tool, ...]:
        visible = (one for one in self._tools.values() if one.for_apps is apps and self.access.visible(principal, one))
        offered = (offering(one, self.access.shown(principal, one), self.pagings) for one in visible)
        return tuple(with_redactions(one, self.policy.redactions) for one in offered)

    def closed(self, principal: Principal, name: str) -> Deny | None:
        """Return the refusal of a closed tool whose existence is disclosed to a principal; None for any other tool."""
        entry = disclosed(self.policy.disclosures, principal, name)
        tool = None if entry is None else self._tools.get(name)
        if entry is None or tool is None or self.access.visible(without_toolsets(principal), tool):
            return None
        return closed(name, entry)

    def _advice(self, principal: Principal, name: str) -> str:
        """Return the advice for a call that the rules refuse, if the principal may know of closed tools; "" otherwise."""
        entry = disclosed(self.policy.disclosures, principal, name)
        return "" if entry is None else not_open(entry)

    def closed_tools(self, principal: Principal) -> tuple[Tool, ...]:
        """Return the closed tools that are disclosed to a principal, in name order. The object is the same every time."""
        if not self.policy.disclosures:
            return ()
        key = _roles(principal)
        found = self._closed.get(key)
        if found is None:
            tools = (tool for tool in self._tools.values() if self.closed(principal, tool.name) is not None)
            found = self._closed[key] = tuple(tools)
        return found

    def operation_of(self, tool: Tool) -> str:
        """Return the operation id in the description of a tool; "" if it has none."""
        source = self._sources.get(tool.source)
        return (source.operations.get(tool.origin) if source is not None else None) or no_operation(tool)

    def graph_of(self, tool: Tool) -> Graph | None:
        """Return the GraphQL schema of a tool's source; None for any other source."""
        source = self._sources.get(tool.source)
        return None if source is None else source.graph

    def may_wait(self, principal: Principal, catalog: Sequence[Tool]) -> bool:
        """Return True if a call of one of these tools may be answered as pending: it waits for a device, or for approvers that the
        policy names."""
        if any(tool.runs_on_device for tool in catalog):
            return True
        if not roles_that_answer(self.policy):
            return False
        tools = (self._tools.get(tool.name) for tool in catalog)
        return any(tool.runs_steps or self.access.asks(principal, tool) for tool in tools if tool is not None)

    def pending_after(self, principal: Principal, name: str) -> float | None:
        """Return the seconds that a caller of a tool waits by a rule; None without such a rule."""
        tool = self._tools.get(name)
        return None if tool is None else self.access.pending_after(principal, tool)

    def current(self, principal: Principal) -> Principal | None:
        """Return the principal as defined by this policy, or None if it is gone."""
        found = self.identity.current(principal)
        return None if found is None else as_asked(found, principal)

    def by_now(self, principal: Principal | str) -> Principal | str | None:
        """Return a caller that was authenticated under another policy, as defined by this one: a request may outlast a policy."""
        if isinstance(principal, str) or principal.under in {None, self.identity.mark}:
            return principal
        return self.current(principal)

    def call(  # noqa: PLR0913 - what a front end was given
        self,
        name: str,
        arguments: JsonObject,
        principal: Principal,
        session: str = "",
        client: str = "",
        parent: str = "",
        idempotency_key: str = "",
        *,
        caller_connection: CallerConnection | None = None,
    ) -> Call:
        """Return the call for the stages, with the trace and the client channel of `caller_connection`. From here on, a tool that this
        principal may not see is the same as one that does not exist."""
        known = tool = self._tools.get(name)
        if tool is None or not self.access.visible(principal, tool):
            tool, seen = absent(name), Meant(arguments=arguments)
            bound = BoundArguments(arguments=arguments)
        else:
            seen = meant(tool, arguments)
            bound = self.access.bind(principal, tool, seen.arguments)
        return Call(
            id=f"call_{secrets.token_hex(12)}",
            tool=tool,
            arguments=bound.arguments,
            principal=principal,
            session=session,
            client=client,
            parent=parent,
            idempotency_key=key_digest(principal, name, idempotency_key) if idempotency_key else "",
            repaired=seen.repaired,
            dropped=seen.dropped,
            left_out=seen.left_out,
            bound=bound.names,
            hidden=known is not None and tool is not known,
            denied=bound.denied,
            trace=None if caller_connection is None else caller_connection.trace,
            line=None if caller_connection is None else caller_connection.line or caller_connection,
            withheld=self.withheld,
        )

    def reading(
        self, name: str, arguments: JsonObject, principal: Principal
    ) -> tuple[AnswerOptions | Error, JsonObject]:
        """Return the options of the answer in a call's arguments, and the arguments without them; an error if they are invalid."""
        tool = self._tools.get(name) if may_have_options(arguments) else None
        if tool is None or not self.access.visible(principal, tool):
            return WHOLE, arguments
        named, twice = listed_arguments(tool, arguments)
        try:
            reading, rest = taken(tool, named, self.pagings)
        except ValueError as error:
            suggestion = "leave it out, or correct it"
            return Error(code="validation", message=f"/{error}", suggestion=suggestion, rule="arguments"), {}
        return reading, {**rest, **{name: arguments[name] for name in twice}}

    async def restored(
        self, name: str, arguments: JsonObject, principal: Principal, session: str, *, signed: bool = False
    ) -> RestoredArguments:
        """Return the arguments with values in place of their tokens, before a call is made with them. `signed`: for an inner call."""
        tool = self._tools.get(name)
        if tool is None or not self.access.visible(principal, tool):
            return RestoredArguments(arguments=arguments)
        return await self.tokens.restored(tool, arguments, principal, session, signed=signed)

    def masking(self, call: Call) -> CallMasking | None:
        """Return the masking of texts for the caller of this call; None if no detector inspects answers."""
        return None if self._results is None else self._results.masking(call)

    def scope_hash(self, principal: Principal, tool: Tool) -> str:
        """Return the digest of what this policy says about calls of a principal to a tool."""
        key = (tool.digest, principal.toolsets, *_roles(principal))
        found = self._concerns.get(key)
        if found is None:
            if (own := self._tools.get(tool.name)) is not None and own.digest == tool.digest:
                tool = own  # the same tool of another catalog
            found = self._concerns[key] = scope_hash_of(self.policy, self.access, self._tools, principal, tool)
        if self._edited is None:
            return found
        there = self._edited.current(principal)
        edited = "" if there is None else self._edited.scope_hash(there, tool)
        return found if edited == found else digest([found, edited])

    async def check(self) -> tuple[SelfTestResult, ...]:
        """Run the tests in the policy files."""
        return await run_selftests(self.policy.tests, {**self.context.tools, **self._tools}, self._tested)

    async def _tested(self, test: SelfTest, tool: Tool, arguments: JsonObject) -> Explanation:
        if test.tool not in self._tools:
            now = EvaluationContext(now=self._clock.now() if test.at is None else test.at)
            return self.judge_read(test.caller, tool, arguments, now)
        around = imagined(test, self._tools, self.policy.labels, self._clock)
        return await self.judge(test.caller, tool, arguments, around)

    def judge_read(
        self, principal: Principal, tool: Tool, arguments: JsonObject, circumstances: EvaluationContext
    ) -> Explanation:
        """Return the decision about the read of a prompt or resource, by the rules only."""
        access = self.context.access
        bound = access.bind(principal, tool, arguments)
        verdict = bound.denied or access.decide(principal, tool, bound.arguments, circumstances)
        return Explanation(verdict=verdict, arguments=bound.arguments, set_names=bound.names)

    async def judge(
        self, principal: Principal, tool: Tool, arguments: JsonObject, circumstances: EvaluationContext
    ) -> Explanation:
        """Return the decision about a call without making it: by the rules, then by the guards of a real call.

        If the call lacks a required argument, the guards cannot judge it, and the rules decide alone.
        """
        bound = self.access.bind(principal, tool, arguments)
        verdict = bound.denied or self.access.decide(principal, tool, bound.arguments, circumstances)
        judged = Explanation(verdict=verdict, arguments=bound.arguments, set_names=bound.names)
        if isinstance(verdict, Deny) or not bound.arguments.keys() >= {*tool.input_schema.get("required", ())}:
            return judged
        call_context = CallContext()
        call = Call(id="explain", tool=tool, arguments=bound.arguments, principal=principal, bound=bound.names)
        result = await self.inspected(call, call_context)
        if isinstance(result, Refused):
            error = result.error
            refused = Deny(rule=error.rule or error.code, code=error.code, reason=error.message)
            return replace(judged, verdict=refused)
        if call_context.verdict == "ask" and isinstance(verdict, Allow):
            asked = Ask(rule=call_context.rule, reason="a person has to approve every change of a database")
            judged = replace(judged, verdict=asked)
        through = call_context.judged
        document = None if through is None else through.document
        statement = call_context.sql or ("" if document is None else document.query)
        return replace(judged, statement=statement)

    def tool(self, name: str) -> Tool | None:
        """Return the catalog's tool with this name, visible or not."""
        return self._tools.get(name)

    async def withheld(self, call: Call) -> Error | None:
        """Return the reason why a call that passed under this policy must not be sent any more: a pause, or a different decision now."""
        if (paused := await self._pause.withheld(call)) is not None:
            return paused
        return None if self._stands(call) else Error(code="expired", message=STALE, rule="current")

    def _stands(self, call: Call) -> bool:
        """Return True if the policy in force treats this call as this policy does, and still knows its caller."""
        now = self._current.compiled_policy
        if now is self:
            return True
        return now.current(call.principal) == call.principal and now.scope_hash(
            call.principal, call.tool
        ) == self.scope_hash(call.principal, call.tool)

    def _decide_root(self, call: Call, tool: Tool, arguments: JsonObject, notes: list[DecisionNote]) -> Verdict:
        """Return the verdict on a root field of a document, as on a call of its tool; the gateway cannot set arguments in a document."""
        if self.access.bound(call.principal, tool):
            return Deny(
                rule="graphql",
                reason="the gateway sets arguments of a field in this document",
                suggestion=f"call {tool.name} instead",
            )
        judgement = self.access.judge(call.principal, tool, arguments, self.earlier.circumstances(call))
        notes += judgement.notes
        if not isinstance(judgement.verdict, Deny):
            self.earlier.add(call, tool, arguments, judgement.readings)
        return judgement.verdict

    def _answerable(self, principal: Principal, needs: Sequence[Requirement]) -> bool:
        """Return True if enough people can decide about a call of this principal: principals of the policy, or users of an issuer."""
        return answerable(self.policy, parties(principal), needs)

    def _made_access(self, tools: Mapping[str, Tool], before: Access | None) -> Access:
        policy, edited = self.policy, self._edited
        if edited is None:
            return Access(policy.rules, tools, policy.toolsets, before=before)
        other, counterpart = edited.access, edited.current
        return NarrowedAccess(policy.rules, tools, policy.toolsets, other=other, counterpart=counterpart, before=before)

    def _sql_guards(self, manifest: Manifest) -> Mapping[str, SqlGuard]:
        """Return a guard for each database that the policy opens a part of."""
        if not self.policy.sql:
            return {}
        own: dict[str, SqlGuard] = {
            source: partial(guard.verdict, database=info.database, scope=self.policy.sql[source])
            for source, info in manifest.sources.items()
            if info.database is not None
            and source in self.policy.sql
            and (guard := CONNECTORS[info.kind].database_guard()) is not None
        }
        edited = self._edited
        if edited is None:
            return own
        others = edited._sql_guards(manifest)  # a private method of another object of this class
        return {source: partial(_of_both, guard, others[source], edited.current) for source, guard in own.items()}

    def _document_guards(self, runtime: GatewayDependencies) -> Mapping[str, DocumentGuard]:
        """Return a guard for each source that accepts documents of its callers. It compiles a schema at its first use."""
        manifest = runtime.manifest
        if all(info.graph is None for info in manifest.sources.values()):
            return {}
        rules = DocumentRules(
            decide=self._decide_root,
            visible=self.access.visible,
            bound=lambda principal, tool: bool(self.access.bound(principal, tool)),
            redacted=lambda tool: redactor(self.policy.redactions, tool) is not None,
            strictest=strictest,
            validator=lambda tool: Validator(tool.input_schema, formats=False),
        )
        found = {}
        sources = {tool.source for tool in manifest.tools.values() if tool.takes_documents or tool.shows_schema}
        for source in sorted(sources):
            settings = runtime.settings.sources.get(source)
            connector = CONNECTORS[manifest.sources[source].kind]
            found[source] = connector.document_guard(
                None if settings is None else settings.config, source, manifest, rules
            )
        return {source: guard for source, guard in found.items() if guard is not None}

    def _parts(self, runtime: GatewayDependencies) -> Parts:
        policy = self.policy
        limits = Limits(policy.limits, runtime.clock)
        redact = RedactStage(redactor=partial(redactor, policy.redactions))
        return Parts(
            record=Record(
                journal=runtime.log,
                clock=runtime.clock,
                policy_digest=policy.digest,
                conceal=self.concealing,
                users=self._users(),
                counts=runtime.metrics,
            ),
            turn=TurnStage(limit=runtime.settings.turn_limit),
            pause=self._pause,
            limit=LimitStage(limits=limits, buckets=runtime.buckets),
            access=AccessStage(
                access=self.access,
                earlier=self.earlier,
                closed=self.closed if policy.disclosures else None,
                advice=self._advice if policy.disclosures else None,
            ),
            arguments=ArgumentsStage(),
            inspect=InspectStage(
                guards=self._sql_guards(runtime.manifest),
                destination=lru_cache(_MAX_PLACES)(partial(destination, self._egress)),
                documents=self._document_guards(runtime),
                earlier=self.earlier,
            ),
            ledger=LedgerStage(
                ledger=runtime.ledger, clock=runtime.clock, secret=runtime.ledger_key, redact=redact.applied
            ),
            equal=EqualCallsStage(
                calls=runtime.equal_calls,
                standing=runtime.standing,
                secret=runtime.ledger_key,
                scope_hash=self.scope_hash,
            ),
            approve=self._approve_stage(runtime),
            meter=MeterStage(limits=limits, buckets=runtime.buckets, upstreams=runtime.upstreams),
            current=CurrentStage(stands=self._stands),
            redact=redact,
            deliver=Deliver(
                executors=runtime.executors,
                accounts=runtime.suspended,
                requests=CallerRequests(journal=runtime.log, buckets=runtime.buckets, digest=self._digest_of),
                policy_digest=policy.digest,
                caching=runtime.caching,
                files=runtime.files,
                spans=runtime.spans,
            ),
            preview=Preview(executors=runtime.executors),
            middleware=checks.middleware(self.earlier, self.concealing) if (checks := runtime.checks) else None,
            results=checks.results(self.earlier, runtime.vault, runtime.ledger_key) if checks else None,
        )

    def _approve_stage(self, runtime: GatewayDependencies) -> ApproveStage:
        approval = self.policy.approval
        return ApproveStage(
            policy_digest=self.policy.digest,
            scope_hash=self.scope_hash,
            roles=approval.roles,
            expires_s=approval.expires_s,
            answerable=self._answerable,
            exchanged=runtime.exchanged,
            approvals=runtime.approvals,
            check=partial(checked_first, runtime.executors),
            elicits=approval.elicits,
            quorum=approval.quorum,
            remembers=approval.remember is not None,
        )

    def _users(self) -> UserRecorder:
        return UserRecorder(named=self.policy.principals, conceal=self.concealing.said)

    def _digest_of(self, value: Json) -> Json:
        return keyed_digest(self._log.key, value)


def _roles(principal: Principal | None) -> tuple[frozenset[str], ...]:
    """Return the roles of a principal, and of the users it acts for."""
    if principal is None:
        return ()
    user = principal.on_behalf_of
    return (principal.roles,) if user is None else (principal.roles, user.roles)


async def _of_both(
    guard: SqlGuard, other: SqlGuard, counterpart: Callable[[Principal], Principal | None], call: Call
) -> Statement | Database | DatabaseDescription | Deny:
    """Return the answer of a guard, if another guard does not deny the call of the same principal."""
    there = counterpart(call.principal)
    if there is None:
        return Deny(rule="sql", code="sql_refused", reason="the caller is not known any more")
    verdict = await other(replace(call, principal=there))
    return verdict if isinstance(verdict, Deny) else await guard(call)
