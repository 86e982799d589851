"""Stores of the contract: a file of the machine, and Redis. Each object that one gives is what another process would have."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from msgspec.structs import replace
from redis.asyncio import Redis

from tests.redis_server import RedisCluster, RedisServer
from toolgen.core.clock import FixedClock
from toolgen.state.call_journal import CallJournal
from toolgen.state.departures import Departures, RedisDepartures, SqliteDepartures
from toolgen.state.encryption import Seal
from toolgen.state.equal_calls import EqualCalls, RedisEqualCalls, SqliteEqualCalls
from toolgen.state.grants import Grant, Grants, RedisGrants, SqliteGrants
from toolgen.state.idempotency import IdempotencyStore, RedisLedger, SqliteLedger
from toolgen.state.invocations import Invocations
from toolgen.state.invocations_redis import RedisInvocations
from toolgen.state.invocations_sqlite import SqliteInvocations
from toolgen.state.outbox import Outbox
from toolgen.state.outbox_redis import RedisOutbox
from toolgen.state.outbox_sqlite import SqliteOutbox
from toolgen.state.pauses import Pause, Pauses, SharedPauses
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation
from toolgen.state.store_watch import StoreWatch
from toolgen.state.value_vault import RedisVault, SqliteVault, ValueVault

__all__ = ["ClusterStore", "FileStore", "PauseStore", "RedisStore", "Store"]

KEY = b"k" * 32


class _Closable(Protocol):
    async def close(self) -> None: ...


T = TypeVar("T", bound=_Closable)


class PauseStore(Protocol):
    """Pauses, where a change may take an answer of a server."""

    async def change(self, edit: Callable[[tuple[Pause, ...]], tuple[Pause, ...]]) -> tuple[Pause, ...]: ...
    async def covering(self, parties: tuple[str, ...], source: str, tool: str) -> Pause | None: ...
    async def close(self) -> None: ...


class Store(ABC):
    """Everything that outlives a call, in one place. `clock` is the time of a file; a server has its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, FixedClock(1_000.0)
        self._opened: list[_Closable] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self._opened:
            await one.close()

    def opened(self, one: T) -> T:
        self._opened.append(one)
        return one

    @abstractmethod
    def invocations(self) -> Invocations: ...

    @abstractmethod
    def outbox(self) -> Outbox: ...

    @abstractmethod
    def grants(self) -> Grants[Grant]: ...

    @abstractmethod
    def pauses(self) -> PauseStore: ...

    @abstractmethod
    def equal_calls(self) -> EqualCalls: ...

    @abstractmethod
    def values(self) -> ValueVault: ...

    @abstractmethod
    def keys(self) -> IdempotencyStore: ...

    @abstractmethod
    def departures(self) -> Departures: ...

    @abstractmethod
    async def written(self) -> bytes:
        """Return all that stands in the place."""

    @abstractmethod
    def lost(self) -> Store:
        """Return the same place, which can neither be read nor written."""


class _FilePauses:
    def __init__(self, path: Path) -> None:
        self._pauses = Pauses(path)

    async def change(self, edit: Callable[[tuple[Pause, ...]], tuple[Pause, ...]]) -> tuple[Pause, ...]:
        return self._pauses.change(edit)

    async def covering(self, parties: tuple[str, ...], source: str, tool: str) -> Pause | None:
        return Pauses(self._pauses._path).covering(parties, source, tool)

    async def close(self) -> None:
        await self._pauses.close()


class FileStore(Store):
    """Files of a folder."""

    def invocations(self) -> Invocations:
        return self.opened(SqliteInvocations(self.folder / "calls.db", self.clock))

    def outbox(self) -> Outbox:
        return self.opened(SqliteOutbox(self.folder / "notify.db", self.clock))

    def grants(self) -> Grants[Grant]:
        return self.opened(SqliteGrants(self.folder / "grants.db", self.clock, Grant))

    def pauses(self) -> PauseStore:
        return self.opened(_FilePauses(self.folder / "pauses.json"))

    def equal_calls(self) -> EqualCalls:
        return self.opened(SqliteEqualCalls(self.folder / "equal.db", self.clock))

    def values(self) -> ValueVault:
        return self.opened(SqliteVault(self.folder / "values.db", self.clock, lambda: Seal(KEY)))

    def keys(self) -> IdempotencyStore:
        return self.opened(SqliteLedger(self.folder / "keys.db", self.clock))

    def departures(self) -> Departures:
        return self.opened(SqliteDepartures(self.folder / "departures.db"))

    async def written(self) -> bytes:
        return b"".join(file.read_bytes() for file in sorted(self.folder.iterdir()) if file.is_file())

    def lost(self) -> Store:
        folder = self.folder / "lost"
        folder.mkdir()
        for name in ("calls", "notify", "grants", "equal", "values", "keys", "departures"):
            (folder / f"{name}.db").write_bytes(b"not a database, and long enough to be read as one" * 100)
        (folder / "pauses.json").write_bytes(b"not JSON")
        return self._beside(FileStore(folder))

    def _beside(self, other: FileStore) -> FileStore:
        other._opened = self._opened
        return other


class _RedisPauses:
    def __init__(self, pauses: SharedPauses) -> None:
        self._pauses = pauses

    async def change(self, edit: Callable[[tuple[Pause, ...]], tuple[Pause, ...]]) -> tuple[Pause, ...]:
        return await self._pauses.change(edit)

    async def covering(self, parties: tuple[str, ...], source: str, tool: str) -> Pause | None:
        await self._pauses.refresh()
        held = self._pauses.covering(parties, source, tool)
        return Pause(tool="*", since=0.0) if self._pauses.stale else held

    async def close(self) -> None:
        await self._pauses.close()


class RedisStore(Store):
    """Keys of one prefix."""

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__(folder)
        self.location = RedisLocation(host="127.0.0.1", port=port, prefix=secrets.token_hex(6))

    def link(self) -> RedisLink:
        return RedisLink(self.location, lambda: "")

    def journal(self) -> CallJournal:
        return CallJournal(self.folder / "begun.db")

    def invocations(self) -> Invocations:
        watch = StoreWatch(clock=self.clock)
        return self.opened(RedisInvocations(self.link(), _seal, self.journal(), watch))

    def outbox(self) -> Outbox:
        return self.opened(RedisOutbox(self.link(), _seal, ("ops", "chat")))

    def grants(self) -> Grants[Grant]:
        return self.opened(RedisGrants(self.link(), _seal, self.journal(), "grants", Grant))

    def pauses(self) -> PauseStore:
        shared = SharedPauses(self.link(), _seal, self.clock, Pauses(self.folder / "known.json"))
        return self.opened(_RedisPauses(shared))

    def equal_calls(self) -> EqualCalls:
        return self.opened(RedisEqualCalls(self.link(), _seal))

    def values(self) -> ValueVault:
        return self.opened(RedisVault(self.link(), _seal))

    def keys(self) -> IdempotencyStore:
        return self.opened(RedisLedger(self.link(), _seal, self.journal(), StoreWatch(clock=self.clock)))

    def departures(self) -> Departures:
        return self.opened(RedisDepartures(self.link(), _seal, lambda: -1))

    async def written(self) -> bytes:
        async with Redis(host=self.location.host, port=self.location.port) as redis:
            names: list[Any] = await redis.keys(f"{self.location.prefix}:*")
            return b"".join([name + (await redis.dump(name) or b"") for name in names])

    def lost(self) -> Store:
        folder = self.folder / "lost"
        folder.mkdir()
        other = RedisStore(folder, RedisServer(folder).port)  # which nobody started
        other._opened = self._opened
        return other


class ClusterStore(RedisStore):
    """Keys of one prefix in a cluster. The settings name a node that has the keys of a third of all prefixes."""

    def __init__(self, folder: Path, cluster: RedisCluster) -> None:
        super().__init__(folder, cluster.port)
        self._cluster = cluster
        self.location = replace(self.location, cluster=True)

    async def written(self) -> bytes:
        found = b""
        for node in self._cluster.nodes:
            async with Redis(host="127.0.0.1", port=node.port) as redis:
                names: list[Any] = await redis.keys(f"{self.location.key_prefix}:*")
                found += b"".join([name + (await redis.dump(name) or b"") for name in names])
        return found


def _seal() -> Seal:
    return Seal(KEY)
