"""Counts of several workers of one host, held by the process above them: one count for all, exact, and without a file.

Workers connect by socket pairs, which have no name that others could connect to. The calls in flight of a worker end with its connection,
so that a killed worker blocks nothing and affects no other count.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from toolgen.core.clock import Clock
from toolgen.core.frames import Frames
from toolgen.state.count_connection import TIMEOUT_S, Script, StoreUnreachableError
from toolgen.state.history import BloomFilter
from toolgen.state.rate_limits import Hold, Key, MemoryBuckets
from toolgen.state.shared_histories import FORGOTTEN
from toolgen.state.turn_counter import MemoryTurnLease, MemoryTurns

__all__ = ["CountClient", "CountServer"]

_MAX_SESSIONS = 1_000
_MAX_PARTIES = 10_000
_Answer: TypeAlias = list[int | bytes | None]


class _ScriptStep(msgspec.Struct, frozen=True, array_like=True):
    """Step of a script, by its name, with its arguments."""

    number: int
    script: Literal["buckets", "history", "turns"]
    arguments: list[bytes]


class _Told(msgspec.Struct, frozen=True, array_like=True):
    """Answer of a script; no value if it failed."""

    number: int
    value: list[int | bytes | None] | None = None


class _Batch(msgspec.Struct, frozen=True):
    """Input of `buckets.lua`, the part that this server needs."""

    takes: list[tuple[str, list[tuple[str, float, float, float, int]]]]
    releases: list[tuple[str, str]]
    renewals: list[tuple[str, str]]
    beat: bool
    looks: list[tuple[str, float, float, int]] = []


class _Steps(msgspec.Struct, frozen=True):
    """Input of `turns.lua`, the part that this server needs."""

    limit: int
    steps: list[tuple[int, str, str, str]]


class _Terms(Struct, frozen=True):
    """Limit of one charge, numbered by the charge's position."""

    id: str
    per_second: float
    burst: float
    concurrency: int
    wait_s: float = 0.0
    on_failure: Literal["refuse", "share"] = "refuse"


class _Charge(Struct, frozen=True):
    key: Key
    cost: float
    limit: _Terms


class CountServer:
    """Shared counters of all workers, with one connection for each worker. Only connections of live workers count as processes."""

    def __init__(self, clock: Clock) -> None:
        self.buckets = MemoryBuckets(clock)
        self.turns = MemoryTurns(0, clock)
        self.boxes = _Boxes()
        self.workers: set[_Worker] = set()

    async def connect(self) -> socket.socket:
        """Return a worker's end of a connection; this process closes it once the worker has it."""
        ours, theirs = socket.socketpair()
        worker = _Worker(self)
        await asyncio.get_running_loop().create_unix_connection(lambda: worker.frames, sock=ours)
        return theirs

    async def close(self) -> None:
        """Close every connection."""
        for worker in tuple(self.workers):
            worker.frames.abort()
            await worker.ended.wait()


class _Worker:
    """Connection of one worker, and its calls in flight."""

    def __init__(self, server: CountServer) -> None:
        self._server = server
        self._leases: dict[str, Hold] = {}
        self._unheard: set[str] = set()  # leases missing in the worker's last list
        self._turn_leases: dict[tuple[str, str], list[MemoryTurnLease]] = {}
        self.ended = asyncio.Event()
        self.frames: Frames[_ScriptStep] = Frames(_ScriptStep, self._handle_message, self._lost)
        server.workers.add(self)

    def _handle_message(self, asked: _ScriptStep) -> None:
        value: _Answer | None = None
        try:
            match asked.script:
                case "buckets":
                    value = self._count(msgspec.json.decode(asked.arguments[0], type=_Batch))
                case "turns":
                    value = self._turn(msgspec.json.decode(asked.arguments[0], type=_Steps))
                case "history":
                    value = self._server.boxes.replace(asked.arguments[3:])
        except (ValueError, LookupError, ArithmeticError, msgspec.MsgspecError):
            value = None  # the caller takes it as no answer
        self.frames.send(_Told(asked.number, value))

    def _count(self, given: _Batch) -> _Answer:
        """Run `buckets.lua`. A lease missing in two lists of its worker is one whose answer the worker gave up."""
        for _, lease in given.releases:
            self._release(lease)
        if given.beat:
            named = {lease for _, lease in given.renewals}
            for lease in self._unheard - named:
                self._release(lease)
            self._unheard = self._leases.keys() - named
        answer: _Answer = [len(self._server.workers)]
        for lease, asked in given.takes:
            charges = [
                _Charge((key,), cost, _terms(index, rate, burst, concurrency))
                for index, (key, cost, rate, burst, concurrency) in enumerate(asked, 1)
            ]
            refusal = self._server.buckets.take(charges)
            if refusal is not None:
                crowded = refusal.reason == "crowded"
                answer += [int(refusal.limit), -1 if crowded else math.ceil(refusal.retry_after_s * 1000)]
                continue
            if keys := tuple([charge.key for charge in charges if charge.limit.concurrency]):
                self._leases[lease] = Hold(keys=keys)
            answer += [0, 0]
        for key, rate, burst, concurrency in given.looks:
            charge = _Charge((key,), 0, _terms(0, rate, burst, concurrency))
            tokens, flying = self._server.buckets.level(charge)
            answer += [round(tokens * 1000), flying]
        return answer

    def _release(self, lease: str) -> None:
        hold = self._leases.pop(lease, None)
        if hold is not None:
            self._server.buckets.release(hold)

    def _turn(self, given: _Steps) -> _Answer:
        """Run `turns.lua`. Turns in progress need no message, because the worker's connection shows that it lives."""
        self._server.turns.limit = given.limit
        answer: _Answer = []
        for what, name, lease, who in given.steps:
            refused, wait = 0, 0
            if what == 0:
                turn_lease = self._server.turns.join((who,), name)
                if turn_lease.refused is None:
                    self._turn_leases.setdefault((name, lease), []).append(turn_lease)
                else:
                    refused = 1 if turn_lease.refused.reason == "spent" else 2
                    wait = math.ceil(turn_lease.refused.retry_after_s * 1000)
            elif what == 1:
                self._vacate(self._turn_leases.pop((name, lease), ()))
            answer += [refused, wait]
        return answer

    def _vacate(self, turn_leases: Sequence[MemoryTurnLease]) -> None:
        for turn_lease in turn_leases:
            turn_lease.release()

    def _lost(self) -> None:
        for lease in tuple(self._leases):
            self._release(lease)
        for turn_leases in self._turn_leases.values():
            self._vacate(turn_leases)
        self._turn_leases.clear()
        self._server.workers.discard(self)
        self.ended.set()


@lru_cache(maxsize=4096)
def _terms(index: int, rate: float, burst: float, concurrency: int) -> _Terms:
    return _Terms(str(index), rate, burst, concurrency)


class _CacheEntry(Struct):
    """Boxes of one principal: a version and a box by name, the most recently used last."""

    boxes: OrderedDict[str, tuple[str, bytes]] = field(default_factory=OrderedDict)
    forgotten: BloomFilter | None = None


class _Boxes:
    """Histories, encrypted by the workers. A principal can evict only its own sessions; an evicted one is remembered as such."""

    def __init__(self) -> None:
        self._shelves: OrderedDict[str, _CacheEntry] = OrderedDict()
        self._forgotten: BloomFilter | None = None

    def replace(self, arguments: Sequence[bytes]) -> _Answer:
        """Run `history.lua` without its time to live and epoch: four arguments for each name."""
        rows = [
            (name.decode(), known.decode(), version.decode(), box)
            for name, known, version, box in zip(*(arguments[at::4] for at in range(4)), strict=True)
        ]
        found: _Answer = [0]
        same = True
        for name, known, _, _ in rows:
            there, content = self._get(name)
            same = same and there == known
            found += [there.encode(), content]
        if not same:
            return found
        for name, _, version, box in rows:
            if box:
                self._put(name, version, box)
        return [1]

    def _get(self, name: str) -> tuple[str, bytes | None]:
        party = name.split(":")[1]
        shelf = self._shelves.get(party)
        kept = None if shelf is None else shelf.boxes.get(name)
        if kept is not None:
            return kept
        gone = self._forgotten is not None and party in self._forgotten
        own = shelf is not None and shelf.forgotten is not None and name in shelf.forgotten
        return (FORGOTTEN if gone or own else "", None)

    def _put(self, name: str, version: str, box: bytes) -> None:
        party = name.split(":")[1]
        shelf = self._shelves.get(party)
        if shelf is None:
            shelf = self._shelves[party] = _CacheEntry()
            if len(self._shelves) > _MAX_PARTIES:
                self._forgotten = self._forgotten or BloomFilter()
                self._forgotten.add(self._shelves.popitem(last=False)[0])
        self._shelves.move_to_end(party)
        shelf.boxes[name] = (version, box)
        shelf.boxes.move_to_end(name)
        if len(shelf.boxes) > _MAX_SESSIONS + 1:
            oldest = next(one for one in shelf.boxes if one.startswith("s:"))
            del shelf.boxes[oldest]
            shelf.forgotten = shelf.forgotten or BloomFilter()
            shelf.forgotten.add(oldest)


class CountClient:
    """Connection of a worker over the socket with this descriptor. All counts share it; once it is lost, every call
    that needs a count is refused.
    """

    place = "the process above the workers"
    prefix = "toolgen"

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)
        self._opening = asyncio.Lock()
        self._frames: Frames[_Told] = Frames(_Told, self._handle_message, self._lost)
        self._number = 0
        self._asked: dict[int, asyncio.Future[list[int | bytes | None]]] = {}

    async def run(self, script: Script, argument: bytes) -> list[int]:
        """Run a script and return its integers. Raises `StoreUnreachableError`."""
        answer: list[int] = await self.ask(script, "", argument)
        if not all(isinstance(item, int) for item in answer):
            raise StoreUnreachableError("TypeError")
        return answer

    async def ask(self, script: Script, key: str, *arguments: str | bytes) -> Any:
        """Run a script and return its answer. Raises `StoreUnreachableError`."""
        if self._frames.transport is None:
            await self._open()
        if not self._frames.is_open:
            raise StoreUnreachableError("ConnectionError")
        self._number += 1
        number, answer = self._number, asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        given = [one.encode() if isinstance(one, str) else one for one in ((key, *arguments) if key else arguments)]
        try:
            self._frames.send(_ScriptStep(number, script.name, given))  # type: ignore[arg-type] # as the other end finds out
            async with asyncio.timeout(2 * TIMEOUT_S):
                return await answer
        except (TimeoutError, ValueError) as error:
            raise StoreUnreachableError(type(error).__name__) from None
        finally:
            del self._asked[number]

    async def close(self) -> None:
        """Do nothing, because other users of the connection may still need it."""

    def end(self) -> None:
        """Close the connection: the calls in flight of this worker have ended."""
        if self._frames.transport is None:
            self._socket.close()
        else:
            self._frames.abort()

    async def _open(self) -> None:
        async with self._opening:
            if self._frames.transport is None:
                await asyncio.get_running_loop().create_unix_connection(lambda: self._frames, sock=self._socket)

    def _handle_message(self, said: _Told) -> None:
        answer = self._asked.get(said.number)
        if answer is None or answer.done():
            return
        if said.value is None:
            answer.set_exception(StoreUnreachableError("it does not understand the request"))
        else:
            answer.set_result(said.value)

    def _lost(self) -> None:
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(StoreUnreachableError("ConnectionError"))
