"""Puts the front ends in one process: MCP and REST over HTTP, or MCP over standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Coroutine, Iterator
from typing import BinaryIO

import uvicorn
import uvloop

from toolgen.errors import ConfigError
from toolgen.gateway.app import App
from toolgen.gateway.connection import CappedProtocol
from toolgen.gateway.facade import Facade
from toolgen.gateway.http import ANY_HOST, LOOPBACK_HOSTS
from toolgen.gateway.mcp_stdio import serve_streams
from toolgen.model.call import Principal
from toolgen.settings import ClientCertificates

__all__ = ["serve", "serve_stdio"]

_BACKLOG = 2048
_MOST_CONNECTIONS = 4096
_KEEP_ALIVE_S = 75
_SHUTDOWN_S = 30


def serve(
    gateway: Facade, *, host: str = "127.0.0.1", port: int = 8080, certificates: ClientCertificates | None = None
) -> None:
    """Serves until SIGINT or SIGTERM, then lets the calls in flight end. `port` 0 takes a free one; the ready line names it.

    Raises `ConfigError` when the address cannot be had, or when it is public and nobody could authenticate.
    """
    if not _loopback(host) and not gateway.has_credentials:
        raise ConfigError(
            f"refusing to listen on {host}: no principal has a credential",
            suggestion="give a principal in policies/ an api_key, or listen on 127.0.0.1",
        )
    listener = _bind(host, port)
    try:
        app = App(
            gateway, hosts=LOOPBACK_HOSTS | {host.lower()} if _loopback(host) else ANY_HOST, certificates=certificates
        )
        _run(_serve(gateway, listener, app))
    finally:
        listener.close()


def serve_stdio(gateway: Facade, principal: Principal) -> None:
    """Serves MCP to the one process at the other end of standard input and output, as `principal`, until it closes its end."""
    _run(_serve_stdio(gateway, principal))


async def _serve(gateway: Facade, listener: socket.socket, app: App) -> None:
    config = uvicorn.Config(
        app,
        loop="none",
        http=CappedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_SHUTDOWN_S,
    )
    async with gateway:
        with _reloading(gateway):
            await _Server(config, _url(listener)).serve(sockets=[listener])


async def _serve_stdio(gateway: Facade, principal: Principal) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: task and task.cancel())
    with _private_streams() as (source, sink), contextlib.suppress(asyncio.CancelledError):
        async with gateway:
            with _reloading(gateway):
                await serve_streams(gateway, principal, source, sink)


@contextlib.contextmanager
def _reloading(gateway: Facade) -> Iterator[None]:
    """SIGHUP reads the policy again, as daemons do; a change of its files is noticed without one."""
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[bool]]()

    def begin() -> None:
        task = loop.create_task(gateway.reload())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    loop.add_signal_handler(signal.SIGHUP, begin)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


@contextlib.contextmanager
def _private_streams() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Standard input and output for the messages alone.

    Meanwhile descriptor 0 is empty and 1 is stderr, so that a tool's stray read or print cannot take from the stream or break into it.
    """
    sys.stdout.flush()
    source, sink = io.FileIO(os.dup(0), "rb", closefd=False), io.FileIO(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield source, sink
    finally:
        sys.stdout.flush()
        os.dup2(source.fileno(), 0)  # the duplicate stays open: a thread may wait in it until the process ends
        os.dup2(sink.fileno(), 1)
        sink.close()


class _Server(uvicorn.Server):
    """uvicorn, which says when it accepts connections and leaves ending the process to us."""

    def __init__(self, config: uvicorn.Config, url: str) -> None:
        super().__init__(config)
        self._url = url

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        print(f"toolgen is listening on {self._url}", file=sys.stderr, flush=True)  # noqa: T201

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn raises the signal again once it has stopped, which would end the process before the audit log is closed."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)


def _run(main: Coroutine[object, object, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


def _bind(host: str, port: int) -> socket.socket:
    """A listening socket, made before anything is started so that an address in use is found out at once."""
    if not 0 <= port <= 65_535:  # getaddrinfo would wrap it around
        raise ConfigError(
            f"cannot listen on port {port}: ports go from 0 to 65535", suggestion="choose another with --port"
        )
    if not host:
        raise ConfigError("cannot listen on an empty host", suggestion="name an address with --host")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError, OverflowError) as error:
        raise ConfigError(
            f"cannot listen on {host}: it is no address of this machine", suggestion="see --host"
        ) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except (OSError, OverflowError) as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {host} port {port}: {_why(error)}", suggestion="choose another with --port"
        ) from error
    return listener


def _why(error: Exception) -> str:
    match error:
        case OSError(errno=errno.EADDRINUSE):
            return "the port is already in use"
        case OSError(errno=errno.EACCES):
            return "this user may not use the port"
        case OSError(errno=errno.EADDRNOTAVAIL):
            return "it is no address of this machine"
        case _:
            return "the system does not allow it"


def _loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
