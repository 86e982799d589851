"""The gateway: one facade over catalog, pipeline and audit, which every front end, the command line and Python callers use."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from toolgen.audit.log import AuditLog
from toolgen.background import Background, FaultLog
from toolgen.clock import Clock, SystemClock
from toolgen.config.settings import Settings
from toolgen.config.settings import load as load_settings
from toolgen.errors import ConfigError
from toolgen.execute.base import Executor
from toolgen.gateway.approval_runner import Runner
from toolgen.gateway.approvals import Approvals
from toolgen.gateway.audit_reader import ProjectRecords
from toolgen.gateway.call_service import Callers, Calls, Running
from toolgen.gateway.compiled_policy import CurrentPolicy, Runtime
from toolgen.gateway.identity import NO_CLAIMS, Claims, KeySets
from toolgen.gateway.pause_control import Pausing
from toolgen.gateway.policy_reloader import PolicyReloader, State, state_of
from toolgen.gateway.project_files import caching_of, catalog_of, fallbacks_of, pagings_of, pauses_of, seal_file
from toolgen.gateway.response_shaping import Answering
from toolgen.gateway.shared_state import share
from toolgen.gateway.status import Status
from toolgen.gateway.tool_discovery import Discovery
from toolgen.gateway.tracing import Spans
from toolgen.gateway.unknown_outcomes import Doubts
from toolgen.model.call import Principal
from toolgen.model.manifest import Manifest
from toolgen.model.result import Envelope
from toolgen.model.schema import JsonObject
from toolgen.pipeline.middleware import Presence
from toolgen.policy.document.policy import Policy
from toolgen.policy.document.policy import load as load_policy
from toolgen.search.hybrid import meaning_of
from toolgen.state.encryption import seal_of
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


class Gateway:
    """A project, loaded: its catalog, its policy, its executors and its audit log.

    What others need of it are three protocols (protocol.py): `callers`, `tool_calls` and `operations`. The rest is for those who run it:
    `call`, `preview`, `principal`, `approvals`, `pausing`, `unknown_outcomes` and the policy in force.

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
        self.manifest = manifest
        clock = clock or SystemClock()
        self.current = current = CurrentPolicy()
        self._log = log = AuditLog(settings.audit_dir, clock, plan_of(settings.audit, current.permit, clock))
        functions = make_function_runtime()
        backing = Backing(
            assigned=current.assigned,
            folder=settings.state_dir / "oauth",
            clock=clock,
            functions=functions,
            commands=None if commands is None else make_command_client(commands),
        )
        self._executors = stand_in or make_executors(settings.sources, manifest, current.permit, backing)
        exchanges = Exchanges(settings.sources, current.assigned)
        self._meaning = meaning_of(settings, manifest.tools.values())
        self._running = Running()
        self._background = background = Background()
        self.operations = status = Status(
            log=log,
            background=background,
            troubles=self._troubles,
            functions=functions,
            drain_s=settings.drain_s,
            spans=_spans() if settings.spans else None,
            records=ProjectRecords(settings),
        )
        self.callers = Callers(current, status.note, exchanges=bool(exchanges))
        pauses = pauses_of(settings)
        self._shared = shared = share(settings, clock, status.state_changed, pauses, background)
        self.pausing = Pausing(shared.pauses, pauses, log.append, clock, self.callers, manifest)
        self.approvals = Approvals(store=shared.invocations, log=log, current=current)
        pagings = pagings_of(settings, manifest)
        self._answering = Answering(
            store=KeptAnswers(settings.state_dir / "answers.db", clock),
            pauses=shared.pauses,
            pagings=pagings,
            record=log.append,
            run=self._running.run,
        )
        self.tool_calls = Calls(
            running=self._running,
            answering=self._answering,
            discovery=Discovery(above=settings.search_above, clock=clock, meaning=self._meaning),
            fallbacks=fallbacks_of(settings, manifest),
            approvals=self.approvals,
            clock=clock,
            current=current,
            turns=shared.turns,
            make_seal=lambda: seal_of(seal_file(settings)),
        )
        self._runner = Runner(
            approvals=self.approvals,
            pauses=shared.pauses,
            clock=clock,
            carry_out=self.tool_calls.carry_out,
            background=background,
        )
        self.unknown_outcomes = Doubts(
            directory=settings.audit_dir,
            manifest=manifest,
            notes=log,
            ledger=shared.ledger,
            clock=clock,
            identity=lambda: current.governance.identity,
        )
        runtime = self._runtime = Runtime(
            settings=settings,
            manifest=manifest,
            clock=clock,
            log=log,
            executors=self._executors,
            exchanged=exchanges.concern,
            buckets=shared.buckets,
            upstreams=Upstreams(clock),
            histories=Histories(clock),
            shared_histories=shared.histories,
            pauses=shared.pauses,
            desk=self.approvals,
            key_sets=KeySets(make_fetch(current.permit), clock),
            caching=caching_of(settings, manifest, clock),
            pagings=pagings,
            ledger=shared.ledger,
            ledger_key=shared.ledger_key or (lambda: log.key),
            metrics=status.metrics,
            current=current,
        )
        self.entered = False
        self._reloader = status.reloader = PolicyReloader(policy, runtime, status.note, state, background)

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
        if self._meaning is not None:
            await self._meaning.open()
        self._log.open()
        await self._shared.start()
        self._reloader.start()
        self._runner.start()
        if self._meaning is not None:
            self._meaning.start()
        self.entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.entered = False
        self.operations.leave()
        await self._reloader.stop()
        await self._runner.stop()
        if self._meaning is not None:
            await self._meaning.close()
        await self._close()

    @contextlib.asynccontextmanager
    async def short_session(self) -> AsyncIterator[Self]:
        """The gateway for one command: calls are made and recorded, but what others approved is left to a gateway that stays."""
        self._log.open()
        await self._shared.start()
        try:
            yield self
        finally:
            await self._close()

    async def _close(self) -> None:
        self.operations.leave()
        await self._running.ended()
        await self._runtime.key_sets.close()
        for executor in self._executors.values():
            await executor.close()
        await self._shared.close()
        await self.operations.close()
        await self._answering.close()
        await self._log.close()

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self.current.governance.policy

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
        """One call, through every stage, as `ToolCalls.call` says. Never raises."""
        return await self.tool_calls.call(
            name,
            arguments,
            principal=principal,
            session=session,
            connection=connection,
            client=client,
            parent=parent,
            idempotency_key=idempotency_key,
            presence=presence,
        )

    async def preview(self, name: str, arguments: JsonObject, *, principal: Principal | str) -> Envelope:
        """What the call would send, secrets masked, after every guard has had its say. Sends, counts and records nothing."""
        return await self.tool_calls.preview(name, arguments, principal=principal)

    def principal(
        self, name: str, on_behalf_of: str | None = None, *, claims: Claims = NO_CLAIMS, user_claims: Claims = NO_CLAIMS
    ) -> Principal:
        """A principal by its id, for those who run the gateway. Raises `ConfigError` when there is none.

        `staff:ann` is a user of the issuer `staff`, with what `claims` in a token would make of her (`user_claims`: of whom it acts for).
        """
        return self.callers.named(name, on_behalf_of, claims=claims, user_claims=user_claims)

    def _troubles(self) -> tuple[FaultLog, ...]:
        """What may be wrong with what gateways share."""
        pauses = self._shared.pauses
        return (self._runner.trouble, pauses.trouble) if isinstance(pauses, SharedPauses) else (self._runner.trouble,)


def _spans() -> Spans:
    """Raises `ConfigError` where the extra is not installed."""
    try:
        from toolgen.gateway.opentelemetry import OpenTelemetry  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError("gateway.spans: needs OpenTelemetry's API", suggestion="install toolgen[otel]") from error
    return OpenTelemetry()
