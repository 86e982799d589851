"""Gateways of several tenants in one process: each is loaded, opened, reloaded and closed on its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from msgspec.structs import replace

from toolgen.config.settings import ListenerSettings, load_tenant, load_tenants
from toolgen.config.tenant_separation import TenantSeparation
from toolgen.config.tenants import TenantSettings
from toolgen.core.background import cancel, each
from toolgen.core.errors import ConfigError, ToolgenError, place_of
from toolgen.core.project_modules import forget_modules
from toolgen.core.tenant import working_for
from toolgen.frontends.http.app import App
from toolgen.frontends.http.tenants import TenantApp, TenantsApp
from toolgen.frontends.python.gateway import Gateway
from toolgen.frontends.server.lifeline import SupervisorSockets

__all__ = ["TenantsSite", "read_list", "shared_keys"]

_logger = logging.getLogger(__name__)
_AGAIN_S = 30.0


class _Served:
    """Gateway of a tenant with its application."""

    def __init__(self, gateway: Gateway, app: App) -> None:
        self.gateway = gateway
        self.app = app


class TenantsSite:
    """Site of several tenants.

    `above` has the sockets of tenants to the supervisor, None in a process without one. If this is the `first` start, a tenant that
    cannot be served ends it with `ToolgenError`. Later, when a worker is replaced, such a tenant is logged, and tried again.
    """

    def __init__(
        self,
        settings: ListenerSettings,
        make_app: Callable[[Gateway], App],
        *,
        hosts: frozenset[str],
        above: SupervisorSockets | None = None,
        first: bool = True,
    ) -> None:
        self._settings = settings
        self._make_app = make_app
        self._above = above
        self._first = first
        self._separation = TenantSeparation()
        self._tenants = {tenant.name: tenant for tenant in settings.tenants}
        self._apps = {tenant.name: TenantApp(tenant.name, tenant.in_flight) for tenant in settings.tenants}
        self._loaded: dict[str, _Served] = {}
        self._open: dict[str, _Served] = {}
        self._faults: dict[str, str] = {}
        self._draining: dict[str, asyncio.Task[None]] = {}
        self._cut_offs: dict[str, Callable[[], None]] = {}
        self._retrying: asyncio.Task[None] | None = None
        self._repairing = asyncio.Lock()
        self._certificate_end: Callable[[], float | None] | None = None
        for name in self._tenants:
            self._attempt(name)
        self._hosts = hosts
        self.handlers = TenantsApp(self._apps.values(), hosts | self._names())

    @property
    def gateways(self) -> Mapping[str, Gateway]:
        """Return the gateways that were loaded, by the names of their tenants."""
        return {name: one.gateway for name, one in self._loaded.items()}

    @property
    def drain_s(self) -> float:
        """Return the seconds that calls in flight have to end."""
        return self._settings.drain_s

    async def __aenter__(self) -> Self:
        try:
            for name in list(self._loaded):
                await self._begin(name)
        except BaseException:
            await self._leave_all()
            raise
        self._first = False
        self._retry_later()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._retrying is not None:
            await cancel(self._retrying)
        await asyncio.gather(*self._draining.values(), return_exceptions=True)
        await self._leave_all()

    def leave(self) -> Callable[[], None]:
        """Prepare the shutdown of all gateways; return a function that ends the calls still running."""
        self.handlers.stopping = True
        ends = [one.gateway.operations.leave() for one in self._open.values()]

        def end() -> None:
            for one in (*ends, *self._cut_offs.values()):
                one()

        return end

    def end_streams(self) -> None:
        """End streams that have no end of their own."""
        for one in self._open.values():
            one.app.end_streams()

    async def close(self) -> None:
        """Close the resources of the front ends."""
        await each(*(one.app.close for one in self._open.values()))

    async def reload(self) -> None:
        """Read the list of tenants and the policy of each again, and try to load those that are not served."""
        await self._follow_list()
        reloads = []
        for name, one in self._open.items():
            with working_for(name):
                reloads.append(asyncio.create_task(one.gateway.operations.reload(complete=False)))
        await asyncio.gather(*reloads, return_exceptions=True)
        await self._repair()
        if self._above is not None:
            self._above.keep_only(self._faults)

    def show_certificate(self, end: Callable[[], float | None]) -> None:
        """Report the end of the certificate in the metrics of all tenants."""
        self._certificate_end = end
        for one in self._open.values():
            one.gateway.operations.metrics.certificate_end = end

    async def _follow_list(self) -> None:
        """Serve the tenants that the file lists by now: those that are listed no more end their calls, and `_repair` loads new ones. If the
        file cannot be read, the tenants of before are served."""
        try:
            settings = await asyncio.to_thread(read_list, self._settings)
        except Exception as error:  # noqa: BLE001 - the tenants of before are served whatever the file is now
            said = str(error) if isinstance(error, ToolgenError) else place_of(error)
            _logger.error("the list of tenants cannot be read, so nothing of it changes: %s", said)  # noqa: TRY400 - it says all there is
            return
        async with self._repairing:  # no tenant is being loaded now
            self._follow(settings)

    def _follow(self, settings: ListenerSettings) -> None:
        listed = {tenant.name: tenant for tenant in settings.tenants}
        for name, known in list(self._tenants.items()):
            if name not in listed or listed[name].project != known.project:
                self._remove(name)
        for name, tenant in listed.items():
            if name in self._tenants:
                self._apps[name].most = tenant.in_flight
            else:
                self._apps[name] = TenantApp(name, tenant.in_flight)
                self.handlers.add(self._apps[name])
                self._faults[name] = ""
            self._tenants[name] = tenant
        self._settings = settings

    def _remove(self, name: str) -> None:
        """Serve a tenant no more: further requests are answered like those of an unknown one, and its calls end in the time to drain."""
        del self._tenants[name]
        self.handlers.remove(name)
        app = self._apps.pop(name)
        self._faults.pop(name, None)
        self._loaded.pop(name, None)
        if (one := self._open.pop(name, None)) is not None:
            self._draining[name] = asyncio.create_task(self._drain(name, app, one))
        elif name not in self._draining:
            self._separation.remove(name)

    async def _drain(self, name: str, app: TenantApp, one: _Served) -> None:
        """Close the gateway of a tenant that was removed, once its calls have ended. What it had is free for other tenants then."""
        with working_for(name):
            _logger.warning("the tenant is not served any more; its calls have %g s to end", self.drain_s)
            self._cut_offs[name] = cut_off = one.gateway.operations.leave()
            one.app.end_streams()
            await app.drain(self.drain_s, cut_off)
            try:
                await each(one.app.close, lambda: one.gateway.__aexit__(None, None, None))
            except Exception as error:  # noqa: BLE001 - a fault of one tenant must not end the others
                _logger.error("the tenant did not end in order: %s", place_of(error))  # noqa: TRY400 - the text may hold anything
        settings = one.gateway.settings
        forget_modules(settings.path.parent, settings.generated)
        self._separation.remove(name)
        del self._draining[name], self._cut_offs[name]
        if self._faults and not self.handlers.stopping:
            await self._repair()

    def _attempt(self, name: str) -> None:
        """Load the project of a tenant. Raises `ToolgenError` at the first start; later a fault is logged."""
        try:
            with working_for(name):
                gateway = self._load(self._tenants[name])
                self._loaded[name] = _Served(gateway, self._make_app(gateway))
        except Exception as error:  # noqa: BLE001 - a fault of one tenant must not end the others
            self._fail(name, error)

    def _load(self, tenant: TenantSettings) -> Gateway:
        settings = load_tenant(tenant, self._settings)
        self._separation.add(tenant.name, settings)
        above = None
        if self._above is not None and (above := self._above.of(tenant.name)) is None:
            raise ConfigError("has no sockets to the supervisor", suggestion="send SIGHUP to `toolgen serve`")
        return Gateway.load(tenant.project, above=above, serving=True, settings=settings, tenant=tenant.name)

    async def _begin(self, name: str) -> None:
        """Open the gateway of a tenant, and serve it. Raises as `_attempt` does."""
        one = self._loaded[name]
        try:
            if self._above is not None:
                self._above.taken(name)
            with working_for(name):
                await one.gateway.__aenter__()
        except Exception as error:  # noqa: BLE001 - as above
            del self._loaded[name]
            self._fail(name, error)
            return
        if (fault := self._faults.pop(name, None)) is not None:
            with working_for(name):
                _logger.warning("the tenant is served%s", " again" if fault else "")
                for warning in shared_keys(self.gateways, name):
                    _logger.warning("%s", warning)
        if self._certificate_end is not None:
            one.gateway.operations.metrics.certificate_end = self._certificate_end
        self._open[name] = one
        self._apps[name].app = one.app
        self.handlers.hosts = self._hosts | self._names()

    def _names(self) -> frozenset[str]:
        """Return the host names in the addresses of tenants."""
        return frozenset(urlsplit(one.gateway.settings.url).hostname or "" for one in self._loaded.values()) - {""}

    async def _leave_all(self) -> None:
        def closing(name: str, one: _Served) -> Callable[[], Awaitable[None]]:
            async def close() -> None:
                with working_for(name):
                    await one.gateway.__aexit__(None, None, None)

            return close

        opened, self._open = self._open, {}
        await each(*(closing(name, one) for name, one in opened.items()))

    def _retry_later(self) -> None:
        if self._faults and (self._retrying is None or self._retrying.done()):
            self._retrying = asyncio.create_task(self._retry())

    async def _retry(self) -> None:
        """Try again to load the tenants that are not served, until all are."""
        while self._faults:
            await asyncio.sleep(_AGAIN_S)
            await self._repair()

    async def _repair(self) -> None:
        """Load and open the tenants that are not served. Loading is done in a thread, because the others are served meanwhile."""
        async with self._repairing:
            for name in list(self._faults):
                if name not in self._faults or name in self._draining:
                    continue  # removed meanwhile, or what it needs is not free yet
                await asyncio.to_thread(self._attempt, name)
                if name in self._loaded:
                    await self._begin(name)
        self._retry_later()

    def _fail(self, name: str, error: Exception) -> None:
        """Log the reason why a tenant is not served, once for each reason. Raises it at the first start."""
        fault = _fault_of(self._tenants[name], error) if isinstance(error, ToolgenError) else error
        if self._first:
            raise fault from error
        said = str(fault) if isinstance(fault, ToolgenError) else place_of(fault)
        if self._faults.get(name) != said:
            with working_for(name):
                _logger.error("the tenant is not served: %s", said)
        self._faults[name] = said


def _fault_of(tenant: TenantSettings, error: ToolgenError) -> ConfigError:
    """Return the error of a project with the name and the folder of its tenant."""
    where = f"{tenant.project.parent}: {error.where}" if error.where else str(tenant.project.parent)
    return ConfigError(f"tenant {tenant.name}: {error.message}", where=where, suggestion=error.suggestion)


def read_list(before: ListenerSettings) -> ListenerSettings:
    """Return the settings with the tenants that their file lists by now; others stay until the next start. Raises `ConfigError`."""
    settings = load_tenants(before.path)
    if settings is None:
        raise ConfigError("has no `tenants` any more", where=str(before.path), suggestion="start the gateway again")
    if replace(settings, tenants=before.tenants) != before:
        _logger.warning("%s: settings under `gateway` have changed, which takes a new start", before.path)
    return replace(before, tenants=settings.tenants)


def shared_keys(gateways: Mapping[str, Gateway], of: str = "") -> Iterator[str]:
    """Yield a warning for each key that two tenants know: whoever has it may call both. With `of`, only those of this tenant."""
    owners: dict[str, str] = {}
    for name, gateway in gateways.items():
        for principal, entry in gateway.policy.principals.items():
            for key in entry.keys:
                other = owners.setdefault(key.sha256, name)
                if other != name and of in {"", name, other}:
                    yield f"tenant {name}: the key {key.id} of {principal} is a key of tenant {other} too; give each its own"
