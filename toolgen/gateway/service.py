"""The gateway: one facade over catalog, pipeline and audit, which every front end, the command line and Python callers use."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from toolgen.audit.log import AuditLog
from toolgen.audit.reader import entries, entry_at
from toolgen.background import Background, FaultLog
from toolgen.clock import Clock, SystemClock
from toolgen.config.settings import Settings
from toolgen.config.settings import load as load_settings
from toolgen.errors import ConfigError
from toolgen.execute.base import Destination, Executor
from toolgen.gateway.approval_runner import Runner
from toolgen.gateway.approvals import Approvals
from toolgen.gateway.audit_reader import ProjectRecords
from toolgen.gateway.call_service import Calls, Running
from toolgen.gateway.callers import Callers
from toolgen.gateway.compiled_policy import Governance, Runtime
from toolgen.gateway.envelope_json import invalid, unmade
from toolgen.gateway.identity import NO_CLAIMS, Claims, KeySets
from toolgen.gateway.metrics import Metrics
from toolgen.gateway.pause_control import Pausing
from toolgen.gateway.policy_reloader import InForce, State, state_of
from toolgen.gateway.project_files import caching_of, catalog_of, fallbacks_of, pagings_of, pauses_of, seal_file
from toolgen.gateway.response_shaping import Answering, Fetched
from toolgen.gateway.shared_state import share
from toolgen.gateway.status import Status
from toolgen.gateway.tool_discovery import Discovery
from toolgen.gateway.tracing import Spans
from toolgen.gateway.unknown_outcomes import Doubts
from toolgen.model.call import Principal, parties
from toolgen.model.manifest import Manifest
from toolgen.model.result import Envelope, Error
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Tool
from toolgen.model.verdict import Verdict
from toolgen.pipeline.input_validation import no_ids
from toolgen.pipeline.middleware import Presence, Trail
from toolgen.policy.document.policy import Policy
from toolgen.policy.document.policy import load as load_policy
from toolgen.policy.explain import SelfTestResult
from toolgen.search.hybrid import meaning_of
from toolgen.state.encryption import Seal, seal_of
from toolgen.state.history import Histories
from toolgen.state.pauses import SharedPauses
from toolgen.state.rate_limits import Upstreams
from toolgen.state.stored_answers import KeptAnswers
from toolgen.wiring.checkpoint_sinks import plan_of
from toolgen.wiring.executors import (
    Backing,
    Exchanges,
    make_command_client,
    make_executors,
    make_fetch,
    make_function_runtime,
)

__all__ = ["Gateway"]

_logger = logging.getLogger(__name__)

_GONE = Error(
    code="forbidden",
    message="the policy has changed since this caller was let in, and does not know it any more",
    suggestion="authenticate again",
    rule="default",
)
_CLOSING_S = 5.0


class Gateway:
    """A project, loaded: its catalog, its policy, its executors and its audit log.

    An asynchronous context manager: entering opens the audit log, leaving waits for the calls in flight and closes everything.
    `stand_in` carries calls out, by source, in place of what the settings name: for rehearsals that must reach nobody.
    `commands` is the descriptor of a socket to the process that holds the commands of MCP servers for several workers.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        manifest: Manifest,
        policy: Policy,
        clock: Clock | None = None,
        state: State | None = None,
        stand_in: Mapping[str, Executor] | None = None,
        commands: int | None = None,
    ) -> None:
        self.settings = settings
        self.drain_s = settings.drain_s
        self.manifest = manifest
        self._clock = clock or SystemClock()
        plan = plan_of(settings.audit, self.permit, self._clock)
        self._log = AuditLog(settings.audit_dir, self._clock, plan)
        self._functions = make_function_runtime()
        backing = Backing(
            assigned=self._assigned,
            folder=settings.state_dir / "oauth",
            clock=self._clock,
            functions=self._functions,
            commands=None if commands is None else make_command_client(commands),
        )
        self._executors = stand_in or make_executors(settings.sources, manifest, self.permit, backing)
        self._exchanges = Exchanges(settings.sources, self._assigned)
        self.meaning = meaning_of(settings, manifest.tools.values())
        self._discovery = Discovery(above=settings.search_above, clock=self._clock, meaning=self.meaning)
        self._running = Running()
        self.metrics = Metrics()
        self.spans = _spans() if settings.spans else None
        self.pauses = pauses_of(settings)
        background = self._background = Background()
        status = self._status = Status(
            log=self._log, background=background, troubles=self._troubles, unread=lambda: self._in_force.unread
        )
        self.callers = Callers(lambda: self._in_force.governance, status.note, exchanges=bool(self._exchanges))
        shared = self._shared = share(settings, self._clock, status.state_changed, self.pauses, background)
        self.pausing = Pausing(shared.pauses, self.pauses, self._log.append, self._clock)
        self.approvals = Approvals(
            store=shared.invocations,
            log=self._log,
            in_force=lambda: self._in_force.governance,
        )
        pagings = pagings_of(settings, manifest)
        self._answering = Answering(
            store=KeptAnswers(settings.state_dir / "answers.db", self._clock),
            pauses=shared.pauses,
            pagings=pagings,
            record=self._log.append,
            run=self._running.run,
        )
        self._calls = Calls(
            running=self._running,
            answering=self._answering,
            discovery=self._discovery,
            fallbacks=fallbacks_of(settings, manifest),
            approvals=self.approvals,
            clock=self._clock,
        )
        self._runner = Runner(
            approvals=self.approvals,
            pauses=shared.pauses,
            clock=self._clock,
            carry_out=self._calls.carry_out,
            background=background,
        )
        self.ledger = shared.ledger
        self.doubts = Doubts(
            directory=settings.audit_dir,
            manifest=manifest,
            notes=self._log,
            ledger=self.ledger,
            clock=self._clock,
            identity=lambda: self._in_force.governance.identity,
        )
        runtime = self._runtime = Runtime(
            settings=settings,
            manifest=manifest,
            clock=self._clock,
            log=self._log,
            executors=self._executors,
            exchanged=self._exchanges.concern,
            buckets=shared.buckets,
            upstreams=Upstreams(self._clock),
            histories=Histories(self._clock),
            shared_histories=shared.histories,
            pauses=shared.pauses,
            desk=self.approvals,
            key_sets=KeySets(make_fetch(self.permit), self._clock),
            caching=caching_of(settings, manifest, self._clock),
            pagings=pagings,
            ledger=self.ledger,
            ledger_key=shared.ledger_key or (lambda: self._log.key),
            metrics=self.metrics,
            in_force=lambda: self._in_force.governance,
        )
        self.entered = False
        self._seal: Seal | None = None
        self.records = ProjectRecords(settings)
        self._leaving: asyncio.TimerHandle | None = None
        self._in_force = InForce(policy, runtime, status.note, state, background)

    @classmethod
    def load(cls, path: str | Path = "toolgen.yaml", *, commands: int | None = None) -> Self:
        """Loads a project: generated/ as it was built, or the descriptions themselves where nothing was generated yet.

        Raises a `ToolgenError` naming file, line or pointer for whatever is wrong with toolgen.yaml, the catalog or the policy.
        """
        settings = load_settings(path)
        manifest = catalog_of(settings)
        state = state_of(settings.policies)  # before they are read: what changes meanwhile is read again
        policy = load_policy(settings.policies, manifest)
        return cls(settings=settings, manifest=manifest, policy=policy, state=state, commands=commands)

    async def __aenter__(self) -> Self:
        if self.meaning is not None:
            await self.meaning.open()
        self._log.open()
        await self._shared.start()
        self._in_force.start()
        self._runner.start()
        if self.meaning is not None:
            self.meaning.start()
        self.entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.entered = False
        self.leave()
        await self._in_force.stop()
        await self._runner.stop()
        if self.meaning is not None:
            await self.meaning.close()
        await self._close()

    @contextlib.asynccontextmanager
    async def errand(self) -> AsyncIterator[Self]:
        """The gateway for one errand: calls are made and recorded, but what others approved is left to a gateway that stays."""
        self._log.open()
        await self._shared.start()
        try:
            yield self
        finally:
            await self._close()

    def leave(self) -> None:
        """From now on functions have the drain time to end, but for what it takes to record and answer their calls, and to close."""
        if self._leaving is None:
            seconds = self.drain_s - min(_CLOSING_S, self.drain_s / 2)
            self._leaving = asyncio.get_running_loop().call_later(seconds, self._functions.give_up)

    async def _close(self) -> None:
        self.leave()
        await self._running.ended()
        if self._leaving is not None:
            self._leaving.cancel()
        await self._runtime.key_sets.close()
        for executor in self._executors.values():
            await executor.close()
        await self._shared.close()
        await self._status.close()
        await self._answering.close()
        await self._log.close()

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._in_force.policy

    @property
    def seal(self) -> Seal:
        """What is given to clients to bring back is sealed with it, in every worker alike. Raises `StateError`."""
        if self._seal is None:
            self._seal = seal_of(seal_file(self.settings))
        return self._seal

    @property
    def elicits(self) -> bool:
        """Whether a person at a caller's own client may agree to its calls."""
        return self.policy.approval.elicits

    async def changed(self) -> None:
        """Returns when what principals see may have changed."""
        await self._in_force.changed()

    @property
    def governance(self) -> Governance:
        """What the policy in force was compiled to."""
        return self._in_force.governance

    async def reload(self) -> bool:
        """Reads the policy again and puts it in force whole. False when it cannot be used: then what was in force stays so.

        Either is in the log and in the audit; `warnings` has what is wrong until a later reading succeeds.
        """
        return await self._in_force.reload()

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources."""
        return tuple(self.manifest.sources)

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of all tools."""
        return tuple(self.manifest.tools)

    def principal(
        self, name: str, on_behalf_of: str | None = None, *, claims: Claims = NO_CLAIMS, user_claims: Claims = NO_CLAIMS
    ) -> Principal:
        """A principal by its id, for those who run the gateway. Raises `ConfigError` when there is none.

        `staff:ann` is a user of the issuer `staff`, with what `claims` in a token would make of her (`user_claims`: of whom it acts for).
        """
        return self.callers.named(name, on_behalf_of, claims=claims, user_claims=user_claims)

    def catalog(self, principal: Principal) -> tuple[Tool, ...]:
        """The tools this principal may call, in name order. The same object until the policy changes."""
        return self._in_force.governance.catalog(principal)

    def offered(self, principal: Principal) -> tuple[Tool, ...]:
        """What this principal is listed: its catalog, or where that is too long, the tools that search it. The same object, as above."""
        return self._discovery.offered(self.catalog(principal))

    async def search(self, principal: Principal, query: str, limit: int) -> tuple[Tool, ...] | Error:
        """The tools this principal may call that fit a request in words, best first; an error for whoever searches too often."""
        return await self._discovery.find(principal, self.catalog(principal), query, limit)

    async def call(
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
        presence: Presence | None = None,
    ) -> Envelope:
        """One call, through every stage. Never raises, and runs to its end when the caller goes away, unless it only reads a database.

        `session` is the conversation that the caller named, whose turns are counted. Where it named none, rules about earlier calls go by
        the transport's own `connection`, which may be as long as the agent lives.
        """
        governance = self._in_force.governance  # the same to the end, also when another is put in force meanwhile
        if fault := no_ids(
            session=session, connection=connection, client=client, parent=parent, idempotency_key=idempotency_key
        ):
            return unmade(name, invalid(fault))
        caller = governance.by_now(principal)
        if caller is None:
            return unmade(name, _GONE)
        principal = caller
        asked = await self._calls.asked(governance, name, arguments, principal)
        if isinstance(asked, Envelope):
            return asked
        reading, given = governance.reading(asked.name, asked.arguments, asked.principal)
        if isinstance(reading, Error):
            return unmade(asked.name, reading)
        call = governance.call(
            asked.name, given, asked.principal, session or connection, client, parent, idempotency_key
        )
        if presence is not None and presence.trace is not None:
            call = replace(call, trace=presence.trace)
        if reading.cursor:
            return await self._answering.read_on(governance, call, reading.cursor)
        trail = Trail(presence=presence or Presence())
        turns = self._shared.turns
        if turns is None or not session:
            return await self._calls.carry_out(governance, call, trail, reading)
        # Up to here nothing waited: calls that were made at once find each other in flight.
        async with turns.join(parties(call.principal), session) as trail.seat:
            return await self._calls.carry_out(governance, call, trail, reading)

    async def fetch(self, principal: Principal, name: str, token: str) -> Fetched | Error:
        """The bytes of an answer that this principal was given a link to."""
        return await self._answering.fetch(self._in_force.governance, principal, name, token)

    async def preview(self, name: str, arguments: JsonObject, *, principal: Principal | str) -> Envelope:
        """What the call would send, secrets masked, after every guard has had its say. Sends, counts and records nothing."""
        governance = self._in_force.governance
        caller = governance.by_now(principal)
        if caller is None:
            return unmade(name, _GONE)
        asked = await self._calls.asked(governance, name, arguments, caller)
        if isinstance(asked, Envelope):
            return asked
        reading, given = governance.reading(asked.name, asked.arguments, asked.principal)
        if isinstance(reading, Error):
            return unmade(asked.name, reading)
        call = governance.call(asked.name, given, asked.principal)
        return await self._calls.rehearse(governance, call)

    def ready(self) -> tuple[str, ...]:
        """Why the gateway does not take calls; empty when it does."""
        return self._status.ready()

    def measured(self) -> bytes:
        """What this process counted, for Prometheus."""
        return self.metrics.rendered(
            worker=self._log.stream,
            ready=not self._status.ready(),
            functions=self._functions.counts,
            restarts=self._background.restarts,
        )

    def warnings(self) -> tuple[str, ...]:
        """What an operator should know while calls are taken all the same: an edit of the policy that cannot be used, limits uncounted."""
        return self._status.warnings()

    def _troubles(self) -> tuple[FaultLog, ...]:
        """What may be wrong with what gateways share."""
        pauses = self._shared.pauses
        return (self._runner.trouble, pauses.trouble) if isinstance(pauses, SharedPauses) else (self._runner.trouble,)

    def audit_entries(self, *, limit: int = 50, before: int | None = None) -> list[dict[str, Any]]:
        """The newest entries of this gateway's stream first, those below `before`. Raises `AuditError`."""
        last = self._log.size if before is None else min(before - 1, self._log.size)
        first = max(1, last - limit + 1)
        found = entries(self.settings.audit_dir, self._log.stream, first)  # from the segment on that holds it
        return [dict(entry) for entry in found if first <= entry.get("seq", 0) <= last][::-1]

    def audit_entry(self, seq: int) -> dict[str, Any] | None:
        """One entry of this gateway's stream by its number: what `audit_seq` of an envelope names. Raises `AuditError`."""
        found = entry_at(self.settings.audit_dir, seq, self._log.stream)
        return dict(found[0]) if found else None

    def check_policy(self) -> tuple[SelfTestResult, ...]:
        """Runs the tests that the policy files carry."""
        return self._in_force.governance.check()

    def _assigned(self, source: str, principal: Principal) -> Mapping[str, object] | None:
        return self._in_force.governance.assigned(source, principal)

    def permit(self, destination: Destination) -> Verdict:
        """Whether the policy in force opens an address; asked as it is dialled."""
        return self._in_force.governance.permit(destination)


def _spans() -> Spans:
    """Raises `ConfigError` where the extra is not installed."""
    try:
        from toolgen.gateway.opentelemetry import OpenTelemetry  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError("gateway.spans: needs OpenTelemetry's API", suggestion="install toolgen[otel]") from error
    return OpenTelemetry()
