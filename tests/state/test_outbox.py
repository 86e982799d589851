"""The outbox, in a file and in a real Redis: each event once, one delivery at a time, nothing lost, and a bounded number of everything."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.redis_server import RedisServer
from toolgen.core.clock import FixedClock
from toolgen.core.errors import StateError
from toolgen.state import outbox_sqlite as bounds
from toolgen.state.encryption import Seal
from toolgen.state.outbox import CROWDED, Dead, Delivered, Later, MessageLease, Outbox, OutboxCounts, WebhookMessage
from toolgen.state.outbox_redis import RedisOutbox
from toolgen.state.outbox_sqlite import SqliteOutbox
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation

LATER = 10_000_000_000.0


class Kept:
    """One outbox, and as many workers on it as a test wants. `lapse` lets the lease of a worker lapse that is gone."""

    def __init__(self, folder: Path, server: RedisServer | None) -> None:
        self._folder, self._server = folder, server
        self._clock = FixedClock()
        self.opened: list[Outbox] = []

    def place(self, key: bytes = b"k" * 32) -> Outbox:
        if self._server is None:
            self.opened.append(SqliteOutbox(self._folder / "notify.db", self._clock))
        else:
            self.opened.append(RedisOutbox(self._link(), lambda: Seal(key), ("ops", "chat")))
        return self.opened[-1]

    async def lapse(self, receiver: str, held: str = "lease") -> None:
        if self._server is None:
            self._clock.advance(3600)
        else:
            async with Redis(host="127.0.0.1", port=self._server.port) as redis:
                assert await redis.delete(f"toolgen:outbox:{held}:{receiver}") == 1

    async def redis(self) -> Redis:
        assert self._server is not None
        return Redis(host="127.0.0.1", port=self._server.port)

    def _link(self) -> RedisLink:
        assert self._server is not None
        return RedisLink(RedisLocation(host="127.0.0.1", port=self._server.port), lambda: "")


@contextmanager
def one_redis(folder: Path) -> Iterator[RedisServer]:
    server = RedisServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(params=["file", "redis"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    if request.param == "file":
        yield Kept(tmp_path, None)
        return
    with one_redis(tmp_path) as server:
        yield Kept(tmp_path, server)


@asynccontextmanager
async def using(kept: Kept) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for one in kept.opened:
            await one.close()


def message(number: int = 1, receiver: str = "ops", **changes: Any) -> WebhookMessage:
    made = {"id": f"msg_{number}", "event": "asked", "call_id": f"call_{number}", "made": float(number)}
    return WebhookMessage(**{**made, "receiver": receiver, "body": b'{"n":%d}' % number, **changes})


async def told(outbox: Outbox, number: int = 1, *receivers: str) -> bool:
    messages = [message(number, receiver) for receiver in receivers or ("ops",)]
    return await outbox.tell(f"call_{number}", "asked", messages, until=LATER)


async def claimed(outbox: Outbox, receiver: str = "ops") -> MessageLease:
    found = await outbox.claim(receiver, 30)
    assert found is not None
    return found


async def test_a_worker_whose_lease_lapsed_changes_nothing_any_more(kept: Kept) -> None:
    async with using(kept):
        one, two = kept.place(), kept.place()
        await told(one)
        lost = await claimed(one)
        assert await two.claim("ops", 30) is None
        await kept.lapse("ops")
        again = await claimed(two)
        assert (again.message, again.attempts) == (lost.message, 1)
        for outcome in (Delivered(), Dead(why="x"), Later(due=0.0, why="x")):
            assert not await one.settle(lost, outcome)
        assert await two.settle(again, Delivered())
        assert not await two.settle(again, Delivered())
        assert (await two.counts("ops")).waiting == 0


async def test_what_failed_waits_and_what_holds_a_receiver_holds_all(kept: Kept) -> None:
    async with using(kept):
        outbox = kept.place()
        for number in (1, 2):
            await told(outbox, number)
        now = await outbox.now()
        await outbox.settle(await claimed(outbox), Later(due=now + 1000, why="500"))
        claim = await claimed(outbox)
        assert claim.message == message(2)
        before = now - 60  # Redis's time may be known a little ahead
        await outbox.settle(claim, Later(due=before, why="429", held=now + 1000))
        assert await outbox.claim("ops", 30) is None
        await kept.lapse("ops", "held")
        again = await claimed(outbox)
        assert again.attempts == 1
        assert again.since == pytest.approx(now, abs=60)


async def test_dead_letters_are_listed_bounded_revived_and_forgotten(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MAX_DEAD", 3)
    monkeypatch.setattr("toolgen.state.outbox_redis.MAX_DEAD", 3)

    async with using(kept):
        outbox = kept.place()
        for number in range(1, 6):
            await told(outbox, number)
            await outbox.settle(await claimed(outbox), Dead(why=f"why {number}"))
        counts = await outbox.counts("ops")
        assert (counts.waiting, counts.dead) == (0, 3)
        letters = await outbox.dead("ops")
        assert {one.attempts for one in letters} == {1}
        assert all(one.why == f"why {one.id[-1]}" and one.call_id == f"call_{one.id[-1]}" for one in letters)
        assert len(await outbox.dead("ops", 1)) == 1
        assert await outbox.revive("ops") == 3
        claim = await claimed(outbox)
        assert (claim.attempts, claim.message.id) == (0, claim.message.id)
        await outbox.settle(claim, Dead(why="again"))
        assert (await outbox.counts("ops")).waiting == 2
        await outbox.forget(LATER)
        assert (await outbox.counts("ops")).dead == 0


async def test_a_flood_is_bounded_and_seen(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_WAITING", 5)
    monkeypatch.setattr("toolgen.state.outbox_redis.MAX_WAITING", 5)

    async with using(kept):
        outbox = kept.place()
        for number in range(8):
            assert await told(outbox, number)
        counts = await outbox.counts("ops")
        assert (counts.waiting, counts.dead) == (5, 3)
        assert {one.why for one in await outbox.dead("ops")} == {CROWDED}


async def test_nothing_is_written_before_something_is_told(tmp_path: Path) -> None:
    outbox = SqliteOutbox(tmp_path / "state" / "notify.db", FixedClock())
    assert await outbox.claim("ops", 30) is None
    assert (await outbox.dead("ops"), await outbox.revive("ops")) == ((), 0)
    await outbox.forget(LATER)
    await outbox.close()
    assert list(tmp_path.iterdir()) == []


async def test_what_was_told_is_forgotten_after_its_time(tmp_path: Path) -> None:
    clock = FixedClock()
    outbox = SqliteOutbox(tmp_path / "notify.db", clock)
    await outbox.tell("call_1", "asked", [], until=clock.now() + 10)
    clock.advance(11)
    await outbox.forget(0.0)
    assert await outbox.tell("call_1", "asked", [], until=LATER)
    await outbox.close()


async def test_who_is_a_receiver_no_more_leaves_nothing_behind(kept: Kept) -> None:
    async with using(kept):
        outbox = kept.place()
        for number in (1, 2, 3):
            await told(outbox, number, "gone")
        await outbox.settle(await claimed(outbox, "gone"), Dead(why="410"))
        if isinstance(outbox, SqliteOutbox):
            await outbox.forget(await outbox.now() + 1)
            assert await outbox.counts("gone") == OutboxCounts()
        else:
            async with await kept.redis() as redis:
                keys = [name async for name in redis.scan_iter("toolgen:outbox:*") if name != b"toolgen:outbox:key"]
                assert len(keys) == 9
                assert all([await redis.pttl(name) > 0 for name in keys if b":told:" not in name])


async def test_who_can_write_in_redis_reads_changes_and_moves_no_message(tmp_path: Path) -> None:
    with one_redis(tmp_path) as server:
        kept = Kept(tmp_path, server)

        async with using(kept):
            outbox, redis = kept.place(), await kept.redis()
            await outbox.tell("call_1", "asked", [message(1, body=b'{"name":"Ann"}')], until=LATER)
            await told(outbox, 2, "chat")
            box = await redis.hget("toolgen:outbox:message:ops:msg_1", "box")
            assert b"Ann" not in box
            # Put where it is another receiver's, it is sent to nobody.
            await redis.hset("toolgen:outbox:message:chat:msg_2", "box", box)
            assert await outbox.claim("chat", 30) is None
            (letter,) = await outbox.dead("chat")
            assert "another key" in letter.why
            # One that is gone is left out.
            await redis.delete("toolgen:outbox:message:ops:msg_1")
            assert await outbox.claim("ops", 30) is None
            assert (await outbox.counts("ops")).waiting == 0
            with pytest.raises(StateError, match="sealed with another key"):
                await told(kept.place(b"z" * 32), 3)
            await redis.aclose()
