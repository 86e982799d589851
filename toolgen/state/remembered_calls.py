"""Cache of the calls that run or ended in this process, so that a request for one of them does not wait for the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from toolgen.state.call_states import Kind
from toolgen.state.invocation_format import as_json
from toolgen.state.invocations import Fate, Invocation, Invocations, RetainedBytes, Room

__all__ = ["RememberedCalls"]

_MAX_CALLS = 512
_MAX_SIZE = 16_384
_MAX_QUEUE_SIZE = 32 * 1024 * 1024
"""Maximum bytes of the calls that wait for people in this cache, in their stored form."""


class RememberedCalls:
    """Cache in front of `store`, which is asked for everything that this process did not write itself.

    The cache has calls that run without their caller, and their outcomes, which are final. Others may mark a running call as
    cancelled, or lost: it is read again after `changed` finds writes of others. A change is always made in the store.

    Lists of calls that wait for people are read by their versions: a list of thousands of them costs only those that changed. Such a list
    is for people to see; a decision reads its call from the store.
    """

    def __init__(self, store: Invocations) -> None:
        self._store = store
        self._own: dict[str, Invocation | None] = {}
        self._queue = _Queue()

    @property
    def by_others(self) -> bool:
        return self._store.by_others

    async def add(self, invocation: Invocation, *, each: int, total: int) -> Invocation | None:
        kept = await self._store.add(invocation, each=each, total=total)
        if kept is not None:
            self._remember(kept)
        return kept

    async def get(self, call_id: str) -> Invocation | None:
        if (known := self._own.get(call_id)) is not None:
            return known
        found = await self._store.get(call_id)
        if found is not None and self._own.get(call_id, found) is None:
            self._remember(found)
        return found

    async def replace(self, known: Invocation, changed: Invocation, *, room: Room | None = None) -> Invocation | None:
        kept = await self._store.replace(known, changed, room=room)
        if kept is None:
            self._own.pop(known.id, None)
        else:
            self._remember(kept)
        return kept

    async def changed(self) -> bool:
        news = await self._store.changed()
        if self._store.by_others:
            for call_id, known in self._own.items():
                if known is not None and known.status != "ended":
                    self._own[call_id] = None
        return news

    async def forget(self, before: float) -> None:
        await self._store.forget(before)
        for call_id in [one.id for one in self._own.values() if one and one.status == "ended" and one.ended < before]:
            del self._own[call_id]

    async def unfinished(self, kind: Kind = "approval") -> tuple[Invocation, ...]:
        if kind != "approval":
            return await self._store.unfinished(kind)
        listed = await self._store.versions(kind)
        self._queue.keep(listed)
        if absent := [call_id for call_id, _ in listed if call_id not in self._queue.calls]:
            read = {
                one.id: one for one in await self._store.several(absent) if one.status != "ended" and one.kind == kind
            }
            self._queue.add(read.values())
        else:
            read = {}
        found = (self._queue.calls.get(call_id) or read.get(call_id) for call_id, _ in listed)
        return tuple([one for one in found if one is not None])

    async def versions(self, kind: Kind = "approval") -> tuple[tuple[str, int], ...]:
        return await self._store.versions(kind)

    async def several(self, call_ids: Sequence[str]) -> tuple[Invocation, ...]:
        return await self._store.several(call_ids)

    async def ended_since(self, since: float) -> tuple[Invocation, ...]:
        return await self._store.ended_since(since)

    async def waiting(self, kind: Kind, principals: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        return await self._store.waiting(kind, principals)

    async def owned(self, principals: Sequence[str], after: float, limit: int) -> tuple[Invocation, ...]:
        return await self._store.owned(principals, after, limit)

    async def due(self, now: float) -> tuple[Invocation, ...]:
        return await self._store.due(now)

    async def held(self, principal: str) -> RetainedBytes:
        return await self._store.held(principal)

    async def renew(self, call_ids: Sequence[str], until: float, *, unless_due: float = -1.0) -> None:
        await self._store.renew(call_ids, until, unless_due=unless_due)

    async def fate(self, known: Invocation) -> Fate:
        return await self._store.fate(known)

    async def restore(self, known: Invocation, *, over: int | None = None) -> Invocation | None:
        self._own.pop(known.id, None)
        return await self._store.restore(known, over=over)

    async def restore_endings(self) -> None:
        await self._store.restore_endings()

    async def restore_ending(self, known: Invocation) -> Invocation | None:
        self._own.pop(known.id, None)
        return await self._store.restore_ending(known)

    async def missing(self, before: float) -> tuple[Invocation, ...]:
        return await self._store.missing(before)

    async def still_storing(self, call_ids: Sequence[str]) -> None:
        await self._store.still_storing(call_ids)

    async def awaited(self, call_id: str) -> Invocation | None:
        return await self._store.awaited(call_id)

    async def absent(self, calls: Mapping[str, float]) -> tuple[str, ...]:
        return await self._store.absent(calls)

    async def begin_epoch(self) -> bool:
        self._own.clear()
        self._queue = _Queue()
        return await self._store.begin_epoch()

    @property
    def listened(self) -> bool:
        return self._store.listened

    @property
    def lost_at(self) -> float:
        return self._store.lost_at

    @property
    def loss(self) -> str:
        return self._store.loss

    async def now(self) -> float:
        return await self._store.now()

    async def close(self) -> None:
        await self._store.close()

    def _remember(self, known: Invocation) -> None:
        own = known.kind == "call" and (known.final or (known.status == "running" and not known.asks))
        self._own.pop(known.id, None)
        if own and not (known.status != "ended" and known.cancel) and len(as_json(known)) <= _MAX_SIZE:
            self._own[known.id] = known
            if len(self._own) > _MAX_CALLS:
                del self._own[next(iter(self._own))]


class _Queue:
    """Cache of calls that wait for people, as large as `_MAX_QUEUE_SIZE` allows."""

    def __init__(self) -> None:
        self.calls: dict[str, Invocation] = {}
        self._sizes: dict[str, int] = {}
        self._size = 0

    def keep(self, listed: Sequence[tuple[str, int]]) -> None:
        """Drop all calls but those that are listed with the version that is cached."""
        versions = dict(listed)
        for call_id in [one.id for one in self.calls.values() if versions.get(one.id) != one.version]:
            del self.calls[call_id]
            self._size -= self._sizes.pop(call_id)

    def add(self, calls: Iterable[Invocation]) -> None:
        """Add calls that are not cached, as far as there is room."""
        for known in calls:
            size = len(as_json(known))
            if known.id not in self.calls and self._size + size <= _MAX_QUEUE_SIZE:
                self.calls[known.id], self._sizes[known.id] = known, size
                self._size += size
