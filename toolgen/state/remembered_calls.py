"""Cache of the calls that run or ended in this process, so that a request for one of them does not wait for the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolgen.state.call_states import Kind
from toolgen.state.invocation_format import as_json
from toolgen.state.invocations import Fate, Invocation, Invocations, RetainedBytes, Room

__all__ = ["RememberedCalls"]

_MAX_CALLS = 512
_MAX_SIZE = 16_384


class RememberedCalls:
    """Cache in front of `store`, which is asked for everything that this process did not write itself.

    The cache has calls that run without their caller, and their outcomes, which are final. Others may mark a running call as
    cancelled, or lost: it is read again after `changed` finds writes of others. A change is always made in the store.
    """

    def __init__(self, store: Invocations) -> None:
        self._store = store
        self._own: dict[str, Invocation | None] = {}

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
        return await self._store.unfinished(kind)

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

    async def awaited(self, call_id: str) -> Invocation | None:
        return await self._store.awaited(call_id)

    async def absent(self, calls: Mapping[str, float]) -> tuple[str, ...]:
        return await self._store.absent(calls)

    async def begin_epoch(self) -> bool:
        self._own.clear()
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
