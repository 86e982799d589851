"""Turns of conversations: calls that are in flight together are one turn, however many they are. Here the terms, and a process's memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from asyncio import Task
from collections import OrderedDict
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias

from toolgen.clock import Clock

__all__ = ["FORGOTTEN_S", "MAX_CALLS", "Excess", "MemoryTurns", "Parties", "Seat", "Turns"]

Parties: TypeAlias = tuple[str, ...]

MAX_CALLS = 64
"""How many calls may join one turn."""
FORGOTTEN_S = 3600.0
"""After how long without another turn a conversation begins anew."""
CROWDED_S = 1.0
_MAX_EACH = 1_000
_MAX_KEPT = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """Why a call has no place in its conversation, and in how many seconds it might have one."""

    reason: Literal["spent", "crowded", "unreachable"]
    retry_after_s: float


class Seat(ABC):
    """One call's place in a turn of its conversation, taken when it is made. Entered while its caller waits; its turn lasts as long as
    that, and as long as any of the tasks that hold it."""

    __slots__ = ("_holds",)

    def __init__(self) -> None:
        self._holds = 1

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()
        if kind is None:
            await self._settled()

    def hold(self, task: Task[object]) -> None:
        """Keeps the place until the task ends, also when the caller leaves before."""
        self._holds += 1
        task.add_done_callback(lambda _: self._release())

    @abstractmethod
    async def excess(self) -> Excess | None:
        """Why there is no place for this call; None when it has one."""

    @abstractmethod
    def _vacate(self) -> None:
        """Nobody holds the place any more."""

    async def _settled(self) -> None:  # noqa: B027 - in memory there is nothing to wait for
        """Waits until whoever counts knows what was released: then the next call of this caller finds its turn ended."""

    def _release(self) -> None:
        self._holds -= 1
        if self._holds == 0:
            self._vacate()


class Turns(Protocol):
    """Whatever counts turns: this process, or all of them together."""

    def join(self, parties: Parties, conversation: str) -> Seat:
        """A seat in the turn that is in flight in this conversation of theirs, or in the next where none is. Never waits, so that calls
        made at once are one turn."""
        ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class _Conversation:
    turns: int = 0
    calls: int = 0  # in its last turn
    flying: int = 0
    joined: float = 0.0  # its last turn, by its last call


class _MemorySeat(Seat):
    __slots__ = ("_conversation", "_excess")

    def __init__(self, conversation: _Conversation, excess: Excess | None) -> None:
        super().__init__()
        self._conversation = conversation
        self._excess = excess

    async def excess(self) -> Excess | None:
        return self._excess

    def _vacate(self) -> None:
        if self._excess is None:
            self._conversation.flying -= 1


class MemoryTurns:
    """Turns by caller and conversation. Each caller may push out its own conversations, those used longest ago first, before anybody
    else's."""

    def __init__(self, limit: int, clock: Clock) -> None:
        self._limit = limit
        self._clock = clock
        self._kept: OrderedDict[Parties, OrderedDict[str, _Conversation]] = OrderedDict()
        self._size = 0

    def join(self, parties: Parties, conversation: str) -> Seat:
        now = self._clock.monotonic()
        found = self._found(parties, conversation)
        if not found.flying:
            if now - found.joined >= FORGOTTEN_S:
                found.turns = 0
            if found.turns >= self._limit:
                return _MemorySeat(found, Excess(reason="spent", retry_after_s=found.joined + FORGOTTEN_S - now))
            found.turns += 1
            found.calls = 0
        elif found.calls >= MAX_CALLS:
            return _MemorySeat(found, Excess(reason="crowded", retry_after_s=CROWDED_S))
        found.calls += 1
        found.flying += 1
        found.joined = now
        return _MemorySeat(found, None)

    async def close(self) -> None:
        """There is nothing to close."""

    def _found(self, parties: Parties, conversation: str) -> _Conversation:
        own = self._kept.get(parties)
        found = None if own is None else own.get(conversation)
        if found is None:
            if own is not None and len(own) >= _MAX_EACH:
                self._forget(parties)
            elif self._size >= _MAX_KEPT:
                for other in self._kept:  # the first, unless all it has is in flight
                    if self._forget(other):
                        break
            found = self._kept.setdefault(parties, OrderedDict())[conversation] = _Conversation()
            self._size += 1
        self._kept[parties].move_to_end(conversation)
        self._kept.move_to_end(parties)
        return found

    def _forget(self, parties: Parties) -> bool:
        """Forgets the conversation that was used longest ago and has nothing in flight."""
        own = self._kept[parties]
        oldest = next((name for name, one in own.items() if not one.flying), None)
        if oldest is None:
            return False
        del own[oldest]
        self._size -= 1
        if not own:
            del self._kept[parties]
        return True
