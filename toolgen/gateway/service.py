"""The gateway: one facade over catalog, pipeline and audit, which every front end, the command line and Python callers use."""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from toolgen.audit.log import AuditLog
from toolgen.config.settings import Settings
from toolgen.config.settings import load as load_settings
from toolgen.connectors.executor import AsgiApp, Executor, LocalApp
from toolgen.core.background import Background, each
from toolgen.core.clock import Clock, SystemClock
from toolgen.core.errors import PolicyError
from toolgen.gateway.answer_files import AnswerFiles
from toolgen.gateway.approval_runner import Runner
from toolgen.gateway.approvals import Approvals
from toolgen.gateway.audit_reader import ProjectRecords
from toolgen.gateway.call_service import UNNAMED, Callers, Calls, Unnamed
from toolgen.gateway.catalog_reloader import CatalogReloader, Observers
from toolgen.gateway.compiled_policy import CurrentPolicy, GatewayDependencies
from toolgen.gateway.departed_clients import DepartedClients
from toolgen.gateway.device_calls import DeviceCalls
from toolgen.gateway.file_reading import CallerFiles
from toolgen.gateway.file_uploads import FileArguments, FileUploads, GatewayFiles
from toolgen.gateway.identity import NO_CLAIMS, Claims, KeySets
from toolgen.gateway.inner_calls import NestedCalls
from toolgen.gateway.monitoring import Monitoring
from toolgen.gateway.own_checks import checks_of
from toolgen.gateway.pause_control import PauseControl
from toolgen.gateway.policy_acceptance import Acceptances
from toolgen.gateway.policy_reloader import FileStates, PolicyReloader, file_states
from toolgen.gateway.project_files import caching_of, fallbacks_of, pagings_of, pauses_of, seal_file, served_catalog
from toolgen.gateway.response_shaping import ResponseShaper
from toolgen.gateway.role_grants import RoleGrants
from toolgen.gateway.runtime_tools import runtime_tools
from toolgen.gateway.shared_state import WorkerSockets, share
from toolgen.gateway.standing import Standing
from toolgen.gateway.status import Status, load_spans, systems_of
from toolgen.gateway.synchronous import SyncGateway
from toolgen.gateway.tool_discovery import Discovery
from toolgen.gateway.unknown_outcomes import UnknownOutcomes
from toolgen.gateway.worker_metrics import WorkerMetrics
from toolgen.model.call import Call, Principal
from toolgen.model.manifest import Manifest
from toolgen.model.result import Envelope
from toolgen.model.schema import JsonObject
from toolgen.pipeline.middleware import CallerConnection, InFlightCalls
from toolgen.pipeline.responses.pagination import Pagings
from toolgen.policy.document.policy import Policy, PolicyReader
from toolgen.policy.document.policy_files import read_files
from toolgen.search.hybrid import meaning_of
from toolgen.state.encryption import seal_of
from toolgen.state.history import Histories
from toolgen.state.rate_limits import Upstreams
from toolgen.state.stored_answers import StoredAnswers
from toolgen.state.stored_files import StoredFiles
from toolgen.wiring.checkpoint_sinks import plan_of
from toolgen.wiring.exchanges import Exchanges
from toolgen.wiring.executors import (
    ExecutorDependencies,
    make_command_client,
    make_executors,
    make_fetch,
    make_function_runtime,
    with_added,
)
from toolgen.wiring.renewal import renewed_executors

if TYPE_CHECKING:
    from toolgen.gateway.asgi.mounted import MountedApp
    from toolgen.gateway.in_process import InProcess

__all__ = ["Gateway"]

_logger = logging.getLogger(__name__)


class Gateway(Standing):
    """A project, loaded: its catalog, its policy, its executors and its audit log.

    Others are given a part of it as a protocol (protocol.py): front ends and adapters `callers`, `tool_calls` and `operations`, the console
    and commands the project and `pausing`, `unknown_outcomes` and `preview` beside.

    An asynchronous context manager: entering opens the audit log, leaving waits for the calls in flight and closes everything.
    `tools` adds and removes tools while it is open. `stand_in` carries calls out, by source, in place of what the settings name: for
    trial runs that must reach nobody. `above` are the ways of one of several workers to the process above it. `reader` reads
    the policy from its files, where that is more than to read them, or it did before. `key` is the API key of the only principal, of a
    gateway that was made in Python. `middleware` are checks of the program's own, inside of those of the project. `apps` are
    applications of this process, by the source that each is. In code that is not asynchronous, `with gateway as calls:` gives a
    `SyncGateway`, whose `call` waits.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        manifest: Manifest,
        policy: Policy,
        clock: Clock | None = None,
        state: FileStates | None = None,
        stand_in: Mapping[str, Executor] | None = None,
        above: WorkerSockets | None = None,
        reader: PolicyReader | None = None,
        acceptances: Acceptances | None = None,
        key: str = "",
        middleware: Sequence[object] = (),
        apps: Mapping[str, LocalApp] | None = None,
    ) -> None:
        self.settings, self.manifest, self.key, self.entered = settings, manifest, key, False
        clock, self.current = clock or SystemClock(), (current := CurrentPolicy())
        self._log = log = AuditLog(
            settings.audit_dir, clock, plan_of(settings.audit, current.permit, clock), is_read=manifest.is_read
        )
        self._running, self._background = InFlightCalls(), Background()
        self._meaning = meaning_of(settings, manifest)
        functions = make_function_runtime(settings.state_dir / "calls")
        exchanges = Exchanges(settings.sources, current.assigned)
        self._systems = lambda: systems_of(self._reloader.runtime.executors)
        self._checks = checks_of(settings, middleware, current.permit, clock, functions.apart)
        self.operations = status = Status(
            log=log,
            background=self._background,
            troubles=self._troubles,
            functions=functions,
            cut_off=self._running.cut_off,
            refusing=self._refusing,
            standing=self._standing,
            waiting=lambda: self.approvals.waiting(),  # noqa: PLW0108 - it is made below
            workers=None if above is None else WorkerMetrics(settings.state_dir / "metrics"),
            drain_s=settings.drain_s,
            spans=load_spans() if settings.spans else None,
            records=ProjectRecords(settings),
        )
        self.callers = Callers(current, status.note, exchanges=bool(exchanges))
        pauses, counts = pauses_of(settings), None if above is None else above.counts
        self._shared = shared = share(settings, clock, status.state_changed, pauses, self._background, counts)
        self.pausing = PauseControl(shared.pauses, pauses, log.append, clock, self.callers, manifest)
        departed = DepartedClients(
            shared.departures,
            secret=shared.ledger_key or (lambda: log.key),
            clock=clock,
            alone=above is None and settings.state is None,
        )
        self.approvals = Approvals(
            store=shared.invocations,
            log=log,
            current=current,
            departed=departed,
            grants=shared.grants,
            equal_calls=shared.equal_calls,
            pending_after_s=settings.pending_after_s,
        )
        kept = StoredFiles(settings.state_dir / "files", clock, settings.files.budget)
        files = AnswerFiles(kept, shown=settings.files.shown)
        self._devices = DeviceCalls(
            calls=self.approvals, log=log, clock=clock, background=self._background, files=files
        )
        dependencies = ExecutorDependencies(
            assigned=current.assigned,
            folder=settings.oauth_dir,
            clock=clock,
            functions=functions,
            commands=None if above is None else make_command_client(above.commands),
            inner=(inner := NestedCalls(current)),
            devices=self._devices,
            files=(sent := GatewayFiles(files, current, shared.pauses)),
            apps=apps or {},
        )
        make = partial(
            make_executors, settings.sources, permit=current.permit, dependencies=dependencies, tools=settings.tools
        )
        self._executors, pagings = stand_in or make(manifest), pagings_of(settings, manifest)
        stored = StoredAnswers(settings.state_dir / "answers.db", clock)
        self._answering = ResponseShaper(
            store=stored,
            files=files,
            pauses=shared.pauses,
            pagings=pagings,
            record=log.append,
            run=self._running.run,
        )
        self.tool_calls = inner.calls = self._made_calls(clock, sent, FileUploads(files, log.append))
        self._runner = Runner(
            approvals=self.approvals,
            pauses=shared.pauses,
            clock=clock,
            carry_out=self.tool_calls.carry_out,
            background=self._background,
            watch=shared.watch,
            lost=status.store_lost,
        )
        self.unknown_outcomes = UnknownOutcomes(
            directory=settings.audit_dir,
            manifest=manifest,
            notes=log,
            ledger=shared.ledger,
            waiting=shared.invocations,
            clock=clock,
            identity=lambda: current.compiled_policy.identity,
        )
        self._runtime = self._made_runtime(clock, exchanges.applies_to, pagings, sent, reader)
        acceptances = acceptances or Acceptances(settings)
        acceptances.shared = None if shared.accepted is None else shared.accepted.read
        self._reloader = status.reloader = PolicyReloader(
            policy, self._runtime, status.note, state, self._background, acceptances
        )
        self.monitoring = Monitoring(
            settings, current, clock, self._background, shared.buckets, self._standing, self.approvals
        )
        self._role_grants = self.approvals.role_grants = RoleGrants(
            shared.roles, log, current, clock, self._reloader.give, self._background
        )
        meaning = () if self._meaning is None else (self._meaning,)
        others = (self, self.pausing, self.unknown_outcomes, *meaning)
        self._reloader.catalog = catalog = CatalogReloader(
            self._reloader,
            lambda old, new: renewed_executors(make(new), self._reloader.runtime.executors, old, new),
            Observers(self._running, self.tool_calls, self._answering, others),
            lambda made, offers: with_added(made or self._reloader.runtime.executors, offers, functions),
        )
        self.tools = runtime_tools(catalog, shared, settings, log.append, clock, in_process=bool(key))

    def _made_calls(self, clock: Clock, sent: GatewayFiles, uploads: FileUploads) -> Calls:
        return Calls(
            running=self._running,
            answering=self._answering,
            discovery=Discovery(
                above=self.settings.search_above,
                clock=clock,
                meaning=self._meaning,
                operation=self.current.operation_of,
                graph=self.current.graph_of,
            ),
            fallbacks=fallbacks_of(self.settings, self.manifest),
            approvals=self.approvals,
            devices=self._devices,
            clock=clock,
            current=self.current,
            turns=self._shared.turns,
            make_seal=lambda: seal_of(seal_file(self.settings)),
            files=CallerFiles(
                self._answering,
                self.current,
                clock,
                uploads=uploads,
                sent=sent,
                resource_links=self.settings.resource_links,
            ),
            file_arguments=FileArguments(sent, uploads, self.settings.files.roots),
        )

    def _made_runtime(
        self,
        clock: Clock,
        exchanged: Callable[[Call], bool],
        pagings: Pagings,
        files: GatewayFiles,
        reader: PolicyReader | None,
    ) -> GatewayDependencies:
        shared, settings, manifest = self._shared, self.settings, self.manifest
        reader = reader or PolicyReader(settings.policies, settings.labels)
        return GatewayDependencies(
            settings=settings,
            manifest=manifest,
            known=manifest,
            read_policy=reader.read,
            without_revoked=reader.without_revoked,
            clock=clock,
            log=self._log,
            executors=self._executors,
            exchanged=exchanged,
            buckets=shared.buckets,
            upstreams=Upstreams(clock),
            histories=Histories(clock),
            shared_histories=shared.histories,
            pauses=shared.pauses,
            approvals=self.approvals,
            standing=self.approvals,
            key_sets=KeySets(make_fetch(self.current.permit), clock),
            caching=caching_of(self.settings, self.manifest, clock),
            files=files,
            pagings=pagings,
            ledger=shared.ledger,
            equal_calls=shared.equal_calls,
            vault=shared.vault,
            ledger_key=shared.ledger_key or (lambda: self._log.key),
            metrics=self.operations.metrics,
            current=self.current,
            checks=self._checks,
        )

    @classmethod
    def load(
        cls, path: str | Path = "toolgen.yaml", *, above: WorkerSockets | None = None, serving: bool = False
    ) -> Self:
        """Loads a project: generated/ as it was built, or the descriptions themselves where nothing was generated yet.

        One that is `serving` begins with the policy that was in force before where files of it are lost since (`toolgen policy accept`).
        Raises a `ToolgenError` naming file, line or pointer for whatever is wrong with toolgen.yaml, the catalog or the policy."""
        settings = load_settings(path)
        reader, acceptances = PolicyReader(settings.policies, settings.labels), Acceptances(settings, record=serving)
        state = file_states(settings)
        manifest = served_catalog(settings)
        files, missing = acceptances.first(read_files(settings.policies))
        state = replace(state, policies=() if missing else state.policies, files=files)
        try:
            policy = reader.read(files, manifest)
        except PolicyError as error:
            if not missing:
                raise
            message = f"files are lost since it was last in force ({'; '.join(missing)}), and what it was cannot be used any more"
            raise PolicyError(
                f"{message}: {error}", suggestion="put them back, or run `toolgen policy accept`"
            ) from error
        return cls(
            settings=settings,
            manifest=manifest,
            policy=policy,
            state=state,
            above=above,
            reader=reader,
            acceptances=acceptances,
        )

    @classmethod
    def from_openapi(
        cls,
        spec: str | Path | Mapping[str, Any],
        *,
        allow: Sequence[str] = ("read",),
        credentials: str | Mapping[str, Any] | None = None,
        server: str = "",
        name: str = "",
        record: str | Path | None = None,
        middleware: Sequence[object] = (),
    ) -> Self:
        """A gateway over one OpenAPI document (a path, a URL or the document), without a project: the principal `agent` may call the tools
        with the effects of `allow`, and requests reach the document's servers, or `server`, and no other place.

        `credentials` is the one credential that the document asks for, or several by security scheme, as under `auth:`. `record` is the
        folder of the audit log; without one it is in a temporary folder that goes with the gateway. `middleware` are checks around every
        call, the first outermost. Raises `ToolgenError`.
        """
        from toolgen.gateway.in_process import of_openapi  # noqa: PLC0415 - builds, which a project has done already

        return cls._in_process(
            of_openapi(spec, name=name, server=server, allow=allow, credentials=credentials, record=record), middleware
        )

    @classmethod
    def from_functions(
        cls,
        *functions: Callable[..., Any],
        allow: Sequence[str] = ("read", "write"),
        name: str = "functions",
        record: str | Path | None = None,
        middleware: Sequence[object] = (),
    ) -> Self:
        """A gateway over functions of this program, whose tools are called as they are. What `from_openapi` says holds here too.
        A function that `@tool` did not mark counts as one that writes. Raises `ConfigError` for one that cannot be a tool."""
        from toolgen.gateway.in_process import of_functions  # noqa: PLC0415 - as above

        return cls._in_process(of_functions(functions, name=name, allow=allow, record=record), middleware)

    @classmethod
    def from_asgi(
        cls,
        app: AsgiApp,
        openapi: Mapping[str, Any] | str | Path,
        *,
        allow: Sequence[str] = ("read",),
        credentials: str | Mapping[str, Any] | None = None,
        server: str = "http://localhost",
        name: str = "",
        record: str | Path | None = None,
        middleware: Sequence[object] = (),
    ) -> Self:
        """A gateway over an application of this process, which `openapi` describes. Calls reach it without a socket, and no other place.

        `server` is the URL that the application's requests have: its name is in their `Host` header. The lifespan of the application is
        the program's: have it running where it needs one. All else is as of `from_openapi`.
        """
        from toolgen.gateway.in_process import of_openapi  # noqa: PLC0415 - as above

        parts = of_openapi(openapi, name=name, server=server, allow=allow, credentials=credentials, record=record)
        (source,) = parts.settings.sources
        return cls._in_process(parts, middleware, {source: LocalApp(app=app, origin=server)})

    @classmethod
    def from_fastapi(cls, app: Any, **options: Any) -> Self:
        """Create a gateway as `from_asgi` does, with the OpenAPI document of a FastAPI application. `options` are those of `from_asgi`."""
        return cls.from_asgi(app, app.openapi(), **options)

    @classmethod
    def _in_process(
        cls, parts: InProcess, middleware: Sequence[object], apps: Mapping[str, LocalApp] | None = None
    ) -> Self:
        made = cls(
            settings=parts.settings,
            manifest=parts.manifest,
            policy=parts.policy,
            key=parts.key,
            middleware=middleware,
            apps=apps,
        )
        weakref.finalize(made, parts.discard)
        return made

    def __enter__(self) -> SyncGateway:
        self._synchronous = SyncGateway(self)
        return self._synchronous

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._synchronous.close()

    async def __aenter__(self) -> Self:
        self._refuse_closed()
        try:
            if self._meaning is not None:
                await self._meaning.open()
            self._log.open()
            self._log.end_abandoned()
            await self._shared.start()
            await self.tools.start(self._background)
            await self._role_grants.start()
            self._reloader.start()
            self._runner.start()
            self.operations.start()
            self.monitoring.start()
            if self._meaning is not None:
                self._meaning.start()
        except BaseException:
            await self._leave()
            raise
        self.entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.entered, self._is_closed = False, True
        await self._leave()

    @contextlib.asynccontextmanager
    async def short_session(self) -> AsyncIterator[Self]:
        """The gateway for one command: calls are made and recorded, but what others approved is left to a gateway that stays."""
        try:
            self._log.open()
            await self._shared.start()
            await self.tools.sync()
            await self._role_grants.refresh()
            yield self
        finally:
            await self._close()

    async def _leave(self) -> None:
        """Ends and closes whatever was begun."""
        self.operations.leave()
        meaning = () if self._meaning is None else (self._meaning.close,)
        watching = (self._role_grants.stop, self.tools.stop, self._reloader.stop, self.monitoring.stop)
        await each(*watching, self._runner.stop, *meaning, self._close)

    async def _close(self) -> None:
        self.operations.leave()
        executors = (executor.close for executor in self._reloader.runtime.executors.values())
        shared = (self._shared.close, self.operations.close, self._answering.close)
        running = (self._running.ended, self.approvals.background.close, self._runtime.key_sets.close)
        await each(*running, *executors, *shared, self._log.close)

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self.current.compiled_policy.policy

    async def call(
        self,
        name: str,
        arguments: JsonObject | None = None,
        *,
        principal: Principal | str | Unnamed = UNNAMED,
        session: str = "",
        connection: str = "",
        client: str = "",
        parent: str = "",
        idempotency_key: str = "",
        caller_connection: CallerConnection | None = None,
    ) -> Envelope:
        """Run a call as `SupportsToolCalls.call` does; without `principal`, as the only one. Raises `ConfigError` if there are several, or
        if the gateway is closed."""
        self._refuse_closed()
        if caller_connection is None:
            caller_connection = CallerConnection()
            caller_connection.local = True
        return await self.tool_calls.call(
            name,
            arguments or {},
            principal=self.callers.who(principal),
            session=session,
            connection=connection,
            client=client,
            parent=parent,
            idempotency_key=idempotency_key,
            caller_connection=caller_connection,
        )

    async def preview(
        self, name: str, arguments: JsonObject | None = None, *, principal: Principal | str | Unnamed = UNNAMED
    ) -> Envelope:
        """Return the request that the call would send, with secrets masked, after all guards. Sends, counts and records nothing."""
        return await self.tool_calls.preview(name, arguments or {}, principal=self.callers.who(principal))

    def asgi(self, *, hosts: Collection[str] = (), url: str = "") -> MountedApp:
        """MCP at `/mcp` and REST below `/v1` as an ASGI application, below whatever path it is mounted at.

        `hosts` are the names in the `Host` header that are answered, beside those of this machine and that of `url`, the origin by which
        agents know the gateway. The gateway opens with the server's lifespan, or with the first request where no lifespan is passed on.
        """
        from toolgen.gateway.asgi.app import App  # noqa: PLC0415 - front ends, which a program that only calls does not need
        from toolgen.gateway.asgi.mounted import MountedApp  # noqa: PLC0415
        from toolgen.gateway.asgi.request import LOOPBACK_HOSTS  # noqa: PLC0415

        names = LOOPBACK_HOSTS | {name.lower() for name in hosts}
        return MountedApp(self, App(self, hosts=names, proxies=self.settings.trusted_proxies, url=url))

    def principal(
        self, name: str, on_behalf_of: str | None = None, *, claims: Claims = NO_CLAIMS, user_claims: Claims = NO_CLAIMS
    ) -> Principal:
        """A principal by its id, for those who run the gateway. Raises `ConfigError` when there is none.
        `staff:ann` is a user of the issuer `staff`, with what `claims` in a token would make of her (`user_claims`: of its user)."""
        return self.callers.named(name, on_behalf_of, claims=claims, user_claims=user_claims)
