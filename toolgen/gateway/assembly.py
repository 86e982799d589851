"""Assembly of a gateway: it builds every object of a project in dependency order. No object is changed after it was built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from toolgen.audit.log import AuditLog
from toolgen.config.policies import policy_reader
from toolgen.config.settings import Settings
from toolgen.connectors.executor import Executor, LocalApp
from toolgen.connectors.functions.signature import FunctionTool
from toolgen.connectors.health import Monitored, SystemHealth
from toolgen.core.background import Background, FaultLog
from toolgen.core.clock import Clock
from toolgen.gateway.accounts.accounts import Accounts
from toolgen.gateway.accounts.assembled import make_accounts
from toolgen.gateway.accounts.removed_principals import RemovedPrincipals
from toolgen.gateway.approvals.decisions import Approvals
from toolgen.gateway.approvals.grants import ApprovalGrants
from toolgen.gateway.approvals.requests import ApprovalRequests
from toolgen.gateway.approvals.role_grants import RoleGrants
from toolgen.gateway.audit.checkpoint_sinks import plan_of
from toolgen.gateway.audit.gateway_events import GatewayEvents
from toolgen.gateway.audit.reader import ProjectRecords
from toolgen.gateway.calls.answer_files import AnswerFiles
from toolgen.gateway.calls.call_preparation import CallPreparation
from toolgen.gateway.calls.call_service import Callers, Calls
from toolgen.gateway.calls.changed_roots import ChangedRoots
from toolgen.gateway.calls.context_calls import ContextCalls
from toolgen.gateway.calls.context_updates import ResourceUpdates
from toolgen.gateway.calls.departed_clients import DepartedClients
from toolgen.gateway.calls.executors import (
    ExecutorDependencies,
    Renewed,
    make_command_client,
    make_executors,
    make_function_runtime,
    renewed_executors,
    with_added,
)
from toolgen.gateway.calls.file_reading import CallerFiles
from toolgen.gateway.calls.file_uploads import FileArguments, FileUploads, GatewayFiles
from toolgen.gateway.calls.followed_resources import FollowedResources
from toolgen.gateway.calls.inner_calls import NestedCalls
from toolgen.gateway.calls.response_shaping import ResponseShaper
from toolgen.gateway.catalog.catalog_reloader import CatalogReloader
from toolgen.gateway.catalog.runtime_tools import RuntimeTools, runtime_tools
from toolgen.gateway.catalog.search.hybrid import SemanticSearch, meaning_of
from toolgen.gateway.catalog.tool_discovery import Discovery
from toolgen.gateway.catalog.tool_settings import caching_of, fallbacks_of, pagings_of
from toolgen.gateway.identity import KeySets
from toolgen.gateway.identity.identity_providers import fetch_key_set
from toolgen.gateway.identity.token_exchanges import Exchanges
from toolgen.gateway.metrics.metrics import Metrics
from toolgen.gateway.metrics.monitoring import Monitoring
from toolgen.gateway.metrics.status import Functions, Status, load_spans
from toolgen.gateway.metrics.worker_metrics import WorkerMetrics
from toolgen.gateway.operations.approval_runner import Runner
from toolgen.gateway.operations.background_calls import BackgroundCalls
from toolgen.gateway.operations.call_results import CallResults
from toolgen.gateway.operations.device_calls import DeviceCalls
from toolgen.gateway.operations.suspended_calls import SuspendedCalls
from toolgen.gateway.operations.unknown_outcomes import UnknownOutcomes
from toolgen.gateway.operations.waiting_calls import WaitingCalls
from toolgen.gateway.policies.compiled_policy import CurrentPolicy, GatewayDependencies
from toolgen.gateway.policies.own_checks import OwnChecks, checks_of
from toolgen.gateway.policies.pause_control import PauseControl
from toolgen.gateway.policies.policy_acceptance import Acceptances, LocalAcceptances
from toolgen.gateway.policies.policy_history import PolicyHistory
from toolgen.gateway.policies.policy_reloader import FileStates, PolicyReloader
from toolgen.gateway.state.shared_state import Shared, WorkerSockets, outbox_of, pauses_of, seal_file, share
from toolgen.model.manifest import Manifest
from toolgen.pipeline.middleware import InFlightCalls
from toolgen.policy.document.policy import Policy, PolicyReader
from toolgen.state.encryption import seal_of
from toolgen.state.history import Histories
from toolgen.state.pauses import Pauses
from toolgen.state.rate_limits import Upstreams
from toolgen.state.seen import SeenPolicies
from toolgen.state.stored_answers import StoredAnswers
from toolgen.state.stored_files import StoredFiles

if TYPE_CHECKING:
    from toolgen.gateway.audit.entry_shipper import EntryShipper
    from toolgen.gateway.calls.executors import CommandClient
    from toolgen.gateway.metrics.tracing import Spans
    from toolgen.gateway.notify.notifier import Notifier
    from toolgen.gateway.sign_in.server import SignInServer
    from toolgen.gateway.telemetry.exporter import Telemetry

__all__ = ["AssemblyOptions", "GatewayParts", "assemble"]


class AssemblyOptions(Struct, frozen=True, kw_only=True):
    """Options of a gateway, as `Gateway` has them. A gateway made `in_process` has tools without a prefix. `tenant` is its name beside
    other gateways of the process, "" if it is the only one."""

    clock: Clock
    state: FileStates | None = None
    stand_in: Mapping[str, Executor] | None = None
    above: WorkerSockets | None = None
    reader: PolicyReader | None = None
    acceptances: LocalAcceptances | None = None
    in_process: bool = False
    middleware: Sequence[object] = ()
    apps: Mapping[str, LocalApp] | None = None
    tenant: str = ""


class _Base(Struct, frozen=True, kw_only=True):
    """Objects that need only the project: the audit log, the shared state, and the callers. `local` are this machine's pauses."""

    settings: Settings
    manifest: Manifest
    clock: Clock
    current: CurrentPolicy
    log: AuditLog
    running: InFlightCalls
    updates: ResourceUpdates
    commands: CommandClient | None
    background: Background
    meaning: SemanticSearch | None
    events: GatewayEvents
    metrics: Metrics
    exchanges: Exchanges
    local: Pauses
    shared: Shared
    callers: Callers
    accounts: Accounts
    sign_in: SignInServer | None
    above: WorkerSockets | None
    telemetry: Telemetry | None
    tenant: str


class _CallParts(Struct, frozen=True, kw_only=True):
    """Objects that calls pass before and after the pipeline."""

    waiting: WaitingCalls
    approvals: Approvals
    requests: ApprovalRequests
    suspended: SuspendedCalls
    devices: DeviceCalls
    answering: ResponseShaper
    sent: GatewayFiles
    preparation: CallPreparation
    calls: Calls


class _Execution(Struct, frozen=True, kw_only=True):
    """Executors of calls. `make` creates those of another catalog, and `with_functions` adds the executor of functions that a program
    added."""

    functions: Functions
    checks: OwnChecks | None
    executors: Mapping[str, Executor]
    make: Callable[[Manifest], Mapping[str, Executor]]
    with_functions: Callable[[Mapping[str, Executor], Mapping[str, FunctionTool]], Mapping[str, Executor]]


class GatewayParts(Struct, frozen=True, kw_only=True):
    """Objects of a gateway."""

    current: CurrentPolicy
    log: AuditLog
    running: InFlightCalls
    context: ContextCalls
    background: Background
    meaning: SemanticSearch | None
    shared: Shared
    callers: Callers
    accounts: Accounts
    sign_in: SignInServer | None
    removed: RemovedPrincipals
    approvals: Approvals
    devices: DeviceCalls
    answering: ResponseShaper
    calls: Calls
    checks: OwnChecks | None
    executors: Mapping[str, Executor]
    runtime: GatewayDependencies
    reloader: PolicyReloader
    catalog: CatalogReloader
    role_grants: RoleGrants
    runner: Runner
    pausing: PauseControl
    unknown_outcomes: UnknownOutcomes
    monitoring: Monitoring
    tools: RuntimeTools
    status: Status


def assemble(settings: Settings, manifest: Manifest, policy: Policy, options: AssemblyOptions) -> GatewayParts:
    """Return the objects of a gateway over a project. Nothing is opened yet."""
    base = _base(settings, manifest, options)
    current, log, shared, background = base.current, base.log, base.shared, base.background
    parts = _call_parts(base)
    execution = _execution(base, parts, options)
    runtime = _runtime(base, parts, execution, options.reader or policy_reader(settings.policies, settings.labels))
    local = options.acceptances or LocalAcceptances(settings)
    accepted = Acceptances(local, None if shared.accepted is None else shared.accepted.read)
    reloader = PolicyReloader(policy, runtime, base.events.note, options.state, background, accepted)
    catalog = _catalog(base, execution, reloader)
    tools = runtime_tools(catalog, shared, settings, log.append, base.clock, in_process=options.in_process)
    role_grants = RoleGrants(shared.roles, log, current, base.clock, reloader.give, background)
    runner = _runner(base, parts)
    monitoring = Monitoring(
        history=PolicyHistory(SeenPolicies(settings.state_dir / "seen.db"), current, base.clock, background),
        buckets=shared.buckets,
        systems=lambda: _systems_of(reloader.runtime.executors),
        notifier=_notifier(base, parts.approvals, role_grants) if settings.notify else None,
        telemetry=base.telemetry,
        shippers=_shippers(base),
    )
    own_troubles = (runner.trouble, parts.devices.trouble, role_grants.trouble, tools.trouble)
    troubles = (*own_troubles, *shared.troubles, *monitoring.troubles)
    status = _status(base, parts, execution, reloader, catalog, monitoring, troubles)
    followed = FollowedResources(current, lambda: reloader.runtime.executors, base.updates, log.append)
    roots = ChangedRoots(current, lambda: reloader.runtime.executors, base.updates, base.clock)
    return GatewayParts(
        current=current,
        log=log,
        running=base.running,
        context=ContextCalls(current, base.running, base.updates, followed, parts.calls, roots, settings.mcp_servers),
        background=background,
        meaning=base.meaning,
        shared=shared,
        callers=base.callers,
        accounts=base.accounts,
        sign_in=base.sign_in,
        removed=RemovedPrincipals(base.accounts, base.callers, current, lambda: reloader.unsettled),
        approvals=parts.approvals,
        devices=parts.devices,
        answering=parts.answering,
        calls=parts.calls,
        checks=execution.checks,
        executors=execution.executors,
        runtime=runtime,
        reloader=reloader,
        catalog=catalog,
        role_grants=role_grants,
        runner=runner,
        pausing=PauseControl(shared.pauses, base.local, log.append, base.clock, base.callers, current.manifest),
        unknown_outcomes=UnknownOutcomes(
            directory=settings.audit_dir,
            manifest=current.manifest,
            notes=log,
            ledger=shared.ledger,
            waiting=shared.invocations,
            clock=base.clock,
            identity=lambda: current.compiled_policy.identity,
        ),
        monitoring=monitoring,
        tools=tools,
        status=status,
    )


def _runner(base: _Base, parts: _CallParts) -> Runner:
    return Runner(
        calls=parts.waiting,
        current=base.current,
        requests=parts.requests,
        suspended=parts.suspended,
        background_calls=parts.approvals.background,
        departed=parts.approvals.departed,
        recoveries={"device": parts.devices.recover},
        pauses=base.shared.pauses,
        clock=base.clock,
        carry_out=parts.calls.carry_out,
        background=base.background,
        watch=base.shared.watch,
        lost=base.events.store_lost,
    )


def _status(
    base: _Base,
    parts: _CallParts,
    execution: _Execution,
    reloader: PolicyReloader,
    catalog: CatalogReloader,
    monitoring: Monitoring,
    troubles: tuple[FaultLog, ...],
) -> Status:
    settings = base.settings
    return Status(
        log=base.log,
        background=base.background,
        events=base.events,
        metrics=base.metrics,
        troubles=troubles,
        functions=execution.functions,
        cut_off=base.running.cut_off,
        stop_asking=parts.waiting.stop_asking,
        waiting=parts.requests.waiting,
        shared=base.shared,
        current=base.current,
        reloader=reloader,
        catalog=catalog,
        monitoring=monitoring,
        workers=None if base.above is None else WorkerMetrics(settings.state_dir / "metrics"),
        drain_s=settings.drain_s,
        spans=_spans(base),
        records=ProjectRecords(settings),
        tenant=base.tenant,
    )


def _base(settings: Settings, manifest: Manifest, options: AssemblyOptions) -> _Base:
    clock, above, running = options.clock, options.above, InFlightCalls()
    commands = None if above is None else make_command_client(above.commands)
    current, background, local = CurrentPolicy(), Background(), pauses_of(settings)
    log = AuditLog(settings.audit_dir, clock, plan_of(settings.audit, current.permit, clock), is_read=manifest.is_read)
    events, exchanges = GatewayEvents(log), Exchanges(settings.sources, current.assigned)
    counts = None if above is None else above.counts
    callers = Callers(current, events.note, exchanges=bool(exchanges))
    return _Base(
        settings=settings,
        manifest=manifest,
        clock=clock,
        current=current,
        log=log,
        running=running,
        updates=ResourceUpdates(commands),
        commands=commands,
        background=background,
        meaning=meaning_of(settings, manifest),
        events=events,
        metrics=Metrics(),
        exchanges=exchanges,
        local=local,
        shared=share(settings, clock, events.state_changed, local, background, counts),
        callers=callers,
        accounts=make_accounts(
            settings,
            current=current,
            record=log.append,
            clock=clock,
        ),
        sign_in=None if settings.sign_in is None else _sign_in(settings, current, callers, log, clock),
        above=above,
        telemetry=_telemetry(settings, log, current, background, options.tenant),
        tenant=options.tenant,
    )


def _sign_in(
    settings: Settings, current: CurrentPolicy, callers: Callers, log: AuditLog, clock: Clock
) -> SignInServer | None:
    from toolgen.gateway.sign_in.assembled import make_sign_in  # noqa: PLC0415 - where people sign in through the gateway

    return make_sign_in(settings, permit=current.permit, callers=callers, record=log.append, clock=clock)


def _call_parts(base: _Base) -> _CallParts:
    settings, clock, current, log, shared = base.settings, base.clock, base.current, base.log, base.shared
    departed = DepartedClients(
        shared.departures,
        secret=shared.ledger_key or (lambda: log.key),
        clock=clock,
        alone=base.above is None and settings.state is None,
    )
    waiting = WaitingCalls(
        store=shared.invocations,
        log=log,
        approval_text=lambda: current.compiled_policy.policy.approval.text,
        equal_calls=shared.equal_calls,
    )
    grants = ApprovalGrants(store=shared.grants, log=log, current=current)
    background = BackgroundCalls(waiting, settings.pending_after_s)
    approvals = Approvals(calls=waiting, current=current, grants=grants, background=background, departed=departed)
    kept = StoredFiles(settings.state_dir / "files", clock, settings.files.budget)
    files = AnswerFiles(kept, shown=settings.files.shown)
    devices = DeviceCalls(calls=waiting, current=current, log=log, clock=clock, background=base.background, files=files)
    answering = ResponseShaper(
        store=StoredAnswers(settings.state_dir / "answers.db", clock),
        files=files,
        pauses=shared.pauses,
        record=log.append,
        run=base.running.run,
    )
    sent, uploads = GatewayFiles(files, current, shared.pauses), FileUploads(files, log.append)
    links, file_arguments = settings.resource_links, FileArguments(sent, uploads, settings.files.roots)
    caller_files = CallerFiles(answering, current, clock, uploads=uploads, sent=sent, resource_links=links)
    preparation, calls = _calls(base, waiting, approvals, devices, answering, caller_files, file_arguments)
    return _CallParts(
        waiting=waiting,
        approvals=approvals,
        requests=ApprovalRequests(calls=waiting, current=current, grants=grants),
        suspended=SuspendedCalls(waiting, current, base.accounts),
        devices=devices,
        answering=answering,
        sent=sent,
        preparation=preparation,
        calls=calls,
    )


def _calls(
    base: _Base,
    waiting: WaitingCalls,
    approvals: Approvals,
    devices: DeviceCalls,
    answering: ResponseShaper,
    files: CallerFiles,
    file_arguments: FileArguments,
) -> tuple[CallPreparation, Calls]:
    settings, clock, current = base.settings, base.clock, base.current
    discovery = Discovery(
        above=settings.search_above,
        clock=clock,
        meaning=base.meaning,
        operation=current.operation_of,
        graph=current.graph_of,
    )
    results = CallResults(waiting, clock)
    preparation = CallPreparation(
        discovery=discovery,
        results=results,
        files=files,
        answer_files=answering.files,
        file_arguments=file_arguments,
        clock=clock,
    )
    calls = Calls(
        running=base.running,
        answering=answering,
        discovery=discovery,
        approvals=approvals,
        devices=devices,
        clock=clock,
        current=current,
        turns=base.shared.turns,
        make_seal=lambda: seal_of(seal_file(settings)),
        files=files,
        preparation=preparation,
        results=results,
        accounts=base.accounts.sources,
    )
    return preparation, calls


def _execution(base: _Base, parts: _CallParts, options: AssemblyOptions) -> _Execution:
    settings, current = base.settings, base.current
    inner = NestedCalls(current, parts.preparation, parts.calls, parts.suspended)
    functions = make_function_runtime(settings.state_dir / "calls", inner, base.updates.put)
    dependencies = ExecutorDependencies(
        assigned=current.assigned,
        folder=settings.oauth_dir,
        clock=base.clock,
        functions=functions,
        commands=base.commands,
        inner=inner,
        devices=parts.devices,
        files=parts.sent,
        accounts=base.accounts.tokens,
        apps=options.apps or {},
        page_done=base.updates.page_done,
    )
    make = partial(
        make_executors, settings.sources, permit=current.permit, dependencies=dependencies, tools=settings.tools
    )
    return _Execution(
        functions=functions,
        checks=checks_of(settings, options.middleware, current.permit, base.clock, functions.apart),
        executors=options.stand_in or make(base.manifest),
        make=make,
        with_functions=partial(with_added, functions=functions),
    )


def _runtime(base: _Base, parts: _CallParts, execution: _Execution, reader: PolicyReader) -> GatewayDependencies:
    settings, manifest, clock, log, shared = base.settings, base.manifest, base.clock, base.log, base.shared
    return GatewayDependencies(
        settings=settings,
        manifest=manifest,
        known=manifest,
        read_policy=reader.read,
        without_revoked=reader.without_revoked,
        clock=clock,
        log=log,
        executors=execution.executors,
        exchanged=base.exchanges.applies_to,
        buckets=shared.buckets,
        upstreams=Upstreams(clock),
        histories=Histories(clock),
        shared_histories=shared.histories,
        pauses=shared.pauses,
        approvals=parts.requests,
        suspended=parts.suspended,
        standing=parts.waiting,
        key_sets=KeySets(
            partial(fetch_key_set, permit=base.current.permit),
            clock,
            None if base.sign_in is None else base.sign_in.tokens,
        ),
        caching=caching_of(settings, manifest, clock),
        files=parts.sent,
        fallbacks=fallbacks_of(settings, manifest),
        pagings=pagings_of(settings, manifest),
        ledger=shared.ledger,
        equal_calls=shared.equal_calls,
        vault=shared.vault,
        ledger_key=shared.ledger_key or (lambda: log.key),
        metrics=base.metrics,
        current=base.current,
        checks=execution.checks,
        spans=None if base.telemetry is None else base.telemetry.traces,
        stage_spans=None if base.telemetry is None else base.telemetry.stages,
    )


def _shippers(base: _Base) -> Sequence[EntryShipper]:
    """Return the shippers of the record, one for each destination."""
    settings = base.settings
    if not settings.audit.streams:
        return ()
    # Imported here, because most projects have no destination.
    from toolgen.gateway.audit.destinations.registry import make_destination  # noqa: PLC0415
    from toolgen.gateway.audit.entry_shipper import EntryShipper, OcsfEncoder, as_recorded  # noqa: PLC0415

    effects = {name: tool.effect.value for name, tool in base.manifest.tools.items()}
    return [
        EntryShipper(
            one.name,
            make_destination(one, permit=base.current.permit, clock=base.clock),
            directory=settings.audit_dir,
            folder=settings.state_dir / "streams",
            clock=base.clock,
            background=base.background,
            encode=OcsfEncoder(effects) if one.format == "ocsf" else as_recorded,
        )
        for one in settings.audit.streams
    ]


def _spans(base: _Base) -> Spans | None:
    """Return the receiver of spans of requests: a tracing library's, or the exporter's."""
    if base.settings.spans:
        return load_spans()
    return None if base.telemetry is None else base.telemetry.traces


def _telemetry(
    settings: Settings, log: AuditLog, current: CurrentPolicy, background: Background, tenant: str
) -> Telemetry | None:
    if settings.telemetry is None:
        return None
    from toolgen.gateway.telemetry.exporter import load_telemetry  # noqa: PLC0415 - where there is a collector

    return load_telemetry(
        settings.telemetry,
        worker=lambda: log.stream,
        permit=current.permit,
        background=background,
        tenant=tenant,
    )


def _catalog(base: _Base, execution: _Execution, reloader: PolicyReloader) -> CatalogReloader:
    def renewed(before: Manifest, after: Manifest) -> Renewed:
        return renewed_executors(execution.make(after), reloader.runtime.executors, before, after)

    return CatalogReloader(
        reloader,
        renewed,
        lambda made, offers: execution.with_functions(made or reloader.runtime.executors, offers),
        base.running,
        base.meaning,
    )


def _notifier(base: _Base, approvals: Approvals, role_grants: RoleGrants) -> Notifier:
    from toolgen.gateway.notify.notifier import Notifier  # noqa: PLC0415 - where there are webhooks

    return Notifier(
        settings=base.settings.notify,
        outbox=outbox_of(base.settings, base.clock),
        approvals=approvals,
        role_grants=role_grants,
        permit=base.current.permit,
        clock=base.clock,
        background=base.background,
    )


def _systems_of(executors: Mapping[str, Executor]) -> Mapping[str, tuple[SystemHealth, ...]]:
    """Return the health of the systems behind sources that have circuit breakers and concurrency limits."""
    return {source: one.health() for source, one in executors.items() if isinstance(one, Monitored)}
