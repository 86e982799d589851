"""The mock's process: listens on loopback, says so once, and ends on a signal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Iterator

import uvicorn

from toolgen.errors import ConfigError
from toolgen.mock.app import MockApp

__all__ = ["serve_mock"]


def serve_mock(app: MockApp, *, host: str, port: int, title: str) -> None:
    """Serves until SIGINT or SIGTERM. `port` 0 takes a free one; the ready line names it. Raises `ConfigError` for an address in use."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"cannot listen on {host[:200]!r}: it is no address", suggestion="see --host") from error
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
        except OSError as error:
            message = f"cannot listen on {host} port {port}: {error.strerror}"
            raise ConfigError(message, suggestion="choose another with --port, 0 for a free one") from error
        config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False)
        asyncio.run(_Server(config, title).serve(sockets=[listener]))


class _Server(uvicorn.Server):
    """uvicorn, which says when it accepts connections and ends quietly on a signal."""

    def __init__(self, config: uvicorn.Config, title: str) -> None:
        super().__init__(config)
        self._title = title

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        for one in sockets or ():
            host, port = one.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            print(f"toolgen mocks {self._title} on http://{shown}:{port}", file=sys.stderr, flush=True)  # noqa: T201

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn raises the signal again once it has stopped, which would look like a crash."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)
