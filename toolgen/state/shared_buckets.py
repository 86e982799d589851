"""Buckets and limits shared by every process: requests that arrive during one batch form the next one."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Literal

import msgspec
from msgspec import Struct

from toolgen.core.background import Background, cancel
from toolgen.core.clock import Clock
from toolgen.state.count_connection import Link, LinkError, Script, StoreUnreachableError
from toolgen.state.rate_limits import FREE, RETRY_IN_FLIGHT_S, Charge, Hold, Key, Level, LimitRefusal, MemoryBuckets
from toolgen.state.store_watch import StoreWatch

__all__ = ["SharedBuckets"]

_logger = logging.getLogger(__name__)

_SCRIPT = Script.named("buckets", "epoch")
_RETRY_S = 0.5  # seconds after a fault without requests, so that no call waits for a timeout
_MAX_BATCH = 256
_MAX_KEY_LENGTH = 512


class _PendingCharges(Struct):
    """Charges of one call, waiting for an answer."""

    lease: str
    charges: Sequence[Charge]
    answer: asyncio.Future[Hold | LimitRefusal]


class SharedBuckets:
    """Counts at the other end of a link, by its clock. While that is unreachable, calls are refused, unless all of their limits have
    `on_failure: share`: then this process grants its equal share among the processes last seen alive.

    `changed` is called with False when the link is lost and with True when it is back. A process that ended without notice returns its
    places in flight after `lease_s` at the latest.
    """

    def __init__(
        self,
        link: Link,
        clock: Clock,
        changed: Callable[[bool], None] = lambda reachable: None,
        *,
        lease_s: float = 20.0,
        background: Background | None = None,
        watch: StoreWatch | None = None,
    ) -> None:
        self._background = background or Background()
        self._watch = watch
        self._epoch = ""  # epoch of the store in which the calls in flight were last listed
        self._link = link
        self._clock = clock
        self._changed = changed
        self._lease_s = lease_s
        self._process = secrets.token_hex(8)
        self._made = 0
        self._processes = 0  # processes alive at the last request
        self._share = MemoryBuckets(clock)
        self._asked: deque[_PendingCharges] = deque()
        self._leases: dict[str, tuple[Key, ...]] = {}
        self._released: list[tuple[str, str]] = []
        self._sending: asyncio.Task[None] | None = None
        self._beating: asyncio.Task[None] | None = None
        self._down_until = 0.0
        self._reachable = True

    @property
    def reachable(self) -> bool:
        """True if the counting store answered the last request."""
        return self._reachable

    async def acquire(self, charges: Sequence[Charge]) -> Hold | LimitRefusal:
        if not charges:
            return FREE
        if self._beating is None:
            self._beating = self._background.start(f"the count of limits in {self._link.place}", self._beat)
        if not self._reachable and self._clock.monotonic() < self._down_until:
            return self._decide_alone(charges)
        self._made += 1
        asked = _PendingCharges(f"{self._process}:{self._made}", charges, asyncio.get_running_loop().create_future())
        self._asked.append(asked)
        self._send_soon()
        try:
            return await asked.answer
        except asyncio.CancelledError:
            if asked.answer.done() and not asked.answer.cancelled() and isinstance(hold := asked.answer.result(), Hold):
                self.release(hold)  # granted while the caller was cancelled
            raise

    def take_now(self, charges: Sequence[Charge]) -> bool:
        """Return False unless there is nothing to take: the other end of the link must be asked."""
        return not charges

    def release(self, hold: Hold) -> None:
        if not hold.id:
            self._share.release(hold)
        elif self._leases.pop(hold.id, None) is not None:
            self._released += [(_text(key), hold.id) for key in hold.keys]
            self._send_soon()

    async def levels(self, charges: Sequence[Charge]) -> Sequence[Level] | None:
        looks = [[key, rate, burst, most] for key, _, rate, burst, most in map(_written, charges)]
        none: list[object] = []
        given = {"prefix": self._link.prefix, "process": self._process, "lease_ms": 0, "beat": False, "looks": looks}
        given["epoch"] = self._known_epoch()
        try:
            answer = await self._link.run(
                _SCRIPT, msgspec.json.encode({**given, "releases": none, "renewals": none, "takes": none})
            )
        except LinkError:
            return None
        if len(answer) != 1 + 2 * len(looks):
            return None
        return [(tokens / 1000, flying) for tokens, flying in zip(answer[1::2], answer[2::2], strict=True)]

    async def close(self) -> None:
        """Send the pending releases, and close the connection."""
        if self._beating is not None:
            await cancel(self._beating)
        if self._sending is not None:
            await asyncio.wait((self._sending,))
        await self._link.close()

    def _send_soon(self) -> None:
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        """Send the requests of one turn of the loop as one batch, and later requests as the next.

        A caller that was cancelled before the batch is left out: it would take a place from the call behind it.
        """
        while self._asked or self._released:
            batch = [self._asked.popleft() for _ in range(min(len(self._asked), _MAX_BATCH))]
            waiting = [asked for asked in batch if not asked.answer.done()]
            if waiting or self._released:
                await self._run(waiting)

    async def _run(self, batch: Sequence[_PendingCharges], *, beat: bool = False) -> None:
        released, self._released = self._released, []
        epoch = self._known_epoch()
        beat, self._epoch = beat or epoch != self._epoch, epoch
        renewals = [(_text(key), lease) for lease, keys in self._leases.items() for key in keys] if beat else []
        given = {
            "prefix": self._link.prefix,
            "process": self._process,
            "lease_ms": round(self._lease_s * 1000),
            "epoch": epoch,
            "beat": beat or not self._processes,
            "releases": released,
            "renewals": renewals,
            "takes": [(asked.lease, [_written(charge) for charge in asked.charges]) for asked in batch],
        }
        try:
            answer = await self._link.run(_SCRIPT, msgspec.json.encode(given))
            if len(answer) != 1 + 2 * len(batch) or not _fits(batch, answer[1::2]):
                raise StoreUnreachableError("its answer does not match the request")
        except LinkError as error:
            if beat or isinstance(
                error, StoreUnreachableError
            ):  # else only these calls are refused, and the link has logged the reason
                self._lost(str(error))
            for asked in batch:
                if not asked.answer.done():
                    asked.answer.set_result(self._decide_alone(asked.charges))
            return
        except asyncio.CancelledError:
            for asked in batch:
                asked.answer.cancel()
            raise
        self._found(answer[0])
        for asked, index, wait in zip(batch, answer[1::2], answer[2::2], strict=True):
            self._answer(asked, index, wait)

    def _answer(self, asked: _PendingCharges, index: int, wait_ms: int) -> None:
        result: Hold | LimitRefusal = FREE
        if index:
            limit = asked.charges[index - 1].limit.id
            if wait_ms < 0:
                result = LimitRefusal(limit=limit, retry_after_s=RETRY_IN_FLIGHT_S, reason="crowded")
            else:
                result = LimitRefusal(limit=limit, retry_after_s=wait_ms / 1000)
        elif keys := tuple([charge.key for charge in asked.charges if charge.limit.concurrency]):
            result = Hold(keys=keys, id=asked.lease)
            self._leases[asked.lease] = keys
        if not asked.answer.done():
            asked.answer.set_result(result)
        elif isinstance(result, Hold):
            self.release(result)  # the caller was cancelled during the request

    async def _beat(self) -> None:
        """Send heartbeats of this process and its calls in flight, and detect the return of the counting store even without calls."""
        due = 0.0
        while True:
            await asyncio.sleep(min(_RETRY_S, self._lease_s / 4))
            now = self._clock.monotonic()
            if now >= due or not self._reachable or self._known_epoch() != self._epoch:
                due = now + self._lease_s / 4
                await self._run((), beat=True)

    def _known_epoch(self) -> str:
        return "" if self._watch is None else self._watch.epoch

    def _lost(self, why: str) -> None:
        self._down_until = self._clock.monotonic() + _RETRY_S
        if self._reachable:
            self._reachable = False
            _logger.error("%s, where limits are counted, cannot be used (%s)", self._link.place, why)
            self._changed(False)

    def _found(self, processes: int) -> None:
        self._processes = max(1, processes)
        if not self._reachable:
            self._reachable = True
            _logger.warning("%s, where limits are counted, can be used again", self._link.place)
            self._changed(True)

    def _decide_alone(self, charges: Sequence[Charge]) -> Hold | LimitRefusal:
        """Decide a call while the counting store is unreachable."""
        strict = [charge.limit.id for charge in charges if charge.limit.on_failure != "share"]
        if strict or not self._processes:
            limit = strict[0] if strict else charges[0].limit.id
            return LimitRefusal(limit=limit, retry_after_s=RETRY_IN_FLIGHT_S, reason="unreachable")
        shares = [_Share(charge, self._processes) for charge in charges]
        for charge, share in zip(charges, shares, strict=True):
            if charge.limit.concurrency and not share.limit.concurrency:
                return LimitRefusal(limit=charge.limit.id, retry_after_s=RETRY_IN_FLIGHT_S, reason="crowded")
        refusal = self._share.take(shares)
        if refusal is not None:
            return refusal
        keys = tuple(charge.key for charge in charges if charge.limit.concurrency)
        return Hold(keys=keys) if keys else FREE


class _ShareTerms(Struct, frozen=True):
    """Terms of a limit for one of several processes."""

    id: str
    per_second: float
    burst: float
    concurrency: int
    wait_s: float
    on_failure: Literal["refuse", "share"] = "share"


class _Share:
    """Charge on one process's share of a bucket; a limit of calls in flight is divided in whole places."""

    __slots__ = ("cost", "key", "limit")

    def __init__(self, charge: Charge, processes: int) -> None:
        limit = charge.limit
        self.key = charge.key
        self.cost = charge.cost
        self.limit = _ShareTerms(
            limit.id,
            limit.per_second / processes,
            limit.burst / processes,
            limit.concurrency // processes,
            limit.wait_s,
        )


def _fits(batch: Sequence[_PendingCharges], indexes: Sequence[int]) -> bool:
    """Return True if the limit that refused each call is one of its charges."""
    return all(0 <= index <= len(asked.charges) for asked, index in zip(batch, indexes, strict=True))


def _written(charge: Charge) -> tuple[str, float, float, float, int]:
    limit = charge.limit
    return _text(charge.key), charge.cost, limit.per_second, limit.burst, limit.concurrency


@lru_cache(maxsize=4096)
def _text(key: Key) -> str:
    """Return a key as unique text; a long one by its digest."""
    text = json.dumps(key, separators=(",", ":"))
    if len(text) <= _MAX_KEY_LENGTH:
        return text
    return sha256(text.encode()).hexdigest()
