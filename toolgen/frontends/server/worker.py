"""Process `python -m toolgen.frontends.server.worker`, which `toolgen serve --workers N` starts. It is not for other uses."""

from __future__ import annotations

import contextlib
import os
import socket
import sys

import click
import msgspec

from toolgen.core.core_dumps import forbid_core_dumps
from toolgen.core.descriptors import open_descriptor
from toolgen.core.errors import ToolgenError
from toolgen.frontends.python.gateway import Gateway
from toolgen.frontends.server.http import Front, Pulse, serve_worker
from toolgen.frontends.server.logs import Logs, configure
from toolgen.gateway.state.shared_state import WorkerSockets

__all__ = ["BEAT", "READY", "Orders", "main"]

READY = b"ready\n"
BEAT = b"."
"""Heartbeat of a worker, each second that its event loop runs."""


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a worker process, given as JSON in its one argument: the project, the listening socket (a descriptor), the host name, and
    the sockets (descriptors) to the commands of MCP servers and to the counters shared by all workers (None: in Redis)."""

    config: str
    listener: int
    host: str
    commands: int
    counts: int | None
    logs: Logs = ("json", "info")


def main() -> None:
    """Load the project and serve it, until a signal or the end of the supervisor.

    Standard input is the lifeline. Standard output has the ready message and the heartbeats; output of tools goes to standard error.
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

    lifeline = os.dup(0)
    nothing = open_descriptor(os.devnull, "RDONLY")
    os.dup2(nothing, 0)
    os.close(nothing)
    os.set_inheritable(lifeline, False)
    try:
        above = WorkerSockets(commands=orders.commands, counts=orders.counts)
        gateway = Gateway.load(orders.config, above=above, serving=True)
        with socket.socket(fileno=orders.listener) as listener:
            serve_worker(
                gateway,
                listener,
                host=orders.host,
                front=Front.of(gateway.settings),
                pulse=Pulse(ready=ready, beat=beat),
                lifeline=lifeline,
            )
    except ToolgenError as error:
        click.echo(f"toolgen: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
