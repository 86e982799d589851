"""Listening sockets: one for a process, or one for each of several that share a port."""

from __future__ import annotations

import errno
import ipaddress
import socket
import sys
from typing import Any

from toolgen.core.errors import ConfigError

__all__ = ["BACKLOG", "bind", "bind_shared", "is_loopback", "reopen", "url_of"]

BACKLOG = 2048


def bind_shared(host: str, port: int, count: int) -> list[socket.socket]:
    """Return listening sockets on one port, one for each of several processes; the supervisor keeps them open, so that waiting connections
    outlive a process.

    On Linux the kernel distributes connections among them. Other systems do not, so all are the same socket there. A check that the port is
    free comes first: with SO_REUSEPORT another gateway of the same user would otherwise silently get a part of the connections.
    """
    first = bind(host, port)
    if sys.platform != "linux":
        return [first, *(first.dup() for _ in range(count - 1))]
    family, address = first.family, first.getsockname()
    first.close()
    found: list[socket.socket] = []
    try:
        while len(found) < count:
            found.append(reopen(family, address))
    except ConfigError:
        for listener in found:
            listener.close()
        raise
    return found


def reopen(family: int, address: tuple[Any, ...]) -> socket.socket:
    """Open another listening socket on a shared port. Raises `ConfigError`."""
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {address[0]} port {address[1]}: {_why(error)}") from error
    return listener


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket, opened before anything else starts, so that an address in use is found at once."""
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
            f"cannot listen on {host}: it is not an address of this machine", suggestion="see --host"
        ) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
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
            return "it is not an address of this machine"
        case _:
            return "the system does not allow it"


def is_loopback(host: str) -> bool:
    """Return True if a host is reachable only from this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def url_of(listener: socket.socket, *, tls: bool = False) -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http{'s' if tls else ''}://" + (f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
