"""Gateways of several tenants in one process: each is loaded, opened, reloaded and closed on its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from toolgen.config.settings import ListenerSettings, load_tenant
from toolgen.config.tenant_separation import TenantSeparation
from toolgen.config.tenants import TenantSettings
from toolgen.core.background import each
from toolgen.core.errors import ConfigError, ToolgenError, place_of
from toolgen.core.tenant import working_for
from toolgen.frontends.http.app import App
from toolgen.frontends.http.tenants import TenantApp, TenantsApp
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.state.shared_state import WorkerSockets

__all__ = ["TenantsSite"]

_logger = logging.getLogger(__name__)
_AGAIN_S = 30.0


class _Served:
    """Gateway of a tenant with its application."""

    def __init__(self, gateway: Gateway, app: App) -> None:
        self.gateway = gateway
        self.app = app


class TenantsSite:
    """Site of several tenants.

    `above` has the sockets of each tenant to the supervisor, None in a process without one. If this is the `first` start, a tenant that
    cannot be served ends it with `ToolgenError`. Later, when a worker is replaced, such a tenant is logged, and tried again.
    """

    def __init__(
        self,
        settings: ListenerSettings,
        make_app: Callable[[Gateway], App],
        *,
        hosts: frozenset[str],
        above: Mapping[str, WorkerSockets] | None = None,
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
        self._retrying: asyncio.Task[None] | None = None
        self._repairing = asyncio.Lock()
        self._certificate_end: Callable[[], float | None] | None = None
        for name in self._tenants:
            self._attempt(name)
        names = {urlsplit(one.gateway.settings.url).hostname or "" for one in self._loaded.values()} - {""}
        self.handlers = TenantsApp(self._apps.values(), hosts | names)

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
        if self._faults:
            self._retrying = asyncio.create_task(self._retry())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._retrying is not None:
            self._retrying.cancel()
            await asyncio.gather(self._retrying, return_exceptions=True)
        await self._leave_all()

    def leave(self) -> Callable[[], None]:
        """Prepare the shutdown of all gateways; return a function that ends the calls still running."""
        self.handlers.stopping = True
        ends = [one.gateway.operations.leave() for one in self._open.values()]

        def end() -> None:
            for one in ends:
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
        """Read the policy of each tenant again, and try to load those that are not served."""
        reloads = []
        for name, one in self._open.items():
            with working_for(name):
                reloads.append(asyncio.create_task(one.gateway.operations.reload(complete=False)))
        await asyncio.gather(*reloads, return_exceptions=True)
        await self._repair()

    def show_certificate(self, end: Callable[[], float | None]) -> None:
        """Report the end of the certificate in the metrics of all tenants."""
        self._certificate_end = end
        for one in self._open.values():
            one.gateway.operations.metrics.certificate_end = end

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
        if self._above is not None and (above := self._above.get(tenant.name)) is None:
            raise ConfigError("was added after the start", suggestion="start the gateway again")
        return Gateway.load(tenant.project, above=above, serving=True, settings=settings, tenant=tenant.name)

    async def _begin(self, name: str) -> None:
        """Open the gateway of a tenant, and serve it. Raises as `_attempt` does."""
        one = self._loaded[name]
        try:
            with working_for(name):
                await one.gateway.__aenter__()
        except Exception as error:  # noqa: BLE001 - as above
            del self._loaded[name]
            self._fail(name, error)
            return
        if self._faults.pop(name, ""):
            with working_for(name):
                _logger.warning("the tenant is served again")
        if self._certificate_end is not None:
            one.gateway.operations.metrics.certificate_end = self._certificate_end
        self._open[name] = one
        self._apps[name].app = one.app

    async def _leave_all(self) -> None:
        def closing(name: str, one: _Served) -> Callable[[], Awaitable[None]]:
            async def close() -> None:
                with working_for(name):
                    await one.gateway.__aexit__(None, None, None)

            return close

        opened, self._open = self._open, {}
        await each(*(closing(name, one) for name, one in opened.items()))

    async def _retry(self) -> None:
        """Try again to load the tenants that are not served, until all are."""
        while self._faults:
            await asyncio.sleep(_AGAIN_S)
            await self._repair()

    async def _repair(self) -> None:
        """Load and open the tenants that are not served. Loading is done in a thread, because the others are served meanwhile."""
        async with self._repairing:
            for name in list(self._faults):
                await asyncio.to_thread(self._attempt, name)
                if name in self._loaded:
                    await self._begin(name)

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
