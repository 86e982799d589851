"""Idempotency keys in a real Redis: the same promises as in a file, sealed, and for every machine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis

from tests.redis_server import RedisServer
from toolgen.core.clock import SystemClock
from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.state.call_journal import CallJournal
from toolgen.state.encryption import Seal
from toolgen.state.idempotency import IdempotencyStore, KeyClaim, RedisLedger
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation
from toolgen.state.store_watch import StoreWatch

KEY = b"k" * 32


def shared(server: RedisServer, key: bytes = KEY) -> RedisLedger:
    link = RedisLink(RedisLocation(host="127.0.0.1", port=server.port), lambda: "")
    return RedisLedger(link, lambda: Seal(key), *gateway(server))


def gateway(server: RedisServer, name: str = "one") -> tuple[CallJournal, StoreWatch]:
    return CallJournal(server.folder / name / "begun.db"), StoreWatch(clock=SystemClock())


def claim(number: int = 1, **changes: Any) -> KeyClaim:
    made = KeyClaim(
        id=f"tg_{number}",
        call_id=f"call_{number}",
        holder="canary-bot",
        tool="canary__tool",
        arguments="canary-arguments",
        lease=20.0,
        expires=1000.0,
    )
    return msgspec.structs.replace(made, **changes)


@asynccontextmanager
async def using(places: Callable[[], IdempotencyStore]) -> AsyncIterator[tuple[IdempotencyStore, IdempotencyStore]]:
    """Views of one ledger by two processes."""

    one, two = places(), places()
    try:
        async with asyncio.timeout(120):
            yield one, two
    finally:
        await one.close()
        await two.close()


async def test_redis_is_told_nothing_and_whoever_writes_there_is_not_believed(server: RedisServer) -> None:
    async with using(lambda: shared(server)) as (one, two):
        await one.claim(claim(), 1.0, most=9)
        await one.claim(claim(2), 1.0, most=9)
        async with Redis(host="127.0.0.1", port=server.port) as redis:
            said = list(await redis.keys())
            for name in list(said):
                match await redis.type(name):
                    case b"hash":
                        said += [part for pair in (await redis.hgetall(name)).items() for part in pair]  # type: ignore[misc]
                    case b"zset":
                        said += await redis.zrange(name, 0, -1)
                    case _:
                        said.append(await redis.get(name))
            assert len(said) > 10
            assert not any(b"canary" in item for item in said)
            box = await redis.hget("toolgen:ledger:claim:tg_2", "box")
            await redis.hset("toolgen:ledger:claim:tg_1", "box", box)  # type: ignore[arg-type]
        with pytest.raises(StateError):
            await two.claim(claim(), 1.0, most=9)


async def test_whoever_keeps_the_password_holds_nobody_up(server: RedisServer) -> None:
    asked: list[int] = []

    def password() -> str:
        asked.append(threading.get_ident())
        return ""

    link = RedisLink(RedisLocation(host="127.0.0.1", port=server.port), password)
    ledger = RedisLedger(link, lambda: Seal(KEY), *gateway(server))
    assert await ledger.claim(claim(), 1.0, most=9) == claim()
    await ledger.close()
    assert len(asked) == 1
    assert asked[0] != threading.get_ident()


async def test_another_seal_is_refused_and_so_is_everything_while_redis_is_away(server: RedisServer) -> None:
    one, other = shared(server), shared(server, b"x" * 32)
    await one.claim(claim(), 1.0, most=9)
    with pytest.raises(StateError, match="another key"):
        await other.claim(claim(2), 1.0, most=9)
    server.stop()
    with pytest.raises(StateUnavailableError):
        await one.claim(claim(3), 1.0, most=9)
    for ledger in (one, other):
        with suppress(StateError):
            await ledger.close()
