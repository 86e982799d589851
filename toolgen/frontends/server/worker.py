"""Process `python -m toolgen.frontends.server.worker`, which `toolgen serve --workers N` starts. It is not for other uses."""

from __future__ import annotations

import contextlib
import os
import socket
import sys

import click
import msgspec

from toolgen.config.settings import load_tenants
from toolgen.core.core_dumps import forbid_core_dumps
from toolgen.core.descriptors import open_descriptor
from toolgen.core.errors import ToolgenError
from toolgen.frontends.python.gateway import Gateway
from toolgen.frontends.server.http import Front, Pulse, gateway_site, serve_worker, tenants_site
from toolgen.frontends.server.lifeline import Lifeline, SupervisorSockets
from toolgen.frontends.server.logs import Logs, configure
from toolgen.frontends.server.site import Site
from toolgen.gateway.state.shared_state import WorkerSockets

__all__ = ["BEAT", "READY", "Orders", "main"]

READY = b"ready\n"
BEAT = b"."
"""Heartbeat of a worker, each second that its event loop runs."""


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a worker process, given as JSON in its one argument: the project, the listening socket (a descriptor), the host name, and
    the sockets to the supervisor of each tenant, "" for a project without tenants. `first` is False for a worker that replaces another."""

    config: str
    listener: int
    host: str
    above: dict[str, WorkerSockets]
    first: bool = True
    logs: Logs = ("json", "info")


def main() -> None:
    """Load the project and serve it, until a signal or the end of the supervisor.

    Standard input is the lifeline, a socket. Standard output has the ready message and the heartbeats; output of tools goes to standard
    error.
    """
    forbid_core_dumps()
    orders = msgspec.json.decode(sys.argv[1], type=Orders)
    configure(orders.logs)
    said = os.dup(1)
    os.dup2(2, 1)

    def ready() -> None:
        os.write(said, READY)
        os.set_blocking(said, False)

    def beat() -> None:
        with contextlib.suppress(BlockingIOError, BrokenPipeError):  # the supervisor is blocked, or gone
            os.write(said, BEAT)

    lifeline = Lifeline(os.dup(0))
    nothing = open_descriptor(os.devnull, "RDONLY")
    os.dup2(nothing, 0)
    os.close(nothing)
    os.set_inheritable(lifeline.descriptor, False)
    try:
        sockets = SupervisorSockets(orders.above, lifeline)
        site, front = _site(orders, sockets)
        with socket.socket(fileno=orders.listener) as listener:
            serve_worker(
                site,
                listener,
                front=front,
                pulse=Pulse(ready=ready, beat=beat),
                lifeline=lifeline,
                sockets=sockets,
            )
    except ToolgenError as error:
        click.echo(f"toolgen: {error}", err=True)
        sys.exit(1)


def _site(orders: Orders, sockets: SupervisorSockets) -> tuple[Site, Front]:
    tenants = load_tenants(orders.config)
    if tenants is not None:
        return tenants_site(tenants, orders.host, above=sockets, first=orders.first), Front.of(tenants)
    gateway = Gateway.load(orders.config, above=sockets.of(""), serving=True)
    sockets.taken("")
    front = Front.of(gateway.settings)
    return gateway_site(gateway, orders.host, front), front


if __name__ == "__main__":
    main()
