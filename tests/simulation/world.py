"""Simulated world: two gateways of one or two workers each, the Redis they share, an upstream, clients and people, on one virtual clock.

Everything of a gateway is the real code, but for three things: the client of Redis, below `RedisLink`, which asks an in-memory Redis that
runs the real Lua scripts; the audit log, which is a list for each gateway; and the executor, which asks the simulated upstream.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import secrets
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from hashlib import sha1
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from unittest.mock import patch

import msgspec
import redis.asyncio
import redis.exceptions

from tests.simulation.clients import SLACK_S, Client
from tests.simulation.event_loop import InlineExecutor, Process, State, current_process, simulate
from tests.simulation.evidence import Entry, Evidence, Limit, Operation, Planted, Received, Told
from tests.simulation.invariants import latest
from tests.simulation.memory_redis import MemoryRedis, Step
from tests.simulation.plan import HEAL_S, HUNG_S, LIMITED, Fault, Plan
from tests.simulation.project import BURST, PER_MINUTE, served_project, settings_in
from toolgen.audit.log import AuditCounts
from toolgen.core.errors import AuditError
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.call import Call
from toolgen.model.result import Delivery, Error, Failed, Refused, Success
from toolgen.model.schema import JsonObject
from toolgen.pipeline.middleware import CallerConnection
from toolgen.state.redis_connection import RedisLink

__all__ = ["Run", "run"]

T = TypeVar("T")
EPOCH = 1_800_000_000.0
_TIMEOUT_S = 20.0


class Run(msgspec.Struct, kw_only=True):
    """What came of a schedule: the evidence, and everything that happened, in order, as lines."""

    evidence: Evidence
    trace: list[str]
    steps: list[Step]


def run(plan: Plan, *, steps: bool = False) -> Run:
    """The schedule, carried out. The same plan gives the same run. With `steps`, those of the store are noted."""
    random = Random(f"run {plan.seed}")
    with (
        tempfile.TemporaryDirectory(prefix="simulation-", dir=_memory()) as folder,
        _seeded(Random(f"ids {plan.seed}")),
    ):
        world = World(plan, Path(folder), random)
        world.store.seen = [] if steps else None
        try:
            simulate(world.main, random)
        finally:
            world.close()
    for fault in (*world.store.faults, *world.failures):
        raise fault
    return Run(evidence=world.evidence, trace=world.trace, steps=world.store.seen or [])


class World:
    """One run of a plan."""

    def __init__(self, plan: Plan, folder: Path, random: Random) -> None:
        self.plan, self.random = plan, random
        self.trace: list[str] = []
        self.store = MemoryRedis(lambda: EPOCH + self.now())
        self.evidence = Evidence(
            operations={
                one.name: Operation(name=one.name, kind=one.kind, effect=one.effect, own_s=one.own_s)
                for one in plan.requests
            },
            limits=(Limit(prefix=LIMITED, burst=BURST, per_second=PER_MINUTE / 60),),
            slack_s=SLACK_S,
            apart_s=0.0,
        )
        self.requests = {one.name: one for one in plan.requests}
        self.homes = [Home(self, number, folder / f"g{number}", count) for number, count in enumerate(plan.workers)]
        self._copies: list[tuple[float, Any]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._said: dict[str, tuple[str, ...]] = {}
        self.links: list[Link] = [Link(), Link()]
        self.failures: list[Exception] = []
        """Faults of the simulation itself: workers that could not start while nothing was wrong."""
        self.context = contextvars.copy_context()
        """Context that belongs to no process."""

    def now(self) -> float:
        """Virtual time since the start."""
        return 0.0 if self._loop is None else self._loop.time()

    def say(self, who: str, text: str) -> None:
        """A line of the trace."""
        self.trace.append(f"{self.now():8.3f}  {who:<10} {text}")

    async def main(self) -> None:
        """Carries the plan out, until every call has ended or should have."""
        self._loop = asyncio.get_running_loop()
        for home in self.homes:
            for number in range(home.count):
                home.start(number)
        clients = [asyncio.create_task(Client(self, one).act()) for one in self.plan.requests]
        faults = [asyncio.create_task(self._befall(one)) for one in self.plan.faults]
        copying = asyncio.create_task(self._copy())
        await asyncio.wait(faults) if faults else None
        self._heal()
        await asyncio.gather(*clients)
        copying.cancel()
        if self.plan.faults:
            await asyncio.sleep(self.evidence.lease_s + 2.0)  # a second ending comes when a lease is over
        last = max([0.0, *(latest(self.evidence, one.at, one.own_s) for one in self.plan.requests)]) + SLACK_S
        while self._unresolved() and self.now() < last:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(1.0)
        self.evidence.over = self.now()
        self.say("world", "the end")

    def close(self) -> None:
        """Lets go of every file."""
        for home in self.homes:
            for worker in home.workers.values():
                worker.close_files()

    def told(self, told: Told) -> None:
        """A client got an answer. The trace has it if it is another than the one before."""
        self.evidence.told.append(told)
        said = (told.asked, told.status, told.code, told.text)
        if self._said.get(told.operation) == said:
            return
        self._said[told.operation] = said
        self.say(
            told.operation, f"{told.asked} at {told.gateway}: {told.status} {told.code} {told.call_id} {told.text}"
        )

    async def upstream(self, call: Call, gateway: str) -> Success | Failed:
        """The system behind, which carries a request out when it comes, whatever becomes of who asked."""
        loop = asyncio.get_running_loop()
        name = str(call.arguments.get("op"))
        request, answer = self.requests[name], loop.create_future()

        def receive() -> None:
            effect = request.upstream != "error"
            self.evidence.received.append(
                Received(at=self.now(), operation=name, gateway=gateway, effect=effect and request.effect == "write")
                if not name.startswith(LIMITED)
                else Received(at=self.now(), operation=name, gateway=gateway, effect=False)
            )
            self.say("upstream", f"received {name} from {gateway}{'' if effect else ', refused it'}")
            if request.upstream != "hang":
                loop.call_later(request.takes_s, lambda: answer.done() or answer.set_result(None))

        self.context.copy().run(loop.call_later, self.random.uniform(0.0005, 0.003), receive)
        try:
            async with asyncio.timeout(HUNG_S):
                await answer
        except TimeoutError:
            if request.effect == "read":
                error = Error(code="upstream_timeout", message="no answer")
            else:
                error = Error(code="outcome_unknown", message="no answer; it may have taken effect")
            return Failed(error=error, delivery=Delivery(attempts=1, broken=True))
        if request.upstream == "error":
            return Failed(error=Error(code="upstream_error", message="500"), delivery=Delivery(attempts=1, status=500))
        return Success(data={"op": name}, delivery=Delivery(attempts=1, status=200))

    async def _copy(self) -> None:
        """Keeps copies of the store, to be put back."""
        while any(one.kind in {"restore", "old_call"} or one.how == "older" for one in self.plan.faults):
            self._copies.append((self.now(), self.store.copy()))
            await asyncio.sleep(0.25)

    def _copy_before(self, at: float) -> tuple[float, Any]:
        return next((one for one in reversed(self._copies) if one[0] <= at), (0.0, ({}, {})))

    def _plant(self, fault: Fault, kind: str, gateway: int, worker: str = "", text: str = "") -> None:
        name = "" if gateway < 0 else self.homes[gateway].name
        until = self.now() if kind in {"loss", "poison"} else min(HEAL_S, fault.at + fault.lasts_s) + 0.001
        self.evidence.planted.append(
            Planted(at=self.now(), until=until, kind=kind, gateway=name, worker=worker, text=text or fault.kind)
        )
        self.say("fault", f"{fault.kind} {name}{worker} {fault.how if kind == 'cut' else ''} {text} until {until:.3f}")

    async def _befall(self, fault: Fault) -> None:
        await asyncio.sleep(fault.at)
        end = min(HEAL_S, fault.at + fault.lasts_s)
        match fault.kind:
            case "kill" | "restart" | "stop":
                await self._befall_workers(fault, end)
            case "cut" | "away" | "delay":
                await self._befall_links(fault, end)
            case "flush":
                self._plant(fault, "loss", -1)
                self.store.flush()
            case "restore":
                at, copy = self._copy_before(self.now() - fault.back_s)
                self._plant(fault, "loss", -1, text=f"as it was at {at:.2f}")
                self.store.restore(copy)
            case "junk":
                self._plant(fault, "poison", -1)
                self._put_junk(fault)
            case "old_call":
                self._put_old_call(fault)

    async def _befall_workers(self, fault: Fault, end: float) -> None:
        home = self.homes[fault.gateway]
        numbers = list(range(home.count)) if fault.worker < 0 else [fault.worker]
        for number in numbers:
            self._plant(fault, fault.kind, fault.gateway, f"/{number}")
            worker = home.workers[number]
            if fault.kind == "stop":
                worker.process.stop()
            elif fault.kind == "kill":
                worker.process.kill()
            else:
                worker.leave()
        await asyncio.sleep(max(0.0, end - self.now()))
        for number in numbers:
            if fault.kind == "stop":
                home.workers[number].process.carry_on()
            elif fault.kind == "kill" and home.workers[number].process.state is State.DEAD:
                home.start(number)

    async def _befall_links(self, fault: Fault, end: float) -> None:
        links = self.links if fault.kind == "away" else [self.links[fault.gateway]]
        gateway = -1 if fault.kind == "away" else fault.gateway
        self._plant(fault, "delay" if fault.kind == "delay" else "cut", gateway)
        before = self._copy_before(self.now() - fault.back_s)
        for link in links:
            link.begin(fault)
        await asyncio.sleep(max(0.0, end - self.now()))
        if fault.kind == "away" and fault.how in {"older", "empty"}:
            self._plant(fault, "loss", -1, text=f"as it was at {before[0]:.2f}" if fault.how == "older" else "empty")
            if fault.how == "older":
                self.store.restore(before[1])
            else:
                self.store.flush()
        for link in links:
            link.end(fault)
        self.say("fault", f"{fault.kind} is over")

    def _put_junk(self, fault: Fault) -> None:
        """A call that nobody can read, due before all others."""
        root, call = b"toolgen:calls", b"call_" + b"0" * 24
        fields = (
            b"version",
            b"1",
            b"status",
            b"approved",
            b"principal",
            b"x",
            b"box",
            b"\xff" * 90,
            b"kind",
            b"approval",
        )
        self.store.command(b"HSET", root + b":call:" + call, *fields)
        for name in (b":open", b":due"):
            self.store.command(b"ZADD", root + name, b"0", call)
        self.store.command(b"INCR", root + b":changes")

    def _put_old_call(self, fault: Fault) -> None:
        """One call as it was some time ago, which is how a store that lost writes has it."""
        _, (data, _) = self._copy_before(self.now() - fault.back_s)
        begins = b"toolgen:calls:call:"
        changed = [
            key
            for key in sorted(data)
            if key.startswith(begins) and key in self.store.data and data[key] != self.store.data[key]
        ]
        if not changed:
            return
        key = self.random.choice(changed)
        call = key.removeprefix(begins)
        self._plant(fault, "loss", -1, text=f"{call.decode()} as it was")
        self.store.data[key] = dict(data[key])
        self.store.command(b"ZREM", b"toolgen:calls:ended", call)
        for name in (b":open", b":due"):
            self.store.command(b"ZADD", b"toolgen:calls" + name, b"0", call)
        self.store.command(b"INCR", b"toolgen:calls:changes")

    def _heal(self) -> None:
        for link in self.links:
            link.faults.clear()
            link.open.set()
        for home in self.homes:
            for number, worker in list(home.workers.items()):
                worker.process.carry_on()
                if worker.process.state is State.DEAD:
                    home.start(number)

    def _unresolved(self) -> bool:
        evidence = self.evidence
        for cached in ("by_call", "operation_of", "effects"):
            evidence.__dict__.pop(cached, None)
        return any(
            any(one.event == "intent" for one in entries)
            and any(one.status == "pending" for one in entries)
            and not any(one.ends for one in entries)
            for entries in evidence.by_call.values()
        )


class Link:
    """State of the network between one gateway and the store."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.open = asyncio.Event()
        self.open.set()

    def begin(self, fault: Fault) -> None:
        """A fault of the network begins."""
        self.faults.append(fault)
        self.open.clear()

    def end(self, fault: Fault) -> None:
        """It is over."""
        if fault in self.faults:
            self.faults.remove(fault)
        if not self.faults:
            self.open.set()

    async def ask(self, world: World, work: Callable[[], T]) -> T:
        """What the store answers, in the time that the network takes. Raises `ConnectionError` of Redis' client."""
        if not self.faults:
            await asyncio.sleep(world.random.uniform(0.0001, 0.001))
            if not self.faults:
                return work()
        ways = {one.how for one in self.faults if one.kind != "delay"}
        if "hang" in ways:
            await asyncio.sleep(3600)
        if "lose_answers" in ways:
            await asyncio.sleep(world.random.uniform(0.0001, 0.3))
            chance = world.random.random()
            found = work() if chance < 0.7 else None
            if chance < 0.4:
                return found  # type: ignore[return-value]
            raise redis.exceptions.ConnectionError("Connection reset by peer")
        if ways:
            await asyncio.sleep(world.random.uniform(0.0001, 0.01))
            raise redis.exceptions.ConnectionError("Connection refused")
        delay = sum(one.back_s for one in self.faults)
        await asyncio.sleep(world.random.uniform(0, delay))
        found = work()
        await asyncio.sleep(world.random.uniform(0, delay))
        if any(one.kind != "delay" for one in self.faults):
            raise redis.exceptions.ConnectionError("Connection reset by peer")
        return found


class MemoryClient:
    """Stand-in for `redis.asyncio.Redis`, as far as `RedisLink` uses it. It has no connection that could be looked at."""

    def __init__(self, **_: object) -> None:
        process = current_process()
        assert isinstance(process, WorkerProcess)
        self._home = process.home

    async def initialize(self) -> None: ...

    async def evalsha(self, digest: str, numkeys: int, *arguments: str | bytes) -> Any:
        text = _TEXTS.get(digest)
        if text is None:
            raise redis.exceptions.NoScriptError("NOSCRIPT No matching script")
        return await self._run(text, numkeys, arguments)

    async def eval(self, text: str, numkeys: int, *arguments: str | bytes) -> Any:
        _TEXTS[sha1(text.encode(), usedforsecurity=False).hexdigest()] = text
        return await self._run(text, numkeys, arguments)

    async def aclose(self) -> None: ...

    async def _run(self, text: str, numkeys: int, arguments: tuple[str | bytes, ...]) -> Any:
        world = self._home.world
        work = lambda: world.store.run(text, arguments[:numkeys], arguments[numkeys:])  # noqa: E731
        return await world.links[self._home.number].ask(world, work)


_TEXTS: dict[str, str] = {}


class WorkerProcess(Process):
    """A process of a gateway."""

    def __init__(self, home: Home, number: int) -> None:
        super().__init__(f"{home.name}/{number}")
        self.home, self.number = home, number
        self.connections: list[sqlite3.Connection] = []


class Home:
    """One gateway: its folder, its audit log and its workers."""

    def __init__(self, world: World, number: int, folder: Path, count: int) -> None:
        self.world, self.number, self.count = world, number, count
        self.name = "AB"[number]
        self.settings = settings_in(folder)
        self.workers: dict[int, Worker] = {}
        self.sizes: dict[str, int] = {}

    def start(self, number: int) -> None:
        """Starts a worker."""
        self.workers[number] = Worker(self, number)

    async def ask(
        self, work: Callable[[Gateway], Awaitable[T]], caller_connection: CallerConnection | None = None
    ) -> T:
        """What one of the workers answers to a request. Raises `ConnectionError` and, when none answers, `TimeoutError`."""
        there = [
            one for one in self.workers.values() if one.process.state is not State.DEAD and one.gateway is not None
        ]
        if not there:
            raise ConnectionRefusedError("no worker listens")
        return await self.world.random.choice(there).ask(work, caller_connection)


class Worker:
    """One process of a gateway, with the real `Gateway` in it."""

    def __init__(self, home: Home, number: int) -> None:
        self.home = home
        self.process = WorkerProcess(home, number)
        self.process.at_death.append(self._died)
        self.gateway: Gateway | None = None
        self._leaving = asyncio.Event()
        self._answers: set[asyncio.Future[Any]] = set()
        self.process.context.run(asyncio.create_task, self._serve())

    def leave(self) -> None:
        """SIGTERM."""
        self.gateway = None
        self._leaving.set()

    def close_files(self) -> None:
        """Closes what the kernel would."""
        for connection in self.process.connections:
            connection.close()

    async def ask(self, work: Callable[[Gateway], Awaitable[T]], caller_connection: CallerConnection | None) -> T:
        """As `Home.ask`."""
        loop, gateway = asyncio.get_running_loop(), self.gateway
        answer: asyncio.Future[T] = loop.create_future()
        assert gateway is not None

        def begin() -> None:
            async def answering() -> None:
                try:
                    found = await work(gateway)
                except Exception as error:
                    if not answer.done():
                        answer.set_exception(error)
                else:
                    if not answer.done():
                        answer.set_result(found)

            asyncio.create_task(answering())  # noqa: RUF006 - the loop keeps what is left

        loop.call_soon(begin, context=self.process.context.copy())
        self._answers.add(answer)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                return await answer
        except TimeoutError:
            if caller_connection is not None and self.process.state is not State.DEAD:
                loop.call_soon(caller_connection.leave, context=self.process.context.copy())
            raise
        finally:
            self._answers.discard(answer)

    async def _serve(self) -> None:
        home = self.home
        _, manifest, policy = served_project()
        executor = Executor(home.world, home.name)
        try:
            async with Gateway(
                settings=home.settings,
                manifest=manifest,
                policy=policy,
                clock=Clock(home.world),
                stand_in=dict.fromkeys(manifest.sources, executor),
            ) as gateway:
                self.gateway = gateway
                await self._leaving.wait()
        except (AttributeError, NameError, TypeError) as error:
            home.world.failures.append(error)
            raise
        home.world.say(self.process.name, "left")
        loop = asyncio.get_running_loop()
        loop.call_soon(home.start, self.process.number, context=home.world.context.copy())

    def _died(self) -> None:
        self.gateway = None
        self.close_files()
        for answer in self._answers:
            if not answer.done():
                answer.set_exception(ConnectionResetError("the worker was killed"))


class Clock:
    """The machine's clock, virtual."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> float:
        return EPOCH + self._world.now()

    def monotonic(self) -> float:
        return self._world.now()


class Executor:
    """Asks the simulated upstream."""

    def __init__(self, world: World, gateway: str) -> None:
        self._world, self._gateway = world, gateway

    async def execute(self, call: Call) -> Success | Failed | Refused:
        return await self._world.upstream(call, self._gateway)

    def preview(self, call: Call) -> JsonObject:
        return dict(call.arguments)

    async def close(self) -> None: ...


class AuditList:
    """Stand-in for `AuditLog`: entries of one worker, in the evidence, which outlive it."""

    key = b"k" * 32
    fault: str | None = None

    def __init__(self, directory: Path, *_: object, **__: object) -> None:
        process = current_process()
        assert isinstance(process, WorkerProcess)
        self.directory = directory
        self._home, self.stream = process.home, f"gateway-{process.number + 1}"
        self._open = False

    @property
    def size(self) -> int:
        return self._home.sizes.get(self.stream, 0)

    def open(self) -> None:
        self._open = True

    async def end_abandoned(self, waits_as: Callable[[str], Awaitable[str | None]]) -> None:
        """As `AuditLog` does it: a killed worker may have left calls of this stream without an outcome."""
        evidence, begun = self._home.world.evidence, dict[str, str]()
        for entry in evidence.entries:
            if (entry.gateway, entry.stream) != (self._home.name, self.stream):
                continue
            if entry.event == "intent":
                begun[entry.call_id] = entry.operation
            elif entry.event == "outcome" or entry.code:
                begun.pop(entry.call_id, None)
        for call_id, name in begun.items():
            waits = await waits_as(call_id)
            operation = evidence.operations.get(name)
            read = operation is not None and operation.effect == "read"
            status, code = ("cancelled", "cancelled") if read else ("error", "outcome_unknown")
            if waits is not None:
                status, code = "pending", waits
            if code:
                await self.append({"event": "outcome", "call_id": call_id, "status": status, "code": code})

    def warnings(self) -> tuple[str, ...]:
        return ()

    def counts(self) -> AuditCounts:
        return AuditCounts(entries={}, writes=0, writing_s=0.0, waiting=0)

    def probe(self) -> None: ...

    async def append(self, fields: Mapping[str, Any]) -> tuple[str, int]:
        if not self._open:
            raise AuditError("the audit log is not open")
        world, home = self._home.world, self._home
        if (
            fields.get("status") == "pending"
            and (slow := Random(f"{world.plan.seed} {self.stream} {self.size}")).random() < 0.3
        ):
            await asyncio.sleep(slow.uniform(0, 1.5))  # the disk is slow, and the worker may be killed meanwhile
        seq = home.sizes[self.stream] = self.size + 1
        if fields.get("call_id"):
            arguments = fields.get("arguments") or {}
            entry = Entry(
                at=world.now(),
                gateway=home.name,
                stream=self.stream,
                seq=seq,
                event=fields["event"],
                call_id=fields["call_id"],
                operation=str(arguments.get("op", "")) if fields["event"] == "intent" else "",
                status=str(fields.get("status") or ""),
                code=str(fields.get("code") or ""),
                verdict=str(fields.get("verdict") or ""),
            )
            world.evidence.entries.append(entry)
            said = " ".join(filter(None, (entry.operation, entry.verdict, entry.status, entry.code)))
            world.say(f"record {home.name}{self.stream[-1]}", f"{entry.event} {entry.call_id} {said}")
        else:
            world.say(f"record {home.name}{self.stream[-1]}", " ".join(str(one) for one in fields.values())[:120])
        await asyncio.sleep(world.random.uniform(0.0001, 0.001))
        return self.stream, seq

    async def close(self) -> None:
        self._open = False


def _outcomes(_: Path, call_ids: Collection[str], since: float) -> Mapping[str, str]:
    """Stand-in for `recorded_outcomes`: what the record of this worker's gateway says, in the evidence."""
    process = current_process()
    assert isinstance(process, WorkerProcess)
    ended: dict[str, str] = {}
    for entry in process.home.world.evidence.entries:
        if entry.gateway == process.home.name and entry.call_id in call_ids and entry.event in {"intent", "outcome"}:
            ended[entry.call_id] = (entry.code or entry.status) if entry.ends else ""
        elif entry.gateway == process.home.name and entry.call_id in call_ids and entry.ends:
            ended[entry.call_id] = entry.code or entry.status
    return {call_id: found for call_id, found in ended.items() if found}


def _memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@contextmanager
def _seeded(random: Random) -> Iterator[None]:
    """Ids, nonces and threads as a run needs them, and the stand-ins in place."""

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = _connect(*arguments, **options)
        connection.execute("PRAGMA journal_mode = MEMORY")
        if isinstance(process := current_process(), WorkerProcess):
            process.connections.append(connection)
        return connection

    _connect = sqlite3.connect
    logging.disable(logging.CRITICAL)
    try:
        with (
            patch.object(secrets, "token_bytes", lambda count=32: random.randbytes(count)),
            patch.object(secrets, "token_hex", lambda count=32: random.randbytes(count).hex()),
            patch.object(os, "urandom", random.randbytes),
            patch.object(redis.asyncio, "Redis", MemoryClient),
            patch.object(RedisLink, "_watch", lambda *_: None),
            patch.object(RedisLink, "_has_ended", lambda _: False),
            patch("toolgen.state.sqlite_file.ThreadPoolExecutor", InlineExecutor),
            patch("toolgen.gateway.assembly.AuditLog", AuditList),
            patch("toolgen.gateway.operations.waiting_calls.recorded_outcomes", _outcomes),
            patch.object(sqlite3, "connect", connect),
            ExitStack() as rare,
        ):
            for name, seconds in _RARE.items():
                rare.enter_context(patch(name, seconds))
            yield
    finally:
        logging.disable(logging.NOTSET)


_RARE = {
    "toolgen.gateway.approvals.role_grants.POLL_S": 5.0,
    "toolgen.gateway.policies.policy_reloader.INTERVAL_S": 30.0,
    "toolgen.gateway.catalog.catalog_reloader.INTERVAL_S": 30.0,
    "toolgen.gateway.catalog.runtime_tools.INTERVAL_S": 30.0,
    "toolgen.gateway.metrics.status._LOOK_S": 5.0,
    "toolgen.state.pauses.POLL_S": 5.0,
    "toolgen.gateway.operations.approval_runner._INTERVAL_S": 0.5,
}
"""Intervals at which processes ask for news, longer than they are: two thirds of the time would go there."""
