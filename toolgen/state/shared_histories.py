"""Histories that several processes share: the calls of one worker are visible to all others before they decide the next call of that
principal.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from typing import TypeAlias

from toolgen.core.background import cancel
from toolgen.core.clock import Clock
from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.state.count_connection import Link, LinkError, Script, StoreUnreachableError
from toolgen.state.encryption import Seal
from toolgen.state.history import HistoryView, UsageHistory, exact
from toolgen.state.history_bytes import StoredHistory, encoded, read
from toolgen.state.store_watch import StoreWatch

__all__ = ["OptimisticTransaction", "SharedHistories"]


_SCRIPT = Script.named("history", "epoch")
_IDLE_S = 24 * 3600.0
_KEPT_MS = str(48 * 3600 * 1000)
_MAX_CACHED = 4_096
_RETRY_S = 0.5
_LOOK_S = 1.0
_UNKNOWN = "?"  # a version that no history has
FORGOTTEN = "0-forgotten"
"""Version of an evicted history."""

_Whose: TypeAlias = tuple[tuple[str, ...], str]
"""Principals of a call, in order, and its session, "" for none."""


class OptimisticTransaction:
    """Histories of a call's principals during its decision. They may be outdated: `commit` detects that."""

    def __init__(self, histories: SharedHistories, whose: _Whose) -> None:
        self._histories = histories
        self._whose = whose

    async def commit(self) -> bool:
        """Write the started calls. Return False if another worker was faster: nothing was written, its state is now known, and the call
        must be decided again. Raises `StateError` if the result is unknown: then the call must not be made.
        """
        return await self._histories.write(self._whose)


class SharedHistories:
    """`Histories` for all processes that share a store (`link`).

    A call is decided and counted in a transaction: the histories of its principals and their session are read, and written only if no other
    process wrote any of them meanwhile. A process has one transaction per principal at a time; between processes the slower one decides
    again. A call is sent only after it was counted. If the store has lost a history, which the store reports or this process knows, queries
    about it fail for a day and never return nothing. Redis deletes a history that was not used for two days.
    """

    shared = True

    def __init__(self, link: Link, seal: Callable[[], Seal], clock: Clock, watch: StoreWatch | None = None) -> None:
        self._link = link
        self._seal = cache(seal)
        self._clock = clock
        self._watch = watch
        self._root = f"{link.prefix}:history"
        self._kept: OrderedDict[str, StoredHistory] = OrderedDict()
        self._calls: dict[str, tuple[_Whose, str]] = {}  # with the entry's name: a call that waited is counted twice
        self._begun: dict[_Whose, set[str]] = {}  # in the current transaction
        self._ended: dict[_Whose, dict[str, str]] = {}  # until the write is confirmed
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}
        self._under_way: dict[str, _Whose] = {}
        self._settling: dict[_Whose, asyncio.Task[None]] = {}
        self._fault = ""
        self._heard = -math.inf  # time of the store's last answer or failure, by the event loop's clock
        self._looking: asyncio.Task[None] | None = None

    def fault(self) -> str:
        """Reason why every transaction would fail now; "" while the store answers. Each call queries the store in the background, at
        most once a second, so the answer is as old as the previous call.
        """
        old = asyncio.get_running_loop().time() - self._heard >= _LOOK_S
        if old and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._probe())
        return self._fault

    async def _probe(self) -> None:
        try:
            self._seal()
            await self._link.ask(_SCRIPT, self._root, _KEPT_MS, self._epoch())  # a query about no history
        except (StateError, LinkError) as error:
            self._answered(error)
        else:
            self._answered(None)

    def _epoch(self) -> str:
        return "" if self._watch is None else self._watch.epoch

    def _answered(self, error: Exception | None) -> None:
        self._heard = asyncio.get_running_loop().time()
        self._fault = "" if error is None else f"earlier calls cannot be counted in {self._link.place} ({error})"

    @asynccontextmanager
    async def turn(self, parties: Iterable[str], session: str) -> AsyncIterator[OptimisticTransaction]:
        """Run a transaction for a call of these principals. Calls that ended meanwhile are settled in it."""
        whose = (tuple(sorted(set(parties))), session)
        async with AsyncExitStack() as locks:
            for party in whose[0]:  # always in this order, so that two transactions never deadlock
                await locks.enter_async_context(self._exclusive(party))
            self._under_way.update(dict.fromkeys(whose[0], whose))
            try:
                self._settle(whose)
                yield OptimisticTransaction(self, whose)
            finally:
                self._begun.pop(whose, None)

    @asynccontextmanager
    async def _exclusive(self, party: str) -> AsyncIterator[None]:
        """Wait until this process has no other transaction of this principal."""
        lock, users = self._turns.get(party) or (asyncio.Lock(), 0)
        self._turns[party] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._turns.pop(party)
            if users > 1:
                self._turns[party] = (lock, users - 1)
            else:
                self._under_way.pop(party, None)

    def views(self, principal: str, session: str) -> tuple[HistoryView, HistoryView]:
        """Return the views for conditions, in a transaction: the session's and the principal's."""
        now = self._clock.now()
        names = _names(((principal,), session))
        whole = self._view(names[0], now)
        return (self._view(names[1], now) if session else HistoryView(None, now)), whole

    def begin(
        self, call: str, principal: str, session: str, tool: str, numbers: Mapping[str, object], labels: Iterable[str]
    ) -> None:
        """Count a call for one principal, in its transaction; repeat for the others, and for each further tool inside it."""
        now, whose = self._clock.now(), self._under_way[principal]
        told = {name: exact(value) for name, value in numbers.items()}
        if call not in self._calls:
            self._calls[call] = (whose, secrets.token_hex(8))
            self._begun.setdefault(whose, set()).add(call)
        flight = self._calls[call][1]
        for name in _names(((principal,), session)):
            kept = self._known(name)
            kept.flying.setdefault(flight, []).append((now, kept.ledger.begin(now, tool, told, tuple(labels))))
            kept.changed = True

    def label(self, principal: str, session: str, labels: Iterable[str]) -> None:
        """Set labels of one principal and of its session, in its transaction; repeat for the others."""
        told = tuple(labels)
        for name in _names(((principal,), session)):
            kept = self._known(name)
            kept.ledger.label(self._clock.now(), told)
            kept.changed = True

    def flies(self, call: str) -> bool:
        """Return True if this process started a call and its outcome is not recorded yet."""
        return call in self._calls

    def end(self, call: str, outcome: str) -> None:
        """Record the outcome of a call; it is written soon, at the latest with the next call of its principal and session."""
        found = self._calls.pop(call, None)
        if found is None:
            return
        whose, flight = found
        self._ended.setdefault(whose, {})[flight] = outcome
        if whose not in self._settling:
            self._settling[whose] = asyncio.create_task(self._write_outcomes(whose))

    async def close(self) -> None:
        """Write the recorded outcomes if possible, and close."""
        if self._looking is not None:
            await cancel(self._looking)
        tasks = list(self._settling.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=2 * _RETRY_S)
            await cancel(*late)
        await self._link.close()

    async def write(self, whose: _Whose) -> bool:
        """Write a transaction (`OptimisticTransaction.commit`)."""
        seal, names, settled = self._seal(), _names(whose), tuple(self._ended.get(whose, ()))
        arguments: list[str | bytes] = [_KEPT_MS, self._epoch()]
        versions: dict[str, str] = {}
        for name in names:
            kept = self._known(name)
            box = b""
            if kept.changed:
                # The second half: if Redis was set back, two workers may reach the same number with different histories.
                versions[name] = f"{_count(kept.version) + 1}-{secrets.token_hex(6)}"
                box = seal.close(encoded(kept, self._clock.now()), _about(name, versions[name]))
            arguments += [name, _UNKNOWN if kept.unsure else kept.version, versions.get(name, ""), box]
        try:
            answer = await self._link.ask(_SCRIPT, self._root, *arguments)
        except BaseException as error:
            for name in names:  # the result of the write is unknown
                self._kept[name].unsure = True
            if isinstance(error, StoreUnreachableError):
                self._answered(error)
                raise StateUnavailableError(
                    f"earlier calls are counted in {self._link.place}, which cannot be used ({error})"
                ) from error
            if isinstance(error, LinkError):
                raise StateError(f"earlier calls are counted in {self._link.place}: {error}") from error
            raise
        self._answered(None)
        try:
            if answer[0] != 1:
                self._take_stored(seal, whose, zip(names, answer[1::2], answer[2::2], strict=True))
                return False
        except (TypeError, ValueError, LookupError, AttributeError) as error:  # foreign data
            raise StateError("the stored history of calls is not valid") from error
        for name, version in versions.items():
            kept = self._known(name)
            kept.version, kept.changed = version, False
        for flight in settled:
            self._ended[whose].pop(flight, None)
        if not self._ended.get(whose):
            self._ended.pop(whose, None)
        self._begun.pop(whose, None)
        return True

    def _take_stored(self, seal: Seal, whose: _Whose, found: Iterable[tuple[str, bytes, bytes | None]]) -> None:
        """Replace the known histories by the stored ones, and apply the outcomes of this process again."""
        for name, version, box in found:
            self._kept[name] = self._fresh(seal, name, version.decode(), box)
        for call in self._begun.pop(whose, ()):
            self._calls.pop(call, None)
        self._settle(whose)

    def _fresh(self, seal: Seal, name: str, version: str, box: bytes | None) -> StoredHistory:
        windowed, now = name.startswith("p:"), self._clock.now()
        before = self._kept.get(name)
        kept = StoredHistory(ledger=UsageHistory(windowed=windowed))
        if box is not None:
            kept = read(seal.open(box, _about(name, version)), windowed=windowed, now=now)
        kept.version = version
        emptied = before is not None and _count(before.version) > _count(version)  # or set back
        if emptied or version == FORGOTTEN:
            kept.incomplete_until, kept.changed = now + _IDLE_S, True
        return kept

    def _settle(self, whose: _Whose) -> None:
        for name in _names(whose):
            kept = self._known(name)
            for flight, outcome in self._ended.get(whose, {}).items():
                for _, entry in kept.flying.pop(flight, ()):
                    kept.ledger.end(entry, outcome)
                    kept.changed = True

    async def _write_outcomes(self, whose: _Whose) -> None:
        """Write the recorded outcomes until it succeeds."""
        try:
            while self._ended.get(whose):
                try:
                    async with self.turn(*whose) as turn:
                        while self._ended.get(whose) and not await turn.commit():
                            pass
                except StateError:
                    await asyncio.sleep(_RETRY_S)
        finally:
            del self._settling[whose]

    def _view(self, name: str, now: float) -> HistoryView:
        kept = self._known(name)
        idle = name.startswith("s:") and not kept.flying and kept.version != "" and now - kept.ledger.touched > _IDLE_S
        return HistoryView(kept.ledger, now, forgotten=idle or now < kept.incomplete_until)

    def _known(self, name: str) -> StoredHistory:
        kept = self._kept.get(name)
        if kept is None:
            kept = self._kept[name] = StoredHistory(ledger=UsageHistory(windowed=name.startswith("p:")), unsure=True)
            if len(self._kept) > _MAX_CACHED:
                self._kept.popitem(last=False)
        self._kept.move_to_end(name)
        return kept


def _names(whose: _Whose) -> tuple[str, ...]:
    """Return the names of the histories of a call: of each principal, for all its calls and then for the session."""
    found, (parties, session) = [], whose
    for party in parties:
        who = _digest(party)
        found.append(f"p:{who}")
        if session:
            found.append(f"s:{who}:{_digest(session)}")
    return tuple(found)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _count(version: str) -> int:
    return int(version.partition("-")[0] or 0)


def _about(name: str, version: str) -> str:
    return f"history {name} {version}"
