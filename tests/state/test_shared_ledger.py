"""Idempotency keys in a real Redis: the same promises as in a file, sealed, and for every machine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis

from tests.redis_server import RedisServer
from toolgen.core.clock import SystemClock
from toolgen.core.errors import StateError
from toolgen.state.call_journal import CallJournal
from toolgen.state.encryption import Seal
from toolgen.state.idempotency import IdempotencyStore, KeyClaim, RedisLedger, SqliteLedger
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation
from toolgen.state.store_watch import StoreWatch

KEY = b"k" * 32


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.stop()


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


@pytest.fixture(params=["sqlite", "redis"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], IdempotencyStore]:
    if request.param == "sqlite":
        return lambda: SqliteLedger(tmp_path / "keys.db", SystemClock())
    server = request.getfixturevalue("server")
    return lambda: shared(server)


async def using(
    places: Callable[[], IdempotencyStore], work: Callable[[IdempotencyStore, IdempotencyStore], Awaitable[None]]
) -> None:
    """Runs a test with two processes' views of one ledger."""

    one, two = places(), places()
    try:
        async with asyncio.timeout(120):
            await work(one, two)
    finally:
        await one.close()
        await two.close()


async def test_a_key_is_its_first_calls_until_it_is_let_go_of(places: Callable[[], IdempotencyStore]) -> None:
    async def work(one: IdempotencyStore, two: IdempotencyStore) -> None:
        mine, theirs = claim(), claim(call_id="call_other")
        assert await one.claim(mine, 1.0, most=9) == mine
        assert await two.claim(theirs, 1.0, most=9) == mine
        assert await two.of_calls() == {"call_1": mine}
        await two.release(theirs)  # not theirs to let go of
        await two.settle(msgspec.structs.replace(theirs, status="ended"))
        assert await two.claim(theirs, 1.0, most=9) == mine
        ended = msgspec.structs.replace(mine, status="ended", lease=0.0, outcome=b"\x00out")
        await one.settle(ended)
        assert await two.claim(theirs, 1.0, most=9) == ended
        await two.release(ended)
        assert await two.claim(theirs, 1.0, most=9) == theirs

    await using(places, work)


async def test_of_many_at_once_one_has_the_key(places: Callable[[], IdempotencyStore]) -> None:
    async def work(one: IdempotencyStore, two: IdempotencyStore) -> None:
        claims = [claim(call_id=f"call_{number}") for number in range(20)]
        found = await asyncio.gather(
            *((one, two)[number % 2].claim(each, 1.0, most=9) for number, each in enumerate(claims))
        )
        assert len({each.call_id for each in found if each is not None}) == 1

    await using(places, work)


async def test_a_claim_that_nobody_renewed_is_lost_and_one_that_somebody_did_is_not(
    places: Callable[[], IdempotencyStore],
) -> None:
    async def work(one: IdempotencyStore, two: IdempotencyStore) -> None:
        await one.claim(claim(), 1.0, most=9)
        lost = claim(status="ended", outcome=b"lost")
        await two.lose(lost, 19.0)
        assert (await two.of_calls())["call_1"].status == "running"
        await one.settle(claim(lease=40.0))
        await two.lose(lost, 21.0)
        assert (await two.of_calls())["call_1"].status == "running"
        await two.lose(lost, 41.0)
        assert (await two.of_calls())["call_1"].outcome == b"lost"

    await using(places, work)


async def test_keys_expire_and_one_holder_has_so_many(places: Callable[[], IdempotencyStore]) -> None:
    async def work(one: IdempotencyStore, two: IdempotencyStore) -> None:
        found = [await one.claim(claim(number), 1.0, most=3) for number in range(5)]
        found.append(await two.claim(claim(9, holder="other"), 1.0, most=3))
        assert [each is not None for each in found] == [True, True, True, False, False, True]
        assert await two.claim(claim(7), 1000.0, most=3) is not None
        assert list(await two.of_calls()) == ["call_7"]

    await using(places, work)


async def test_an_outcome_is_never_taken_back(server: RedisServer) -> None:
    """A renewal may still be on its way on a connection that was given up when the outcome is written on the next."""

    async def work(one: IdempotencyStore, two: IdempotencyStore) -> None:
        await one.claim(claim(), 1.0, most=9)
        await one.settle(claim(status="ended", outcome=b"out"))
        await two.settle(claim(lease=60.0))
        assert (await two.of_calls())["call_1"].outcome == b"out"

    await using(lambda: shared(server), work)


async def test_redis_is_told_nothing_and_whoever_writes_there_is_not_believed(server: RedisServer) -> None:
    async def work(one: IdempotencyStore, two: IdempotencyStore) -> None:
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

    await using(lambda: shared(server), work)


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
    with pytest.raises(StateError, match="cannot be used"):
        await one.claim(claim(3), 1.0, most=9)
    for ledger in (one, other):
        with suppress(StateError):
            await ledger.close()
