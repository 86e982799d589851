"""Processes of a fault campaign: Redis with a replica and Sentinel, proxies before them, and two gateways with two workers each.

Every process is started here, and only these are signalled.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
from redis.asyncio import Redis
from redis.exceptions import RedisError

__all__ = ["GatewayProcess", "Proxy", "Redises", "free_port", "started", "until"]

_ROOT = Path(__file__).parents[2]
_START_S = 60.0


def free_port() -> int:
    """A port of loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def until(holds: Callable[[], Any], what: str) -> None:
    """Returns once `holds` is true; an awaitable is awaited. Raises `TimeoutError`."""
    deadline = time.monotonic() + _START_S
    while True:
        with contextlib.suppress(OSError, RedisError, httpx.HTTPError):
            found = holds()
            if await found if hasattr(found, "__await__") else found:
                return
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        await asyncio.sleep(0.05)


def started(
    command: list[str], log: Path, environment: Mapping[str, str] | None = None, user: str | None = None
) -> subprocess.Popen[bytes]:
    """A process in a session of its own, whose output is appended to a file."""
    with log.open("ab") as out:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=_ROOT, start_new_session=True, env=environment,
            user=user,
        )  # fmt: skip


def _kill(pid: int, number: int = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


class Redises:
    """A master, its replica, and a Sentinel that makes the one the other when it is away for a second and a half."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.ports = [free_port(), free_port()]
        self._sentinel_port = free_port()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._sentinel: subprocess.Popen[bytes] | None = None
        self._clients = [Redis(host="127.0.0.1", port=port, socket_timeout=5) for port in self.ports]
        self._asked = Redis(host="127.0.0.1", port=self._sentinel_port, decode_responses=True)
        self._copy: list[tuple[bytes, int, bytes]] = []

    async def start(self) -> None:
        """Returns when all answer and the replica follows."""
        for number in (0, 1):
            self._folder.joinpath(f"redis{number}").mkdir()
            self._start(number, replica=number == 1)
            await until(self.client(number).ping, f"redis {number}")
        folder = self._folder / "sentinel"
        folder.mkdir()
        (folder / "sentinel.conf").write_text(
            f"port {self._sentinel_port}\nbind 127.0.0.1\ndir {folder}\nsentinel monitor m 127.0.0.1 {self.ports[0]} 1\n"
            "sentinel down-after-milliseconds m 1500\nsentinel failover-timeout m 6000\n"
        )
        command = ["redis-server", str(folder / "sentinel.conf"), "--sentinel"]
        self._sentinel = started(command, folder / "log")

        async def knows_replica() -> bool:
            return bool(await self._sentinel_says("SENTINEL", "REPLICAS", "m"))

        await until(knows_replica, "Sentinel")

    def _start(self, number: int, *, replica: bool) -> None:
        folder, port = self._folder / f"redis{number}", str(self.ports[number])
        command = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
        command += ["--appendonly", "yes", "--maxmemory-policy", "noeviction", "--repl-diskless-sync-delay", "0"]
        if replica:
            command += ["--replicaof", "127.0.0.1", str(self.ports[1 - number])]
        self._processes[number] = started(command, folder / "log")

    def client(self, number: int) -> Redis:
        """A client of one of the two."""
        return self._clients[number]

    async def _sentinel_says(self, *command: str) -> Any:
        return await self._asked.execute_command(*command)

    async def master(self) -> int:
        """Port of the server that is the master now, by what Sentinel says."""
        _, port = await self._sentinel_says("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m")
        return int(port)

    async def kill_master(self) -> int:
        """kill -9. Returns which it was."""
        number = self.ports.index(await self.master())
        self._processes[number].kill()
        self._processes[number].wait()
        return number

    async def start_again(self, number: int) -> None:
        """Starts a server that was killed; as a replica where the other one is the master by now."""
        self._start(number, replica=await self.master() != self.ports[number])
        await until(self.client(number).ping, "redis again")

    async def fail_over(self) -> None:
        """Has Sentinel make the replica the master. Raises `RedisError` where there is none that could be."""
        await self._sentinel_says("SENTINEL", "FAILOVER", "m")

    async def flush(self) -> None:
        """FLUSHALL at the master."""
        await self.client(self.ports.index(await self.master())).flushall()

    async def copy(self) -> None:
        """Keeps a copy of every key, to be put back."""
        client = self.client(self.ports.index(await self.master()))
        keys = sorted(await client.keys("*"))
        pipe = client.pipeline()
        for key in keys:
            pipe.pttl(key)
            pipe.dump(key)
        found = await pipe.execute()
        kept = zip(keys, found[::2], found[1::2], strict=True)
        self._copy = [(key, max(0, left), body) for key, left, body in kept if body is not None]

    async def restore(self) -> None:
        """Puts the copy back in one step."""
        pipe = self.client(self.ports.index(await self.master())).pipeline()
        pipe.flushall()
        for key, left, body in self._copy:
            pipe.restore(key, left, body)
        await pipe.execute()

    async def close(self) -> None:
        """Ends what was started."""
        for client in (*self._clients, self._asked):
            await client.aclose()
        for process in (*self._processes.values(), *filter(None, [self._sentinel])):
            process.kill()
            process.wait()


class Proxy:
    """TCP proxy to whichever Redis is the master. A gateway follows Sentinel by it, and is cut off by it."""

    def __init__(self, redises: Redises) -> None:
        self._redises = redises
        self.port = free_port()
        self.way = "pass"  # refuse, hang
        self.delay_s = 0.0  # of everything that passes, each way
        self._target = 0
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listens, and follows the master."""
        self._target = await self._redises.master()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, backlog=512)
        self._tasks.add(asyncio.create_task(self._follow()))

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            with contextlib.suppress(OSError, RedisError, TypeError, ValueError):
                target = await self._redises.master()
                if target != self._target:
                    self._target = target
                    self._drop()

    def set(self, way: str) -> None:
        """How it is with the network from now on."""
        self.way = way
        if way == "hang":
            self._open.clear()
        else:
            self._open.set()
        if way == "refuse":
            self._drop()

    def _drop(self) -> None:
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.way == "refuse":
            writer.transport.abort()
            return
        both = {writer}
        try:
            with contextlib.suppress(OSError):
                there, back = await asyncio.open_connection("127.0.0.1", self._target)
                both.add(back)
                self._writers |= both
                await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        finally:
            self._writers -= both
            for one in both:
                one.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._open.wait()
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                writer.write(data)
                await writer.drain()
        writer.transport.abort()

    async def close(self) -> None:
        """Listens no more."""
        for task in self._tasks:
            task.cancel()
        if self._server is not None:
            self._server.close()
        self.set("refuse")


class GatewayProcess:
    """`toolgen serve` with two workers."""

    def __init__(self, name: str, settings: Path, *, environment: Mapping[str, str] | None = None) -> None:
        self.name, self._settings, self._environment = name, settings, environment
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = settings.parent / "serve.log"
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Returns when it is ready to be asked."""
        command = [sys.executable, "-m", "toolgen", "serve", "--port", str(self.port), "--config", str(self._settings)]
        self.process = started([*command, "--workers", "2"], self._log, self._environment)
        async with httpx.AsyncClient(timeout=2) as client:

            async def healthy() -> bool:
                return (await client.get(f"{self.url}/healthz")).status_code == 200

            await until(healthy, f"gateway {self.name}: {self._log.read_text()[-600:]}")

    def _children(self) -> list[int]:
        """Processes below the gateway, none of which outlives it."""
        found, left = [], [] if self.process is None else [self.process.pid]
        while left:
            pid = left.pop()
            with contextlib.suppress(OSError):
                below = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
                found += [int(one) for one in below]
                left += [int(one) for one in below]
        return found

    def workers(self) -> list[int]:
        """Processes that serve."""
        found = []
        for pid in self._children():
            with contextlib.suppress(OSError):
                if b"toolgen.frontends.server.worker" in Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" "):
                    found.append(pid)
        return sorted(found)

    def signal(self, pid: int, number: int) -> None:
        """Sends a signal to one of its processes."""
        if pid in self._children():
            _kill(pid, number)

    def kill(self) -> None:
        """kill -9 of all of it."""
        assert self.process is not None
        below = self._children()
        self.process.kill()
        for pid in below:
            _kill(pid)
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM, and until it has ended; its exit status."""
        assert self.process is not None
        _kill(self.process.pid, signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            return -9
