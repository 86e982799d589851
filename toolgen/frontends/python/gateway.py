"""Facade `Gateway` over catalog, pipeline and audit log, for front ends, the command line and Python programs."""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from msgspec.structs import replace

from toolgen.config.policies import policy_reader
from toolgen.config.settings import Settings
from toolgen.config.settings import load as load_settings
from toolgen.connectors.executor import AsgiApp, Executor, LocalApp
from toolgen.core.background import each
from toolgen.core.clock import Clock, SystemClock
from toolgen.core.errors import ConfigError, PolicyError
from toolgen.frontends.python.synchronous import SyncGateway, closed
from toolgen.gateway.assembly import AssemblyOptions, assemble
from toolgen.gateway.calls.call_service import UNNAMED, Unnamed
from toolgen.gateway.catalog.gateway_tools import GatewayTools
from toolgen.gateway.catalog.served_catalog import served_catalog
from toolgen.gateway.identity import NO_CLAIMS, Claims
from toolgen.gateway.policies.policy_acceptance import LocalAcceptances
from toolgen.gateway.policies.policy_reloader import FileStates, file_states
from toolgen.gateway.state.shared_state import WorkerSockets
from toolgen.model.account_need import chosen_account
from toolgen.model.call import Principal
from toolgen.model.manifest import Manifest
from toolgen.model.result import Envelope
from toolgen.model.schema import JsonObject
from toolgen.pipeline.middleware import CallerConnection
from toolgen.policy.document.policy import Policy, PolicyReader
from toolgen.policy.document.policy_files import read_files

if TYPE_CHECKING:
    from toolgen.frontends.http.mounted import MountedApp
    from toolgen.frontends.python.in_process import InProcess, RateLimits

__all__ = ["Gateway"]

_logger = logging.getLogger(__name__)


class Gateway:
    """Gateway of a project, or of descriptions and functions of a program: catalog, policy, executors and audit log.

    An asynchronous context manager: entering opens the audit log, leaving waits for the calls in flight and closes everything.
    `tools` lists tools, and adds and removes some while the gateway is open. `key` is the API key of the only principal of a gateway that
    was made in Python. In code that is not asynchronous, `with gateway as calls:` gives a `SyncGateway`, whose `call` waits.
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
        acceptances: LocalAcceptances | None = None,
        key: str = "",
        middleware: Sequence[object] = (),
        apps: Mapping[str, LocalApp] | None = None,
        tenant: str = "",
    ) -> None:
        """Create the gateway. Front ends and adapters use `callers`, `tool_calls` and `operations`.

        `stand_in` has executors by source, in place of those of the settings: for trial runs that reach nobody. `above` has the sockets of
        one of several workers to the supervisor. `reader` reads the policy from its files. `middleware` are checks of the program, inside
        those of the project. `apps` are applications of this process by source. `tenant` names it beside other gateways of the process.
        """
        self.settings, self.key, self.entered = settings, key, False
        options = AssemblyOptions(
            clock=clock or SystemClock(),
            state=state,
            stand_in=stand_in,
            above=above,
            reader=reader,
            acceptances=acceptances,
            in_process=bool(key),
            middleware=middleware,
            apps=apps,
            tenant=tenant,
        )
        parts = assemble(settings, manifest, policy, options)
        self.current, self.callers, self.role_grants = parts.current, parts.callers, parts.role_grants
        self.accounts = parts.accounts
        self.sign_in = parts.sign_in
        self.approvals, self.tool_calls, self._tools = parts.approvals, parts.calls, parts.tools
        self.tools = GatewayTools(parts.tools, parts.callers, parts.calls)
        self.operations, self.monitoring = parts.status, parts.monitoring
        self.pausing, self.unknown_outcomes = parts.pausing, parts.unknown_outcomes
        self._log, self._running, self._background = parts.log, parts.running, parts.background
        self._meaning, self._shared, self._checks = parts.meaning, parts.shared, parts.checks
        self._devices, self._answering, self._executors = parts.devices, parts.answering, parts.executors
        self._runtime, self._reloader, self._catalog = parts.runtime, parts.reloader, parts.catalog
        self._runner, self._removed, self._is_closed = parts.runner, parts.removed, False
        self.context = parts.context
        self.context.servers.check()
        if self.sign_in is not None:
            self.sign_in.clients.check(self.callers.principals)
        self._mounted: list[MountedApp] = []

    @classmethod
    def load(
        cls,
        path: str | Path = "toolgen.yaml",
        *,
        above: WorkerSockets | None = None,
        serving: bool = False,
        settings: Settings | None = None,
        tenant: str = "",
    ) -> Self:
        """Load a project: the built generated/, or the descriptions themselves if nothing was built yet.

        If it is `serving` and policy files are lost, it begins with the policy that was in force before (`toolgen policy accept`). Raises a
        `ToolgenError` with file, line or pointer for faults of toolgen.yaml, the catalog or the policy. `settings` are those of a file that
        was read already, and `tenant` is its name beside other gateways of the process.
        """
        settings = settings or load_settings(path)
        reader, acceptances = (
            policy_reader(settings.policies, settings.labels),
            LocalAcceptances(settings, record=serving),
        )
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
            tenant=tenant,
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
        limits: RateLimits = (),
    ) -> Self:
        """Create a gateway of one OpenAPI document (a path, a URL or the document), without a project: the principal `agent` may call the
        tools with the effects of `allow`, and requests reach only the document's servers, or `server`.

        `credentials` is the only credential that the document requires, or several by security scheme, as under `auth:`. `record` is the
        folder of the audit log; without one it is in a temporary folder that is deleted with the gateway. `middleware` are checks around
        every call, the first outermost. Calls have no rate limit but `limits`: a rate for each principal ("60/min"), or several, or
        mappings as under `limits:` of a policy. Raises `ToolgenError`.
        """
        from toolgen.frontends.python.in_process import of_openapi  # noqa: PLC0415 - builds, which a project has done already

        return cls._in_process(
            of_openapi(
                spec, name=name, server=server, allow=allow, credentials=credentials, record=record, limits=limits
            ),
            middleware,
        )

    @classmethod
    def from_functions(
        cls,
        *functions: Callable[..., Any],
        allow: Sequence[str] = ("read", "write"),
        name: str = "functions",
        record: str | Path | None = None,
        middleware: Sequence[object] = (),
        limits: RateLimits = (),
    ) -> Self:
        """Create a gateway of functions of this program; each tool has the name of its function. The options are those of `from_openapi`. A
        function without `@tool` counts as writing. Raises `ConfigError` for one that cannot be a tool."""
        from toolgen.frontends.python.in_process import of_functions  # noqa: PLC0415 - as above

        return cls._in_process(
            of_functions(functions, name=name, allow=allow, record=record, limits=limits), middleware
        )

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
        limits: RateLimits = (),
    ) -> Self:
        """Create a gateway of an application of this process, which `openapi` describes. Calls reach only this application,
        without a socket.

        `server` is the base URL of the application's requests: its host is in their `Host` header. The program has to run the lifespan of
        the application, if it needs one. The other options are those of `from_openapi`.
        """
        from toolgen.frontends.python.in_process import of_openapi  # noqa: PLC0415 - as above

        parts = of_openapi(
            openapi, name=name, server=server, allow=allow, credentials=credentials, record=record, limits=limits
        )
        (source,) = parts.settings.sources
        return cls._in_process(parts, middleware, {source: LocalApp(app=app, origin=server)})

    @classmethod
    def from_fastapi(cls, app: Any, **options: Any) -> Self:
        """Create a gateway as `from_asgi` does, with the OpenAPI document of a FastAPI application. `options` are those of `from_asgi`.
        Raises `ConfigError` for anything else."""
        if not callable(getattr(app, "openapi", None)):
            raise ConfigError(
                "from_fastapi needs a FastAPI application", suggestion="of others use from_asgi(app, document)"
            )
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
        self._synchronous = SyncGateway(self, self.tools)
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
            await self._log.end_abandoned(self._runner.waits_as)
            await self._shared.start(self._tools.known)
            await self._tools.start(self._background)
            await self.role_grants.start()
            self._reloader.start()
            self._catalog.start(self._background)
            self._runner.start()
            self._removed.start(self._background)
            self.context.updates.hear()
            self.operations.start()
            self.monitoring.start(self.operations.families)
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
        await each(*(mounted.close for mounted in self._mounted), self._leave)

    @contextlib.asynccontextmanager
    async def short_session(self) -> AsyncIterator[Self]:
        """Open the gateway for one command: calls are made and recorded; calls that others approved are left to a running gateway."""
        try:
            self._log.open()
            await self._shared.start(self._tools.known)
            await self._tools.sync()
            await self.role_grants.refresh()
            yield self
        finally:
            await self._close()

    async def _leave(self) -> None:
        """Stop and close everything that was started."""
        self.operations.leave()
        meaning = () if self._meaning is None else (self._meaning.close,)
        watching = (self.role_grants.stop, self._tools.stop, self._catalog.stop, self._reloader.stop)
        await each(*watching, self.monitoring.stop, self._removed.stop, self._runner.stop, *meaning, self._close)

    async def _close(self) -> None:
        self.operations.leave()
        executors = (executor.close for executor in self._reloader.runtime.executors.values())
        shared = (self._shared.close, self.operations.close, self._answering.close, self.accounts.close)
        signing_in = () if self.sign_in is None else (self.sign_in.close,)
        running = (self._running.ended, self.approvals.background.close, self._runtime.key_sets.close)
        await each(*running, self.context.close, *executors, *shared, *signing_in, self._log.close)

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise closed()

    @property
    def manifest(self) -> Manifest:
        """Return the catalog in force."""
        return self.current.manifest()

    @property
    def policy(self) -> Policy:
        """Return the policy in force."""
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
        account: str = "",
        caller_connection: CallerConnection | None = None,
    ) -> Envelope:
        """Run a call, and return its answer; refusals and errors are answers too. Without `principal` the policy's only one calls.
        `account` is the name of the person's account to use, of several at the system.

        Raises `ConfigError` if there are several principals, or if the gateway is closed.
        """
        self._refuse_closed()
        caller = self.callers.who(principal)
        if account:
            caller = chosen_account(self.callers.named(caller) if isinstance(caller, str) else caller, account)
        if caller_connection is None:
            caller_connection = CallerConnection()
            caller_connection.local = True
        return await self.tool_calls.call(
            name,
            arguments or {},
            principal=caller,
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
        """Return MCP at `/mcp`, REST below `/v1` and the console at `/console` as an ASGI application, for any path to mount it at.

        A gateway that was made in Python has no console, as nobody could sign in to it. `hosts` are the names in the `Host` header that are
        answered, beside those of this machine, of `console.url` and of `url`, the origin by which agents know the gateway. The gateway
        opens with the server's lifespan, or with the first request where no lifespan is passed on.
        """
        from toolgen.frontends.console.app import console_of  # noqa: PLC0415 - a program that only calls does not need it
        from toolgen.frontends.http.app import App  # noqa: PLC0415
        from toolgen.frontends.http.mounted import MountedApp  # noqa: PLC0415
        from toolgen.frontends.http.request import LOOPBACK_HOSTS  # noqa: PLC0415
        from toolgen.frontends.sign_in.opening import open_sign_in  # noqa: PLC0415

        names = LOOPBACK_HOSTS | {name.lower() for name in hosts}
        console_url = self.settings.console.url
        names |= {urlsplit(console_url).hostname or ""} if console_url else set()
        origin = url or ("" if self.sign_in is None else self.settings.url)
        app = App(self, hosts=names, proxies=self.settings.trusted_proxies, url=origin)
        if not self.key:
            app.open_console(partial(console_of, self), console_url, apps_host=self.settings.console.apps_host)
            open_sign_in(app, self.sign_in, self)
        mounted = MountedApp(self, app)
        self._mounted.append(mounted)
        return mounted

    def principal(
        self, name: str, on_behalf_of: str | None = None, *, claims: Claims = NO_CLAIMS, user_claims: Claims = NO_CLAIMS
    ) -> Principal:
        """Return a principal by its id, for operators of the gateway. Raises `ConfigError` if there is none. `staff:ann` is a user of the
        issuer `staff`, with the roles and attributes that a token with `claims` would give (`user_claims`: those of the user it acts for).
        """
        return self.callers.named(name, on_behalf_of, claims=claims, user_claims=user_claims)
