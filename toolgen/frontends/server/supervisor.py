"""Supervisor of several gateway processes on one port: it starts them, runs the commands of MCP servers for all of them, counts limits for
them without Redis, and serves nothing itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping

import msgspec

from toolgen.config.settings import ListenerSettings, Settings
from toolgen.core.background import cancel
from toolgen.core.errors import ConfigError
from toolgen.frontends.server.event_loop import new_loop
from toolgen.frontends.server.lifeline import descriptors_of, give_sockets, lifeline_pair
from toolgen.frontends.server.logs import Logs
from toolgen.frontends.server.shared_servers import SharedServers
from toolgen.frontends.server.signals import Stop
from toolgen.frontends.server.sockets import bind_shared, reopen, url_of
from toolgen.frontends.server.tls import ServerCertificate
from toolgen.frontends.server.worker import READY, Orders

__all__ = ["MAX_WORKERS", "check_workers", "serve_workers"]

_logger = logging.getLogger(__name__)

MAX_WORKERS = 64
_MIN_PAUSE_S = 0.5
_MAX_PAUSE_S = 30.0
_STABLE_S = 60.0
"""Lifetime after which a worker counts as healthy: the next one is started without delay."""
_HUNG_S = 5.0
"""Time after the end of draining after which a worker that still runs is killed."""
SILENT_S = 15.0
"""Time without a heartbeat after which a worker is killed: it would keep its share of the connections for ever."""
_TICK_S = 1.0
_SIGNALS = tuple(number for number in signal.Signals if number.name in {"SIGINT", "SIGTERM", "SIGHUP"})


def check_workers(count: int) -> None:
    """Raise `ConfigError` for an invalid number of processes."""
    if not 1 <= count <= MAX_WORKERS:
        raise ConfigError(f"{count} workers: must be 1 to {MAX_WORKERS}", suggestion="use one for each processor core")
    if count > 1 and os.name == "nt":
        raise ConfigError(
            "several workers do not run on Windows: no socket is passed on to them there",
            suggestion="use `--workers 1`, or several gateways behind a proxy with `state: redis://…`",
        )


def serve_workers(
    settings: Settings | ListenerSettings,
    *,
    host: str,
    port: int,
    count: int,
    projects: Mapping[str, Settings] | None = None,
    logs: Logs = ("json", "info"),
    silent_s: float = SILENT_S,
) -> bool:
    """Serve a project, or the `projects` of several tenants by their names, in `count` processes until SIGINT or SIGTERM, which each
    handles like a single one; returns True if all ended cleanly.

    A dead worker is replaced, after growing pauses for repeated deaths; one whose event loop has not run for `silent_s` is killed first.
    SIGHUP goes to all, after they were given sockets for the tenants that the file lists by then. Raises `ConfigError` if the address
    cannot be used, or if a worker does not start at first.
    """
    if settings.tls is not None:
        ServerCertificate(settings.tls)  # once here, instead of once by each worker
    listeners = bind_shared(host, port, count)
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            above = SharedServers(settings, projects or {})
            return runner.run(_Workers(settings, above, host, listeners, logs, silent_s).run())
    finally:
        for listener in listeners:
            listener.close()


class _Workers:
    """Worker processes, by the number of their socket."""

    def __init__(
        self,
        settings: Settings | ListenerSettings,
        above: SharedServers,
        host: str,
        listeners: list[socket.socket],
        logs: Logs,
        silent_s: float,
    ) -> None:
        self._logs = logs
        self._silent_s = silent_s
        self._config = settings.path
        self._tls = settings.tls is not None
        self._above = above
        self._host = host
        self._listeners = listeners
        self._family, self._address = listeners[0].family, listeners[0].getsockname()
        self._running: dict[int, Process] = {}
        self._ready: set[int] = set()
        self._stopping = asyncio.Event()
        self._up = asyncio.Event()
        self._fine = True
        self._stop: Stop | None = None
        self._drain_s = settings.drain_s
        self._lifelines: dict[int, socket.socket] = {}
        self._reloading: asyncio.Task[None] | None = None
        self._again = False

    async def run(self) -> bool:
        loop, stop = asyncio.get_running_loop(), Stop()
        self._stop = stop
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._pass_on, number)
        tasks = [asyncio.create_task(self._keep(index)) for index in range(len(self._listeners))]
        killer = asyncio.create_task(self._kill_hung())
        try:
            await asyncio.wait(tasks)
            killer.cancel()
        finally:
            if self._reloading is not None:
                await cancel(self._reloading)
            await self._above.close()
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
        for task in tasks:
            task.result()
        if not self._up.is_set() and not self._fine:
            raise ConfigError("not every worker came up, so none serves", suggestion="see the messages above")
        _logger.info("stopped: %s%s", stop.said(), "" if self._fine else "; not every worker ended in order")
        return self._fine

    def _pass_on(self, number: signal.Signals) -> None:
        if number == signal.SIGHUP and self._above.follows:
            self._reload_later()
            return
        if number != signal.SIGHUP and self._stop is not None:
            self._stop.hear(number)
        if number != signal.SIGHUP and not self._stopping.is_set():
            self._stopping.set()
            for listener in self._listeners:  # otherwise the port would stay open after the workers have closed it
                listener.close()
        for index, process in self._running.items():
            # A starting worker reads the policy anyway, and has nothing to drain: the signal's default ends it.
            if number != signal.SIGHUP or index in self._ready:
                process.send_signal(number)

    def _reload_later(self) -> None:
        """Reload once more after a reload that is under way, which may have read the file of before."""
        self._again = True
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.create_task(self._reload())

    async def _reload(self) -> None:
        """Give the workers their sockets for the tenants that the file lists by now, and let them reload."""
        while self._again:
            self._again = False
            await self._above.follow()
            for index in tuple(self._ready):
                await self._renew(index)

    async def _renew(self, index: int) -> None:
        """Give a worker sockets for all tenants, of which it uses those that it needs, and let it reload."""
        with contextlib.ExitStack() as given:
            for name, sockets in (await self._above.connect(given)).items():
                if index in self._ready and not give_sockets(self._lifelines[index], name, sockets):
                    _logger.error("worker %d takes no sockets for a tenant", index + 1)
        if index in self._ready:
            self._running[index].send_signal(signal.SIGHUP)

    async def _kill_hung(self) -> None:
        """Kill workers that still run some time after they should have drained: a hanging one must not keep the port."""
        await self._stopping.wait()
        await asyncio.sleep(self._drain_s + _HUNG_S)
        for index, process in self._running.items():
            _say(f"worker {index + 1} does not end; it is killed")
            process.kill()

    async def _keep(self, index: int) -> None:
        """Run one worker after the other until the end."""
        loop, pause = asyncio.get_running_loop(), 0.0
        while not self._stopping.is_set():
            began = loop.time()
            code = await self._one(index)
            if self._stopping.is_set():
                self._fine = self._fine and (code == 0 or (code == -signal.SIGTERM and not self._up.is_set()))
                return
            if not self._up.is_set():
                self._fine = False
                self._pass_on(signal.SIGTERM)
                return
            stable = loop.time() - began >= _STABLE_S
            pause = 0.0 if stable else min(_MAX_PAUSE_S, max(_MIN_PAUSE_S, 2 * pause))
            _say(f"worker {index + 1} ended ({_how(code)}); another is started" + (f" in {pause:g} s" if pause else ""))
            if pause > _MIN_PAUSE_S:
                self._close(index)
            try:
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
            except TimeoutError:
                self._open(index)

    def _close(self, index: int) -> None:
        """Close the listening socket of a worker that does not start, so that the other workers get its connections."""
        if sys.platform == "linux":
            self._listeners[index].close()

    def _open(self, index: int) -> None:
        if self._listeners[index].fileno() < 0:
            self._listeners[index] = reopen(self._family, self._address)

    async def _one(self, index: int) -> int:
        """Run a worker process until it ends; return its exit code."""
        listener = self._listeners[index]
        with contextlib.ExitStack() as given:
            above, version = await self._above.connect(given), self._above.version
            lifeline, theirs = (given.enter_context(one) for one in lifeline_pair())
            if self._stopping.is_set():
                return 0
            orders = Orders(
                config=str(self._config),
                listener=listener.fileno(),
                host=self._host,
                above=above,
                first=not self._up.is_set(),
                logs=self._logs,
            )
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *_same_path(),
                "-m",
                "toolgen.frontends.server.worker",
                msgspec.json.encode(orders).decode(),
                stdin=theirs.fileno(),
                stdout=PIPE,
                pass_fds=(listener.fileno(), *(fd for one in above.values() for fd in descriptors_of(one))),
                start_new_session=True,  # Ctrl-C of a terminal reaches it once, through this process
            )
            lifeline = lifeline.dup()  # without end in this block
        self._running[index], self._lifelines[index] = process, lifeline
        if self._stopping.is_set():
            process.send_signal(signal.SIGTERM)
        try:
            if process.stdout is None or await process.stdout.readline() != READY:
                return await process.wait()
            self._ready.add(index)
            self._announce()
            if version != self._above.version:
                self._reload_later()
            watching = asyncio.create_task(self._kill_if_silent(index, process, process.stdout))
            try:
                return await process.wait()
            finally:
                watching.cancel()
        finally:
            lifeline.close()
            del self._running[index], self._lifelines[index]
            self._ready.discard(index)

    async def _kill_if_silent(self, index: int, process: Process, beats: asyncio.StreamReader) -> None:
        """Kill a worker that is stopped or hangs.

        Only the seconds in which this process runs are counted: if all were stopped together (a debugger, a frozen container, a sleeping
        laptop), a worker has the full time to respond.
        """
        heard = asyncio.Event()
        hearing = asyncio.create_task(_hear(beats, heard))
        try:
            silent = 0.0
            while silent < self._silent_s:
                await asyncio.sleep(_TICK_S)
                silent = 0.0 if heard.is_set() else silent + _TICK_S
                heard.clear()
            _logger.error(
                "worker %d (process %d) is killed: its event loop has not run for %g s (it is stopped, or a function blocks it)",
                index + 1,
                process.pid,
                self._silent_s,
            )
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        finally:
            hearing.cancel()

    def _announce(self) -> None:
        if not self._up.is_set() and not self._stopping.is_set() and len(self._ready) == len(self._listeners):
            self._up.set()
            _say(f"toolgen is listening on {url_of(self._listeners[0], tls=self._tls)}")


async def _hear(beats: asyncio.StreamReader, heard: asyncio.Event) -> None:
    while await beats.read(4096):
        heard.set()


def _same_path() -> tuple[str, ...]:
    """Return the Python option that stops a worker from importing from the current folder, if this process does not either."""
    here = sys.path[:1] in ([""], [os.getcwd()])
    return () if here else ("-P",)


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)  # noqa: T201
