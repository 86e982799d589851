"""Cluster under load and faults: three gateways behind HAProxy, Redis with Sentinel, a PostgreSQL for the index, clients and an upstream.

`python -m tests.faults.cluster` measures how many calls a second the cluster takes. It makes 70 % of them, or the share that
`TOOLGEN_FAULTS_SHARE` says, for `TOOLGEN_FAULTS_S` seconds (600), beside the operations of a campaign, and plants the faults of a campaign
and more: a slow network, a slow and a full disk, a stepped clock, a killed PostgreSQL, a rolling restart. Afterwards it checks the
invariants, the index and the log of each gateway, and leaks of its workers. It ends with 1 for an anomaly.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random

import httpx
from msgspec import Struct

from tests.faults.campaign import Campaign, Request, report
from tests.faults.leaks import Held, held, leaked_tasks, leaks, tasks, unsettled
from tests.faults.load import Load
from tests.faults.machine import Machine, build_library
from tests.faults.processes import GatewayProcess
from tests.faults.project import AGENTS, HUNG_S, write
from tests.faults.services import FrontProxy, Indexer, Postgres, program
from tests.simulation.evidence import Evidence, Operation, Told
from tests.simulation.invariants import Anomaly

__all__ = ["PROGRAMS", "Cluster", "Stopped", "undrained"]


PROGRAMS = ("redis-server", "haproxy", "initdb")
_SHARE = "0.7"
_MEASURED_S = 5.0
_STEP_S = 3600.0
_DISK_BYTES = 2 << 30


class Stopped(Struct, frozen=True, kw_only=True):
    """Gateway that was told to stop: when it ended, and its exit status."""

    gateway: str
    at: float
    status: int


class Cluster(Campaign):
    """One run in a folder of its own."""

    def __init__(self, seed: int, seconds: float, folder: Path, *, faults: bool = True) -> None:
        super().__init__(seed, seconds, folder, faults=faults, names="ABC")
        self._postgres = Postgres()
        self._front = FrontProxy(folder)
        self._machines: dict[str, Machine] = {}
        self._indexers: dict[str, Indexer] = {}
        self._at_start: dict[int, Held] = {}
        self._tasks_at_start: list[int] = []
        self._anomalies: list[Anomaly] = []
        self._stopped: list[Stopped] = []
        self._steady = Load(self._front.port, self._told, self.now)
        self.rate = 0.0

    async def _make_gateways(self, upstream: str, seal: str) -> dict[str, GatewayProcess]:
        await self._postgres.start()
        library = await asyncio.to_thread(build_library, self._folder)
        gateways = {}
        for name, proxy in self._proxies.items():
            root = self._folder / name
            machine = self._machines[name] = Machine(self._folder / f"machine{name}", library)
            machine.mount(root / "var", _DISK_BYTES)
            settings = write(root, upstream, proxy.port, seal, index=self._postgres.location, grace="2s")
            gateways[name] = GatewayProcess(name, settings, environment=machine.environment)
            self._indexers[name] = Indexer(settings)
        return gateways

    async def _load(self) -> None:
        await self._front.start({name: one.port for name, one in self._gateways.items()})
        for indexer in self._indexers.values():
            indexer.start()
        capacity = await self._steady.measure(_MEASURED_S)
        self.rate = float(os.environ.get("TOOLGEN_FAULTS_SHARE") or _SHARE) * capacity
        self._say(f"{capacity:.0f} calls a second at most; {self.rate:.0f} are made")
        self._at_start = self._held()
        for gateway in self._gateways.values():
            self._tasks_at_start += tasks((await self._http.get(f"{gateway.url}/metrics")).text)
        steady = asyncio.create_task(self._steady.run(self.rate, self.seconds - self.now()))
        await super()._load()
        await steady
        await self._look_for_leaks()
        for name, indexer in self._indexers.items():
            if wrong := await asyncio.to_thread(indexer.stop):
                self._anomalies.append(Anomaly(invariant="index", operation=name, text=wrong))

    async def _close(self) -> None:
        self._front.close()
        self._postgres.close()
        for machine in self._machines.values():
            machine.close()

    def _address(self, random: Random) -> str:
        return self._front.url

    def _gateway_of(self, answer: httpx.Response) -> str:
        return answer.headers.get("x-gateway", "")

    def _further(self) -> list[Anomaly]:
        return [*self._anomalies, *undrained(self.evidence, self._stopped)]

    # Steady load

    def _told(self, told: Told) -> None:
        number = int(told.operation.removeprefix("load"))
        effect = "write" if Load.is_write(number) else "read"
        operation = Operation(name=told.operation, kind="plain", effect=effect, own_s=HUNG_S)
        self.evidence.operations[told.operation] = operation
        self.evidence.told.append(told)

    def _request(self, name: str) -> Request:
        if not name.startswith("load"):
            return super()._request(name)
        number = int(name.removeprefix("load"))
        return Request(
            name=name, kind="plain", tool="", effect="write" if Load.is_write(number) else "read", principal=AGENTS[0], wait=None,
            upstream=Load.behaviour(number), takes_s=0.0, answer="none", answered_after_s=0, cancelled_after_s=0,
        )  # type: ignore[arg-type] # fmt: skip

    # Faults

    def _fault_kinds(self) -> list[Callable[[Random], Awaitable[None]]]:
        return [
            *super()._fault_kinds(),
            self._delay,
            self._kill_postgres,
            self._roll,
            *([self._slow_disk, self._step_clock] if all(one.is_preloaded for one in self._machines.values()) else []),
            *([self._full_disk] if all(one.can_be_full for one in self._machines.values()) else []),
        ]

    async def _delay(self, random: Random) -> None:
        names = random.choice((*self._proxies, "".join(self._proxies)))
        one = names if len(names) == 1 else ""
        async with self._planted("delay", one, f"300 ms more to and from Redis for {names}, 8 s"):
            for name in names:
                self._proxies[name].delay_s = 0.3
            await asyncio.sleep(8)
            for name in names:
                self._proxies[name].delay_s = 0.0

    async def _kill_postgres(self, random: Random) -> None:
        seconds = random.uniform(0.5, 5)
        self._say(f"kill -9 of PostgreSQL, back after {seconds:.1f} s")
        self._postgres.kill()
        await asyncio.sleep(seconds)
        await self._postgres.start()

    async def _slow_disk(self, random: Random) -> None:
        name, seconds = random.choice([*self._machines]), random.choice((0.05, 0.5))
        async with self._planted("stop", name, f"each sync at {name} takes {seconds:g} s longer, for 8 s"):
            self._machines[name].set(sync_delay_s=seconds)
            await asyncio.sleep(8)
            self._machines[name].set()

    async def _full_disk(self, random: Random) -> None:
        name = random.choice([*self._machines])
        async with self._planted("stop", name, f"the disk of {name} is full for 5 s"):
            await asyncio.to_thread(self._machines[name].fill)
            await asyncio.sleep(5)
            self._machines[name].empty()

    async def _step_clock(self, random: Random) -> None:
        name, step = random.choice([*self._machines]), random.choice((_STEP_S, -_STEP_S))
        async with self._planted("stop", name, f"the clock of {name} is wrong by {step:g} s for 8 s"):
            self._machines[name].set(clock_step_s=step)
            await asyncio.sleep(8)
            self._machines[name].set()

    def _true_time(self, time: float) -> float:
        here = time - self._began
        turns = round((here - self.seconds / 2) / _STEP_S)
        return time - turns * _STEP_S if turns in {1, -1} else time

    async def _roll(self, random: Random) -> None:
        """Restart one gateway after the other, as a rolling update does."""
        for gateway in random.sample([*self._gateways.values()], len(self._gateways)):
            async with self._planted("restart", gateway.name, f"SIGTERM of gateway {gateway.name}, and started again"):
                status = await asyncio.to_thread(gateway.stop)
                self._stopped.append(Stopped(gateway=gateway.name, at=self.now(), status=status))
                await gateway.start()
            await asyncio.sleep(2)

    # What is held

    def _held(self) -> dict[int, Held]:
        return {pid: held(pid) for gateway in self._gateways.values() for pid in gateway.workers()}

    async def _look_for_leaks(self) -> None:
        """Workers compared with the largest of the start, and calls that have not ended."""
        at_end = self._held()
        for pid, one in at_end.items():
            self._say(f"worker {pid}: {one.descriptors} descriptors, {one.threads} threads, {one.memory >> 20} MiB")
        self._anomalies += leaks(self._at_start, at_end)
        for name, gateway in self._gateways.items():
            metrics = (await self._http.get(f"{gateway.url}/metrics")).text
            self._say(f"gateway {name}: {tasks(metrics)} tasks")
            self._anomalies += unsettled(name, metrics) + leaked_tasks(name, self._tasks_at_start, metrics)


def undrained(evidence: Evidence, stopped: Sequence[Stopped] = ()) -> list[Anomaly]:
    """Return the calls without an answer, and the gateways that did not end in order, while gateways were restarted in turn and nothing
    else was wrong. A slow Redis of a busy machine is a fault like those that were planted."""
    found = []
    others = [one for one in evidence.planted if one.kind != "restart"]
    for drain in evidence.planted:
        if drain.kind != "restart" or any(one.at <= drain.until and one.until + 12 >= drain.at for one in others):
            continue
        texts = [
            (one.operation, f"no answer while {drain.gateway} was restarted: {one.text}")
            for one in evidence.told
            if one.status == "fault" and drain.at <= one.began and one.at <= drain.until
        ] + [
            (one.gateway, f"a gateway told to stop ended with {one.status}")
            for one in stopped
            if one.status and one.gateway == drain.gateway and drain.at <= one.at <= drain.until
        ]
        found += [Anomaly(invariant="drain", operation=operation, text=text) for operation, text in texts]
    return found


def main() -> int:
    """Exit status: 1 if an anomaly was found. Without its programs the cluster is skipped."""
    if missing := [name for name in PROGRAMS if program(name) is None]:
        print(f"the cluster is skipped: {', '.join(missing)} not installed")
        return 0
    return report(Cluster, 600)


if __name__ == "__main__":
    sys.exit(main())
