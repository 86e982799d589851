"""A Redis of a test's own: it may be stopped, started again, locked and filled without anybody noticing."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import weakref
from pathlib import Path

import pytest

from toolgen.core.clock import SystemClock
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation
from toolgen.state.shared_buckets import SharedBuckets


class RedisServer:
    """redis-server on a port of loopback that stays its own, also while it is stopped, with its files in a folder."""

    def __init__(self, folder: Path, *options: str) -> None:
        if shutil.which("redis-server") is None:
            pytest.skip("redis-server is not installed")
        self.folder, self._options = folder, options
        # Held for as long as this is: nobody else is given the port, and redis-server, which asks to use it again, can have it.
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        self.port: int = held.getsockname()[1]
        weakref.finalize(self, os.close, held.detach())
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        port = [] if "--tls-port" in self._options else ["--port", str(self.port)]
        options = [str(self.port) if option == "PORT" else option for option in self._options]
        command = ["redis-server", *port, "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", "", *options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise RuntimeError("redis-server did not start")

    @property
    def pid(self) -> int | None:
        """Its process, while it runs."""
        return None if self._process is None else self._process.pid

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def buckets(self, password: str = "", *, lease_s: float = 20.0, **location: object) -> SharedBuckets:
        """What one gateway process would count with."""
        where = RedisLocation(host="127.0.0.1", port=self.port, **location)  # type: ignore[arg-type]
        return SharedBuckets(RedisLink(where, lambda: password), SystemClock(), lease_s=lease_s)


class RedisCluster:
    """Three nodes of a Redis Cluster on loopback, each with a third of the slots."""

    def __init__(self, folder: Path) -> None:
        self.nodes: list[RedisServer] = []
        for number in range(3):
            place = folder / str(number)
            place.mkdir()
            bus = _free_bus_port()
            self.nodes.append(RedisServer(place, "--cluster-enabled", "yes", "--cluster-port", str(bus)))

    @property
    def port(self) -> int:
        """Port of the first node."""
        return self.nodes[0].port

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        places = [f"127.0.0.1:{node.port}" for node in self.nodes]
        create = ["redis-cli", "--cluster", "create", *places, "--cluster-yes"]
        subprocess.run(create, check=True, stdout=subprocess.DEVNULL, timeout=60)
        until = time.monotonic() + 60
        while any("cluster_state:ok" not in self.said(node, "CLUSTER", "INFO") for node in self.nodes):
            if time.monotonic() > until:
                raise RuntimeError("the cluster is not complete")
            time.sleep(0.1)

    def said(self, node: RedisServer, *command: str) -> str:
        """Return the answer of a node to a command."""
        asked = ["redis-cli", "-p", str(node.port), *command]
        return subprocess.run(asked, check=True, capture_output=True, text=True, timeout=20).stdout.strip()

    def owner(self, slot: int) -> RedisServer:
        """Return the node that has a slot."""
        for node in self.nodes:
            ranges = [
                part
                for line in self.said(node, "CLUSTER", "NODES").splitlines()
                if "myself" in line
                for part in line.split()[8:]
            ]
            bounds = [(int(first), int(last or first)) for first, _, last in (one.partition("-") for one in ranges)]
            if any(first <= slot <= last for first, last in bounds):
                return node
        raise RuntimeError("no node has the slot")

    def move(self, slot: int, to: RedisServer) -> None:
        """Give a slot with its keys to another node, as `redis-cli --cluster reshard` does."""
        origin = self.owner(slot)
        ids = {node.port: self.said(node, "CLUSTER", "MYID") for node in self.nodes}
        self.said(to, "CLUSTER", "SETSLOT", str(slot), "IMPORTING", ids[origin.port])
        self.said(origin, "CLUSTER", "SETSLOT", str(slot), "MIGRATING", ids[to.port])
        while names := self.said(origin, "CLUSTER", "GETKEYSINSLOT", str(slot), "100").split():
            said = self.said(origin, "MIGRATE", "127.0.0.1", str(to.port), "", "0", "5000", "KEYS", *names)
            if said != "OK":
                raise RuntimeError(said)
        for node in (to, origin, *self.nodes):
            self.said(node, "CLUSTER", "SETSLOT", str(slot), "NODE", ids[to.port])

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()


def _free_bus_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port
