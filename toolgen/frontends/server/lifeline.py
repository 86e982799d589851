"""Lifeline: socket between a worker and its supervisor, whose end tells the worker that the supervisor is gone. It brings the sockets for
tenants that were added after the start of the worker."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Collection, Mapping

from msgspec import Struct

from toolgen.gateway.state.shared_state import WorkerSockets

__all__ = ["Lifeline", "SupervisorSockets", "descriptors_of", "give_sockets", "lifeline_pair"]

# A message has the name of a tenant, filled up with spaces to this length, and one or two descriptors.
_LENGTH = 64


def lifeline_pair() -> tuple[socket.socket, socket.socket]:
    """Return the supervisor's end of a lifeline, and the worker's."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    return ours, theirs


def give_sockets(lifeline: socket.socket, tenant: str, sockets: WorkerSockets) -> bool:
    """Send a worker its sockets for a tenant. Return False if it reads nothing, or has ended."""
    try:
        sent = socket.send_fds(lifeline, [tenant.encode("ascii").ljust(_LENGTH)], descriptors_of(sockets))
    except OSError:
        return False
    return sent == _LENGTH


class Lifeline:
    """Worker's end of the socket to its supervisor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def receive(self) -> tuple[str, WorkerSockets] | None:
        """Return the sockets for a tenant; None if there are none now. Raises `EOFError` if the supervisor is gone."""
        with socket.socket(fileno=os.dup(self.descriptor)) as own:
            own.setblocking(False)
            try:
                name, descriptors, _, _ = socket.recv_fds(own, _LENGTH, 2)
            except BlockingIOError:
                return None
            except OSError as error:
                raise EOFError from error
        if not name:
            raise EOFError
        return name.decode("ascii").strip(), WorkerSockets(
            commands=descriptors[0], counts=descriptors[1] if len(descriptors) > 1 else None
        )


class _Unused(Struct, frozen=True, kw_only=True):
    """Sockets that no gateway has taken over, with the identities of their files."""

    sockets: WorkerSockets
    files: tuple[tuple[int, int], ...]

    def is_open(self) -> bool:
        """Return False if the descriptors were closed since, and may be those of other files by now."""
        try:
            return _files(self.sockets) == self.files
        except OSError:
            return False

    def close(self) -> None:
        if self.is_open():
            for descriptor in descriptors_of(self.sockets):
                os.close(descriptor)


class SupervisorSockets:
    """Sockets of a worker to its supervisor by tenant, until the gateway of the tenant takes them over."""

    def __init__(self, given: Mapping[str, WorkerSockets], lifeline: Lifeline) -> None:
        self._lifeline = lifeline
        self._unused = {name: _Unused(sockets=one, files=_files(one)) for name, one in given.items()}

    def receive(self) -> None:
        """Receive what the supervisor has sent; newer sockets of a tenant replace older ones. Raises `EOFError` if it is gone."""
        while (found := self._lifeline.receive()) is not None:
            name, sockets = found
            self._forget(name)
            self._unused[name] = _Unused(sockets=sockets, files=_files(sockets))

    def of(self, tenant: str) -> WorkerSockets | None:
        """Return the sockets for a tenant; None if there are none."""
        with contextlib.suppress(EOFError):
            self.receive()
        found = self._unused.get(tenant)
        return found.sockets if found is not None and found.is_open() else None

    def taken(self, tenant: str) -> None:
        """Note that a gateway has taken over the sockets, and closes them."""
        self._unused.pop(tenant, None)

    def keep_only(self, tenants: Collection[str]) -> None:
        """Close the sockets for other tenants."""
        for name in self._unused.keys() - set(tenants):
            self._forget(name)

    def _forget(self, tenant: str) -> None:
        if (older := self._unused.pop(tenant, None)) is not None:
            older.close()


def descriptors_of(sockets: WorkerSockets) -> tuple[int, ...]:
    """Return the descriptors of sockets."""
    return (sockets.commands,) if sockets.counts is None else (sockets.commands, sockets.counts)


def _files(sockets: WorkerSockets) -> tuple[tuple[int, int], ...]:
    found = (os.fstat(descriptor) for descriptor in descriptors_of(sockets))
    return tuple((one.st_dev, one.st_ino) for one in found)
