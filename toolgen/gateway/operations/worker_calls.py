"""Calls that this worker executes: restored if the store has lost them; their outcomes are stored once it can be reached."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable

import msgspec

from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.state.invocations import BehindError, Invocation, Invocations

__all__ = ["WorkerCalls"]

_logger = logging.getLogger(__name__)
_MAX_UNKEPT = 10_000


class WorkerCalls:
    """Calls that this worker executes. `owner` is the worker's name in the store."""

    def __init__(self, store: Invocations) -> None:
        self._store = store
        self.owner = secrets.token_hex(8)
        self.left: dict[str, asyncio.Future[bool] | bool] = {}
        """Calls that continue without their callers: True if the call is stored, or the future of storing it."""
        self.mine: dict[str, Invocation] = {}
        """Calls that continue without their callers, in their last stored form."""
        self.claimed: dict[str, Invocation] = {}
        """Approved calls that this worker executes, in their last stored form."""
        self._unkept: dict[str, tuple[Invocation, Callable[[Invocation], Awaitable[bool]]]] = {}

    async def is_left(self, call_id: str) -> bool:
        """Return True if a call of this worker continues without its caller."""
        adding = self.left.get(call_id, False)
        return adding if isinstance(adding, bool) else await asyncio.shield(adding)

    def carried_out(self, call_id: str) -> Invocation | None:
        """Return a call that this worker executes, in its last stored form."""
        return self.claimed.get(call_id) or self.mine.get(call_id)

    async def put_back(self) -> None:
        """Restore the calls that this worker executes, if the store has lost them. Raises `StateError`."""
        for calls in (self.claimed, self.mine):
            for mine in list(calls.values()):
                known = await self.regain(mine)
                if known is not None and mine.id in calls:
                    calls[mine.id] = known

    async def regain(self, mine: Invocation) -> Invocation | None:
        """Return a call that this worker executes, in its stored form; it is restored if the store has lost it."""
        try:
            known = await self._store.get(mine.id)
        except BehindError:
            known = None
        return known or await self._store.restore(mine)

    async def keep_outcome(self, mine: Invocation, settle: Callable[[Invocation], Awaitable[bool]]) -> None:
        """Store the outcome of a call of this worker: `settle` gets the stored call, and again if another process was faster (False).

        While the store cannot be reached, each round of the runner tries again. An outcome stored by others is final, unless they treated
        the call as lost.
        """
        try:
            await self._settled(mine, settle)
        except StateError as error:
            if not isinstance(error, StateUnavailableError):
                raise
            _logger.warning("the outcome of call %s will be stored when the store can be reached: %s", mine.id, error)
            if mine.id not in self._unkept:
                self.keep_later(mine, settle)

    def keep_later(self, mine: Invocation, settle: Callable[[Invocation], Awaitable[bool]]) -> None:
        """Store the outcome of a call with the next round of the runner, as `keep_outcome`."""
        self._unkept[mine.id] = (mine, settle)
        if len(self._unkept) > _MAX_UNKEPT:
            del self._unkept[next(iter(self._unkept))]

    async def keep_unkept(self) -> None:
        """Store the outcomes that could not be stored before. Raises `StateError` where the store cannot be reached."""
        for call_id in list(self._unkept):
            await self.kept_now(call_id)

    async def kept_now(self, call_id: str) -> bool:
        """Store the outcome of a call that could not be stored before. Returns False for a call without such an outcome."""
        if (unkept := self._unkept.get(call_id)) is None:
            return False
        await self._settled(*unkept)
        self._unkept.pop(call_id, None)
        return True

    async def _settled(self, mine: Invocation, settle: Callable[[Invocation], Awaitable[bool]]) -> None:
        """Let `settle` store the outcome of a call of this worker, until it succeeds or the call ended in another way."""
        while (known := await self.regain(mine)) is not None and not known.final:
            if known.lost and not known.owner:  # others gave it up before they knew its worker
                known = msgspec.structs.replace(known, owner=mine.owner)
            if await settle(known) or (known.lost and known.owner != mine.owner):
                break
