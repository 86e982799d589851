"""Front ends of one process: MCP and REST over HTTP, or MCP over standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import Any, BinaryIO

from msgspec import Struct

from toolgen.config.gateway import Networks, TlsFiles
from toolgen.config.settings import ClientCertificates, ListenerSettings, Settings
from toolgen.core.descriptors import open_descriptor
from toolgen.core.errors import ConfigError, place_of
from toolgen.core.garbage import freeze_objects
from toolgen.core.system_modules import system_module
from toolgen.frontends.console.app import console_of
from toolgen.frontends.http.app import App
from toolgen.frontends.http.connection import HttpConnection
from toolgen.frontends.http.connections import MAX_COUNT, RESERVE, Connections, HttpServer
from toolgen.frontends.http.cross_origin import CrossOrigin
from toolgen.frontends.http.request import ANY_HOST, LOOPBACK_HOSTS
from toolgen.frontends.mcp.stdio import serve_streams
from toolgen.frontends.python.gateway import Gateway
from toolgen.frontends.server.event_loop import new_loop
from toolgen.frontends.server.lifeline import Lifeline, SupervisorSockets
from toolgen.frontends.server.signals import Stop, hear_signal, hears_signals, ignore_signal
from toolgen.frontends.server.site import GatewaySite, Site
from toolgen.frontends.server.sockets import BACKLOG, bind, is_loopback, url_of
from toolgen.frontends.server.tenants import TenantsSite
from toolgen.frontends.server.tls import HANDSHAKES, ServerCertificate, TlsConnection
from toolgen.frontends.sign_in.opening import open_sign_in
from toolgen.gateway.protocol import Facade
from toolgen.model.call import Principal

__all__ = [
    "Front",
    "Pulse",
    "check_reach",
    "gateway_site",
    "say_ready",
    "serve",
    "serve_site",
    "serve_stdio",
    "serve_worker",
    "tenants_site",
]

_resource = system_module("resource")
_logger = logging.getLogger(__name__)

GRACE_S = 2.0
BEAT_S = 1.0
_EXIT_S = 2.0
# Files of the audit log, connections to systems and databases, and new connections before others are closed for them.
_OTHER_FILES = 512
_YOUNG = 20_000  # objects: at the default of 700, a few calls in flight would be traversed every few calls


class Front(Struct, frozen=True, kw_only=True):
    """HTTP settings of the gateway. `certificates`: proxies whose client certificate headers are trusted. `proxies`: those whose client
    address headers are trusted. `url`: public origin of the gateway, "" if not set. `grace_s`: seconds in which calls are still accepted
    after SIGTERM, None if not set. `tls`: files for TLS in the gateway itself. `origins`: origins of web pages that may use it."""

    certificates: ClientCertificates | None = None
    proxies: Networks = ()
    url: str = ""
    grace_s: float | None = None
    tls: TlsFiles | None = None
    origins: frozenset[str] = frozenset()

    @classmethod
    def of(cls, settings: Settings | ListenerSettings) -> Front:
        """Return the HTTP settings of a project, or of the socket of several tenants."""
        own = settings if isinstance(settings, Settings) else None
        return cls(
            certificates=settings.client_certificates,
            proxies=settings.trusted_proxies,
            url="" if own is None else own.url,
            grace_s=settings.grace_s,
            tls=settings.tls,
            origins=frozenset() if own is None else own.cors_origins,
        )


_NOTHING = Front()


class Pulse(Struct, frozen=True, kw_only=True):
    """Heartbeat of a worker: `ready` is called once it accepts connections, and `beat` each second that its event loop runs."""

    ready: Callable[[], None]
    beat: Callable[[], None]


def say_ready(url: str) -> None:
    """Print the line on standard error that programs wait for."""
    print(f"toolgen is listening on {url}", file=sys.stderr, flush=True)  # noqa: T201


def _say_ready(gateway: Facade, url: str) -> None:
    if isinstance(gateway, Gateway) and gateway.key:
        (principal,) = gateway.callers.principals
        print(f"key of {principal}, while this runs: {gateway.key}", file=sys.stderr)  # noqa: T201
    say_ready(url)


def serve(
    gateway: Facade,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    front: Front = _NOTHING,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, then let the calls in flight end. `port` 0 uses a free one; `ready` gets the URL once it accepts
    connections. The key of a gateway that was made in Python is printed once.

    Raises `ConfigError` if the address cannot be used, or if it is public and nobody could authenticate.
    """
    check_reach(gateway, host)
    site = GatewaySite(gateway, _app(gateway, host, front))
    serve_site(site, host=host, port=port, front=front, ready=ready or partial(_say_ready, gateway))


def serve_site(site: Site, *, host: str, port: int, front: Front, ready: Callable[[str], None]) -> None:
    """Serve one gateway, or several, as `serve` does."""
    certificate = _certificate_of(front)
    listener = bind(host, port)

    def begun(_: Stop) -> None:
        ready(url_of(listener, tls=certificate is not None))

    try:
        _run(_serve(site, listener, front, certificate, begun))
    finally:
        listener.close()


def gateway_site(gateway: Facade, host: str, front: Front) -> Site:
    """Return the site of one gateway."""
    return GatewaySite(gateway, _app(gateway, host, front))


def tenants_site(
    settings: ListenerSettings, host: str, *, above: SupervisorSockets | None = None, first: bool = True
) -> TenantsSite:
    """Return the site of a gateway with tenants. Raises `ToolgenError` at the `first` start if a tenant cannot be served, or if it is
    publicly reachable and nobody could authenticate to it."""

    def made(gateway: Gateway) -> App:
        check_reach(gateway, host)
        return _app(gateway, host, Front.of(gateway.settings), open_metrics=False)

    return TenantsSite(settings, made, hosts=_hosts(host), above=above, first=first)


def serve_worker(
    site: Site,
    listener: socket.socket,
    *,
    front: Front,
    pulse: Pulse,
    lifeline: Lifeline,
    sockets: SupervisorSockets | None = None,
) -> None:
    """Serve as one of several processes, on a socket that the supervisor opened, with a `pulse` for it.

    When the `lifeline` ends, this process stops as on SIGTERM, so that no worker remains on the port. What comes over it before is for
    `sockets`.
    """
    certificate = _certificate_of(front)
    receive = lifeline.receive if sockets is None else sockets.receive

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def begun(stop: Stop) -> None:
            def hear() -> None:
                try:
                    receive()
                except EOFError:
                    loop.remove_reader(lifeline.descriptor)
                    stop.because("the process that started this one is gone")

            def beat() -> None:
                pulse.beat()
                loop.call_later(BEAT_S, beat)

            loop.add_reader(lifeline.descriptor, hear)
            pulse.ready()
            beat()

        await _serve(site, listener, front, certificate, begun)

    _run(main())


def check_reach(gateway: Facade, host: str) -> None:
    """Raise `ConfigError` if the gateway is publicly reachable and nobody could authenticate."""
    if not is_loopback(host) and not gateway.callers.has_credentials:
        raise ConfigError(
            f"refusing to listen on {host}: no principal has a credential",
            suggestion="give a principal in policies/ an api_key, or listen on 127.0.0.1",
        )


def _hosts(host: str) -> frozenset[str]:
    """Return the permitted names in the Host header."""
    return LOOPBACK_HOSTS | {host.lower()} if is_loopback(host) else ANY_HOST


def _app(gateway: Facade, host: str, front: Front, *, open_metrics: bool = True) -> App:
    app = App(
        gateway,
        hosts=_hosts(host),
        certificates=front.certificates,
        proxies=front.proxies,
        url=front.url,
        cross_origin=CrossOrigin(origins=frozenset(origin.encode("ascii") for origin in front.origins)),
        open_metrics=open_metrics,
    )
    if isinstance(gateway, Gateway):
        console = gateway.settings.console
        app.open_console(partial(console_of, gateway), console.url, apps_host=console.apps_host)
        open_sign_in(app, gateway.sign_in, gateway)
    return app


def serve_stdio(gateway: Facade, principal: Principal) -> None:
    """Serve MCP on standard input and output to one process, as `principal`, until it closes its end."""
    _run(_serve_stdio(gateway, principal))


async def _serve(
    site: Site,
    listener: socket.socket,
    front: Front,
    certificate: ServerCertificate | None,
    ready: Callable[[Stop], None],
) -> None:
    server = HttpServer(site.handlers, Connections(proxies=front.proxies, most=_most_connections()))
    loop, stop = asyncio.get_running_loop(), Stop()
    try:
        async with site:
            if certificate is not None:
                site.show_certificate(certificate.end)
            with _reloading(site.reload, certificate):
                spare_the_collector()
                stop.listen()
                try:
                    accepting = await loop.create_server(
                        _protocol(server, certificate, front.proxies), sock=listener, backlog=BACKLOG
                    )
                    ready(stop)
                    await stop.first
                    cut_off = site.leave()
                    left_s = await _grace(site.drain_s, stop, _grace_of(front, listener))
                    site.end_streams()
                    accepting.close()
                    if not await stop.unless_told_again(server.drain(left_s, cut_off)):
                        await server.break_off(cut_off)
                finally:
                    await site.close()
    finally:
        stop.close()
    _logger.info("stopped: %s", stop.said())


def _certificate_of(front: Front) -> ServerCertificate | None:
    return None if front.tls is None else ServerCertificate(front.tls)


def _protocol(
    server: HttpServer, certificate: ServerCertificate | None, proxies: Networks
) -> Callable[[], asyncio.Protocol]:
    if certificate is None:
        return partial(HttpConnection, server)
    return partial(TlsConnection, server, certificate, TlsConnection.pending(proxies))


def _grace_of(front: Front, listener: socket.socket) -> float:
    """Return the seconds for which calls are still accepted after SIGTERM: none on loopback, unless the project sets them."""
    if front.grace_s is not None:
        return front.grace_s
    return 0.0 if is_loopback(str(listener.getsockname()[0])) else GRACE_S


async def _grace(drain_s: float, stop: Stop, grace_s: float) -> float:
    """Accept calls until load balancers have noticed that the gateway is not ready; not after SIGINT, because a person waits. Returns the
    rest of the time to drain."""
    if stop.said() != signal.SIGTERM.name or not grace_s:
        return drain_s
    grace_s = min(grace_s, drain_s)
    _logger.info("stopping: %s; not ready, and taking calls for another %g s", stop.said(), grace_s)
    await stop.unless_told_again(asyncio.sleep(grace_s))
    return drain_s - grace_s


def _most_connections() -> int:
    """Return the maximum number of connections: fewer if this process may not open as many files, after trying to raise that limit."""
    wanted = MAX_COUNT + RESERVE + HANDSHAKES + _OTHER_FILES
    if _resource is None:
        return MAX_COUNT
    allowed, most_allowed = _resource.getrlimit(_resource.RLIMIT_NOFILE)
    if allowed != _resource.RLIM_INFINITY and allowed < wanted:
        allowed = wanted if most_allowed == _resource.RLIM_INFINITY else min(wanted, most_allowed)
        with contextlib.suppress(ValueError, OSError):
            _resource.setrlimit(_resource.RLIMIT_NOFILE, (allowed, most_allowed))
        allowed = _resource.getrlimit(_resource.RLIMIT_NOFILE)[0]
    if allowed == _resource.RLIM_INFINITY or allowed >= wanted:
        return MAX_COUNT
    return int(max(allowed - RESERVE - HANDSHAKES - _OTHER_FILES, allowed // 4))


async def _serve_stdio(gateway: Facade, principal: Principal) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    for number in (signal.SIGINT, signal.SIGTERM):
        hear_signal(loop, number, lambda: task and task.cancel())
    with _private_streams() as (source, sink), contextlib.suppress(asyncio.CancelledError):
        async with gateway:
            with _reloading(partial(gateway.operations.reload, complete=False)):
                await serve_streams(gateway, principal, source, sink)


def spare_the_collector() -> None:
    """Exclude loaded objects from cyclic garbage collection, and collect young objects less often.

    Without this, garbage collection takes a tenth of a call. The first policy stays in memory when it is replaced, because it is frozen.
    Unused cycles from loading, some thousand objects, stay too: collecting them would take a sixth of the start-up.
    """
    freeze_objects()
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])


@contextlib.contextmanager
def _reloading(reload: Callable[[], Awaitable[object]], certificate: ServerCertificate | None = None) -> Iterator[None]:
    """SIGHUP reads the policy and the certificate again, as daemons do; a change of their files is noticed without one."""
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Future[object]]()
    watching = None
    if certificate is not None:
        watching = loop.create_task(certificate.watch())

    def begin() -> None:
        if certificate is not None:
            certificate.refresh()
        task = asyncio.ensure_future(reload())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    hears = hears_signals() and hasattr(signal, "SIGHUP")  # Windows has no such signal
    if hears:
        hear_signal(loop, signal.SIGHUP, begin)
    try:
        yield
    finally:
        if hears:
            ignore_signal(loop, signal.SIGHUP)
        if watching is not None:
            watching.cancel()


@contextlib.contextmanager
def _private_streams() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Yield standard input and output only for messages.

    Meanwhile descriptor 0 is empty and 1 is stderr, so that a tool's stray read or print cannot disturb the stream.
    """
    sys.stdout.flush()
    source, sink = io.FileIO(os.dup(0), "rb", closefd=False), io.FileIO(os.dup(1), "wb")
    nothing = open_descriptor(os.devnull, "RDONLY")
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


def _run(main: Coroutine[object, object, None]) -> None:
    if asyncio._get_running_loop() is not None:
        main.close()
        raise ConfigError(
            "an event loop runs here, as in a notebook, and would stand still",
            suggestion="serve in a program of its own, or in a thread: Thread(target=toolgen.serve, args=(gateway,), daemon=True).start()",
        )
    before = set(threading.enumerate())
    code = 1
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.get_loop().set_exception_handler(_told)
            runner.run(main)
        code = 0
    finally:
        _end_without(before, code)


def _told(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an unhandled error of a task. The event loop's own message would quote the text of the error and its arguments."""
    error = context.get("exception")
    _logger.error("a task in the background failed: %s", place_of(error) if error is not None else "no exception")


def _end_without(before: set[threading.Thread], code: int) -> None:
    """End the process without waiting for threads: the interpreter waits for threads that are no daemons, and for those of pools; some may
    never end, if a function blocks in `asyncio.to_thread`. Everything of the gateway is closed by now."""
    if not hears_signals():
        return  # the program continues outside of this thread
    left = [one for one in threading.enumerate() if one not in before and not one.name.startswith("toolgen-")]

    def watch() -> None:
        until = time.monotonic() + _EXIT_S
        for thread in left:
            thread.join(max(0.0, until - time.monotonic()))
        if any(thread.is_alive() for thread in left):
            os.write(2, b"toolgen: ended without threads of functions that did not end\n")
            os._exit(code)

    if left:
        threading.Thread(target=watch, name="toolgen-exit", daemon=True).start()
