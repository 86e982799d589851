"""Servers of a supervisor for all its workers: of the commands of MCP servers, and of counts, for one project or for each tenant."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping

from toolgen.config.settings import ListenerSettings, Settings, load_tenant
from toolgen.core.background import cancel, each
from toolgen.core.clock import SystemClock
from toolgen.core.errors import ToolgenError, place_of
from toolgen.frontends.server.tenants import read_list
from toolgen.gateway.calls.executors import make_command_server
from toolgen.gateway.state.shared_state import WorkerSockets
from toolgen.state.shared_counts import CountServer

__all__ = ["SharedServers"]

_logger = logging.getLogger(__name__)
_CLOSING_S = 10.0
"""Time after the drain time of a removed tenant in which the workers close its gateway."""


class _ProjectServers:
    """Servers for all workers of one project; of counts unless those are in Redis."""

    def __init__(self, settings: Settings) -> None:
        self.project = settings.path
        self._commands = make_command_server(settings.sources)
        self._counts = CountServer(SystemClock()) if settings.state is None else None

    async def connect(self, given: contextlib.ExitStack) -> WorkerSockets:
        """Return the sockets for one more worker, which are open in this process until `given` is closed."""
        commands = given.enter_context(await self._commands.connect()).fileno()
        if self._counts is None:
            return WorkerSockets(commands=commands)
        return WorkerSockets(commands=commands, counts=given.enter_context(await self._counts.connect()).fileno())

    async def close(self) -> None:
        await self._commands.close()
        if self._counts is not None:
            await self._counts.close()


class SharedServers:
    """Servers of a project, or of each tenant by its name. `version` grows when the tenants change."""

    def __init__(self, settings: Settings | ListenerSettings, projects: Mapping[str, Settings]) -> None:
        self._settings = settings
        self.version = 0
        given = {"": settings} if isinstance(settings, Settings) else projects
        self._servers = {name: _ProjectServers(one) for name, one in given.items()}
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def follows(self) -> bool:
        """Return True if there are tenants, whose list may change."""
        return isinstance(self._settings, ListenerSettings)

    async def connect(self, given: contextlib.ExitStack) -> dict[str, WorkerSockets]:
        """Return the sockets for a worker, which are open in this process until `given` is closed."""
        return {name: await one.connect(given) for name, one in tuple(self._servers.items())}

    async def follow(self) -> None:
        """Have servers for the tenants that the file lists by now. The workers log why one is not served."""
        if not isinstance(self._settings, ListenerSettings):
            return
        try:
            self._settings = await asyncio.to_thread(read_list, self._settings)
        except Exception as error:  # noqa: BLE001 - the tenants of before are served whatever the file is now
            said = str(error) if isinstance(error, ToolgenError) else place_of(error)
            _logger.error("the list of tenants cannot be read, so nothing of it changes: %s", said)  # noqa: TRY400 - it says all there is
            return
        listed = {tenant.name: tenant for tenant in self._settings.tenants}
        for name, one in tuple(self._servers.items()):
            if name not in listed or listed[name].project.resolve() != one.project.resolve():
                self._remove(name)
        for name, tenant in listed.items():
            if name not in self._servers:
                with contextlib.suppress(Exception):
                    settings = await asyncio.to_thread(load_tenant, tenant, self._settings)
                    self._servers[name] = _ProjectServers(settings)
                    self.version += 1

    async def close(self) -> None:
        """Close all servers."""
        await cancel(*self._closing)
        await each(*(one.close for one in self._servers.values()))

    def _remove(self, name: str) -> None:
        """Close the servers of a tenant once the workers have ended its calls."""
        one, delay_s = self._servers.pop(name), self._settings.drain_s + _CLOSING_S
        self.version += 1

        async def close() -> None:
            try:
                await asyncio.sleep(delay_s)
            finally:
                await one.close()

        task = asyncio.create_task(close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
