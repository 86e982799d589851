"""Turns of conversations, counted in memory or in a store of several processes: calls in flight together are one turn."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
from abc import ABC, abstractmethod
from asyncio import Task
from collections import OrderedDict
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias

import msgspec
from msgspec import Struct, field

from toolgen.core.background import Background, cancel
from toolgen.core.clock import Clock
from toolgen.state.count_connection import Link, LinkError, ReplyError, Script, StoreUnreachableError

__all__ = [
    "FORGOTTEN_S",
    "MAX_CALLS",
    "Excess",
    "MemoryTurnLease",
    "MemoryTurns",
    "SharedTurns",
    "TurnCounter",
    "TurnLease",
]

Parties: TypeAlias = tuple[str, ...]

MAX_CALLS = 64
"""Maximum calls of one turn."""
FORGOTTEN_S = 3600.0
"""Seconds without a turn after which a conversation starts again."""
CROWDED_S = 1.0
_MAX_EACH = 1_000
_MAX_KEPT = 50_000


class Excess(Struct, frozen=True, kw_only=True):
    """Reason why a call has no place in its conversation, and the seconds until there may be one."""

    reason: Literal["spent", "crowded", "unreachable"]
    retry_after_s: float


class TurnLease(ABC):
    """Place of a call in a turn of its conversation, taken when the call is made. It is entered while the caller waits; the turn lasts
    as long as that, and until all tasks with a hold have released it.
    """

    __slots__ = ("_holds",)

    def __init__(self) -> None:
        self._holds = 1

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        if kind is None:
            await self._settled()

    def hold(self, task: Task[object]) -> None:
        """Keep the place until the task ends, even if the caller disconnects before."""
        self._holds += 1
        task.add_done_callback(lambda _: self.release())

    @abstractmethod
    async def excess(self) -> Excess | None:
        """Reason why there is no place for this call; None if it has one."""

    @abstractmethod
    def _vacate(self) -> None:
        """Return the place after the last release."""

    async def _settled(self) -> None:  # noqa: B027 - in memory there is nothing to wait for
        """Wait until the counter has the released turns, so that the next call of this caller finds its turn ended."""

    def release(self) -> None:
        """Release one hold on the place."""
        self._holds -= 1
        if self._holds == 0:
            self._vacate()


class TurnCounter(Protocol):
    """Counter of turns: of this process, or of all of them together."""

    def join(self, parties: Parties, conversation: str) -> TurnLease:
        """Return a lease in the conversation's turn that is in flight, or in the next one. Never waits, so that concurrent calls are
        one turn."""
        ...

    async def close(self) -> None: ...


class _Conversation(Struct):
    turns: int = 0
    calls: int = 0  # calls in its last turn
    flying: int = 0
    joined: float = 0.0  # time of its last turn, by its last call


class MemoryTurnLease(TurnLease):
    """Lease in a turn that is counted in this process; `refused` has the reason if there is none."""

    __slots__ = ("_conversation", "refused")

    def __init__(self, conversation: _Conversation, refused: Excess | None) -> None:
        super().__init__()
        self._conversation = conversation
        self.refused = refused

    async def excess(self) -> Excess | None:
        return self.refused

    def _vacate(self) -> None:
        if self.refused is None:
            self._conversation.flying -= 1


class MemoryTurns:
    """Turns by caller and conversation. A caller with too many conversations loses its own least recently used ones first."""

    def __init__(self, limit: int, clock: Clock) -> None:
        self.limit = limit
        self._clock = clock
        self._kept: OrderedDict[Parties, OrderedDict[str, _Conversation]] = OrderedDict()
        self._size = 0

    def join(self, parties: Parties, conversation: str) -> MemoryTurnLease:
        now = self._clock.monotonic()
        found = self._found(parties, conversation)
        if not found.flying:
            if now - found.joined >= FORGOTTEN_S:
                found.turns = 0
            if found.turns >= self.limit:
                return MemoryTurnLease(found, Excess(reason="spent", retry_after_s=found.joined + FORGOTTEN_S - now))
            found.turns += 1
            found.calls = 0
        elif found.calls >= MAX_CALLS:
            return MemoryTurnLease(found, Excess(reason="crowded", retry_after_s=CROWDED_S))
        found.calls += 1
        found.flying += 1
        found.joined = now
        return MemoryTurnLease(found, None)

    async def close(self) -> None:
        """Do nothing, because no resource is open."""

    def _found(self, parties: Parties, conversation: str) -> _Conversation:
        own = self._kept.get(parties)
        found = None if own is None else own.get(conversation)
        if found is None:
            if own is not None and len(own) >= _MAX_EACH:
                self._forget(parties)
            elif self._size >= _MAX_KEPT:
                for other in self._kept:  # the first principals with a conversation that has no call in flight
                    if self._forget(other):
                        break
            found = self._kept.setdefault(parties, OrderedDict())[conversation] = _Conversation()
            self._size += 1
        self._kept[parties].move_to_end(conversation)
        self._kept.move_to_end(parties)
        return found

    def _forget(self, parties: Parties) -> bool:
        """Remove the least recently used conversation without a call in flight."""
        own = self._kept[parties]
        oldest = next((name for name, one in own.items() if not one.flying), None)
        if oldest is None:
            return False
        del own[oldest]
        self._size -= 1
        if not own:
            del self._kept[parties]
        return True


_logger = logging.getLogger(__name__)

_SCRIPT = Script.named("turns")
_ENTER, _LEAVE, _STAY = 0, 1, 2
_RETRY_S = 0.5  # pause after a fault, so that calls do not wait for a timeout
_MAX_BATCH = 256
_UNREACHABLE = Excess(reason="unreachable", retry_after_s=1.0)


class _TurnGroup(Struct):
    """Calls of one conversation in flight in this process, under one lease from the start of the first call to the end of the last."""

    who: str
    name: str
    lease: str
    holders: int = 0
    entered: bool = False
    left: asyncio.Future[Excess | None] | None = None


class _Step(Struct):
    """Message to the counting store, kept until it is delivered."""

    what: int
    group: _TurnGroup
    done: asyncio.Future[Excess | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class _SharedTurnLease(TurnLease):
    __slots__ = ("_group", "_turns")

    def __init__(self, turns: SharedTurns, group: _TurnGroup) -> None:
        super().__init__()
        self._turns = turns
        self._group = group
        group.holders += 1

    async def excess(self) -> Excess | None:
        return await self._turns.enter(self._group)

    def _vacate(self) -> None:
        self._group.holders -= 1
        if not self._group.holders:
            self._turns.leave(self._group)

    async def _settled(self) -> None:
        if self._group.left is not None:
            await self._group.left


class SharedTurns:
    """Turns at the other end of a link, by its clock. While that is unreachable, calls of a conversation are refused. Calls of a process
    that ended without notice count as ended after `lease_s` at the latest.
    """

    def __init__(
        self, limit: int, link: Link, clock: Clock, *, lease_s: float = 20.0, background: Background | None = None
    ) -> None:
        self._background = background or Background()
        self._limit = limit
        self._link = link
        self._clock = clock
        self._lease_s = lease_s
        self._process = secrets.token_hex(8)
        self._made = 0
        self._groups: dict[str, _TurnGroup] = {}
        self._steps: list[_Step] = []
        self._sending: asyncio.Task[None] | None = None
        self._staying: asyncio.Task[None] | None = None
        self._reachable = True
        self._down_until = 0.0

    def join(self, parties: Parties, conversation: str) -> TurnLease:
        name = _digest([parties, conversation])
        group = self._groups.get(name)
        if group is None:
            self._made += 1
            group = self._groups[name] = _TurnGroup(_digest(parties), name, f"{self._process}:{self._made}")
        return _SharedTurnLease(self, group)

    async def enter(self, group: _TurnGroup) -> Excess | None:
        """Count one call, in the turn that is in flight anywhere, or in a new one."""
        if not self._reachable and self._clock.monotonic() < self._down_until:
            return _UNREACHABLE
        if self._staying is None:
            self._staying = self._background.start(f"the count of turns in {self._link.place}", self._renew_repeatedly)
        group.entered = True
        return await self._queue_step(_ENTER, group)

    def leave(self, group: _TurnGroup) -> None:
        """End the turn's use here. If the counting store cannot be reached, its lease expires."""
        del self._groups[group.name]
        if group.entered:
            group.left = self._queue_step(_LEAVE, group)

    async def close(self) -> None:
        """Send the pending steps, and close the connection."""
        if self._staying is not None:
            await cancel(self._staying)
        if self._sending is not None:
            await asyncio.wait((self._sending,))
        await self._link.close()

    def _queue_step(self, what: int, group: _TurnGroup) -> asyncio.Future[Excess | None]:
        step = _Step(what, group)
        self._steps.append(step)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())
        return step.done

    async def _send(self) -> None:
        """Send the steps in order. Steps of the same event loop iteration are one batch, steps that come up meanwhile the next."""
        while self._steps:
            batch, self._steps = self._steps[:_MAX_BATCH], self._steps[_MAX_BATCH:]
            given = {
                "prefix": self._link.prefix,
                "limit": self._limit,
                "most": MAX_CALLS,
                "lease_ms": round(self._lease_s * 1000),
                "kept_ms": round(FORGOTTEN_S * 1000),
                "steps": [(step.what, step.group.name, step.group.lease, step.group.who) for step in batch],
            }
            answers: list[Excess | None] = [_UNREACHABLE] * len(batch)
            try:
                told = await self._link.run(_SCRIPT, msgspec.json.encode(given))
                if len(told) != 2 * len(batch):
                    raise StoreUnreachableError("its answer does not match the request")
                answers = [_excess(code, wait_ms) for code, wait_ms in zip(told[::2], told[1::2], strict=True)]
                self._found()
            except ReplyError:  # only these turns are refused, and the link has logged the reason
                pass
            except LinkError as error:
                self._lost(str(error))
            for step, answer in zip(batch, answers, strict=True):
                if not step.done.done():
                    step.done.set_result(answer)

    async def renew(self) -> None:
        """Renew the leases of the turns in flight here."""
        told = [self._queue_step(_STAY, group) for group in self._groups.values() if group.entered]
        if told:
            await asyncio.wait(told)

    async def _renew_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(self._lease_s / 4)
            await self.renew()

    def _lost(self, why: str) -> None:
        self._down_until = self._clock.monotonic() + _RETRY_S
        if self._reachable:
            self._reachable = False
            _logger.error("%s, where turns of conversations are counted, cannot be used (%s)", self._link.place, why)

    def _found(self) -> None:
        if not self._reachable:
            self._reachable = True
            _logger.warning("%s, where turns of conversations are counted, can be used again", self._link.place)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:40]


def _excess(code: int, wait_ms: int) -> Excess | None:
    match code:
        case 0:
            return None
        case 1:
            return Excess(reason="spent", retry_after_s=wait_ms / 1000)
        case _:
            return Excess(reason="crowded", retry_after_s=CROWDED_S)
