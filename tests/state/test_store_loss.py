"""A store that was emptied or set back: what is counted there begins used up, and each process notices."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import msgspec
import pytest
from redis.asyncio import Redis

from tests.redis_server import RedisServer
from tests.state.test_invocations import invocation
from tests.state.test_redis_buckets import charge
from toolgen.core.clock import FixedClock, SystemClock
from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.state.call_journal import OVER, REMEMBERED_S, CallJournal
from toolgen.state.call_states import Status
from toolgen.state.encryption import Seal
from toolgen.state.invocations import BehindError
from toolgen.state.invocations_redis import RedisInvocations
from toolgen.state.rate_limits import LimitRefusal
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation
from toolgen.state.shared_buckets import SharedBuckets
from toolgen.state.shared_histories import SharedHistories
from toolgen.state.store_watch import LEASE_S, StoreWatch

KEY = b"k" * 32


class Process:
    """What one worker of a gateway has of the store."""

    def __init__(self, server: RedisServer, home: str = "one") -> None:
        self._server = server
        self.watch = StoreWatch(clock=SystemClock())
        self.journal = CallJournal(server.folder / home / "begun.db")
        self.calls = RedisInvocations(self._link(), lambda: Seal(KEY), self.journal, self.watch)
        self.buckets = SharedBuckets(self._link(), SystemClock(), watch=self.watch)
        self.histories = SharedHistories(self._link(), lambda: Seal(KEY), SystemClock(), self.watch)

    def _link(self) -> RedisLink:
        return RedisLink(RedisLocation(host="127.0.0.1", port=self._server.port), lambda: "")

    async def open(self) -> Process:
        self.watch.epoch = await self.journal.epoch()
        await self.calls.changed()
        return self

    async def close(self) -> None:
        for place in (self.calls, self.buckets, self.histories):
            await place.close()


async def emptied(server: RedisServer) -> None:
    async with Redis(port=server.port) as redis:
        await redis.flushall()


async def test_buckets_and_places_in_flight_begin_used_up_in_an_emptied_store(server: RedisServer) -> None:
    one = await Process(server).open()
    taken = charge(burst=3, per_second=0.001)
    assert not isinstance(await one.buckets.acquire((taken,)), LimitRefusal)
    await emptied(server)
    for _ in range(3):
        refused = await one.buckets.acquire((taken,))
        assert isinstance(refused, LimitRefusal)
        assert refused.retry_after_s > 100
    crowded = await one.buckets.acquire((charge("places", burst=0, concurrency=2),))
    assert isinstance(crowded, LimitRefusal)
    assert crowded.reason == "crowded"
    # A gateway without a journal of its own comes to the same.
    other = await Process(server, "two").open()
    assert isinstance(await other.buckets.acquire((taken,)), LimitRefusal)
    for process in (one, other):
        await process.close()


async def test_a_store_that_is_new_to_all_begins_full(server: RedisServer) -> None:
    one = await Process(server).open()
    await one.calls.changed()
    assert (one.calls.loss, one.watch.epoch.endswith(":0")) == ("", True)
    assert not isinstance(await one.buckets.acquire((charge(burst=3),)), LimitRefusal)
    await one.close()


async def test_histories_have_no_answer_in_an_emptied_store(server: RedisServer) -> None:
    one = await Process(server).open()
    await emptied(server)
    async with one.histories.turn(("bot",), "s") as turn:
        assert not await turn.commit()
        assert [view.forgotten for view in one.histories.views("bot", "s")] == [True, True]
    await one.close()


@pytest.mark.parametrize("written_since", [False, True])
async def test_a_process_notices_that_its_last_write_is_gone(server: RedisServer, written_since: bool) -> None:
    one, sibling = await Process(server).open(), await Process(server).open()
    assert await one.calls.add(invocation(1), each=9, total=9)
    async with Redis(port=server.port) as redis:
        copy = {name: await redis.dump(name) for name in await redis.keys()}
        assert await one.calls.add(invocation(2), each=9, total=9)
        await redis.flushall()
        for name, body in copy.items():
            await redis.restore(name, 0, body)
    if written_since:  # the number that is kept is as high as before
        assert await one.calls.add(invocation(3), each=9, total=9)
    await one.calls.changed()
    assert "set back" in one.calls.loss
    assert await one.calls.begin_epoch()
    assert (one.calls.loss, one.watch.settled) == ("", False)
    await sibling.calls.changed()
    assert sibling.calls.loss
    assert not await sibling.calls.begin_epoch()  # the other worker of its gateway told
    assert [found.id for found in await one.calls.missing(1e12)] == [invocation(2).id]
    for process in (one, sibling):
        await process.close()


async def test_a_gateway_that_starts_over_an_emptied_store_notices(server: RedisServer) -> None:
    one = await Process(server).open()
    assert await one.calls.add(invocation(1), each=9, total=9)
    await one.close()
    await emptied(server)
    again = await Process(server).open()
    assert again.calls.loss == "it was emptied"
    assert [found.id for found in await again.calls.missing(1e12)] == [invocation(1).id]
    await again.close()


@pytest.mark.parametrize("status", ["pending", "running"])
async def test_a_call_whose_keeping_was_not_confirmed_waits_if_it_is_a_question_and_else_is_over(
    server: RedisServer, status: Status
) -> None:
    """The caller of a question is told that it waits. That of another call is told that it is not kept, so it is never carried out."""
    call = invocation(1, kind="approval" if status == "pending" else "call", status=status)
    one = await Process(server).open()
    assert await one.calls.get("call_of_nobody") is None
    async with Redis(port=server.port) as redis:
        await redis.client_pause(2500)
    with pytest.raises(StateUnavailableError) as raised:
        await one.calls.add(call, each=9, total=9)
    assert raised.value.unconfirmed
    waits = await one.calls.awaited(call.id)
    assert (waits is not None, await one.journal.attempt(call.id)) == (
        status == "pending",
        OVER if waits is None else None,
    )
    await one.close()


@pytest.mark.parametrize("confirmed", [True, False])
async def test_leaving_a_call_does_not_take_the_place_of_its_question(server: RedisServer, confirmed: bool) -> None:
    """Its client leaves it while the question is being kept, or after nobody knows whether it is."""
    running = invocation(1, kind="call", status="running")
    one = await Process(server).open()
    assert await one.calls.get("call_of_nobody") is None
    async with Redis(port=server.port) as redis:
        if not confirmed:
            await redis.client_pause(2500)
        asking = asyncio.create_task(one.calls.add(invocation(1), each=9, total=9))
        await asyncio.sleep(0)
        for _ in range(2):
            with pytest.raises(StateError):
                await one.calls.add(running, each=9, total=9)
            await asyncio.wait((asking,))
    assert (asking.exception() is None) == confirmed
    awaited = await one.calls.awaited(running.id)
    assert awaited is not None
    assert (awaited.kind, awaited.status) == ("approval", "pending")
    await one.close()


async def test_a_call_that_was_left_and_then_asks_is_awaited_as_the_question(server: RedisServer) -> None:
    running = invocation(1, kind="call", status="running")
    one = await Process(server).open()
    left = await one.calls.add(running, each=9, total=9)
    assert left is not None
    assert await one.calls.replace(left, invocation(1)) is not None
    await emptied(server)
    lost = await one.calls.missing(1e12)
    assert [(found.id, found.kind, found.status) for found in lost] == [(running.id, "approval", "pending")]
    await one.close()


async def test_a_question_that_may_be_kept_is_awaited_also_after_it_could_not_be_sent_again(
    server: RedisServer,
) -> None:
    one = await Process(server).open()
    assert await one.calls.get("call_of_nobody") is None
    async with Redis(port=server.port) as redis:
        await redis.client_pause(2500)
    for unconfirmed in (True, False):
        with pytest.raises(StateUnavailableError) as raised:
            await one.calls.add(invocation(1), each=9, total=9)
        assert raised.value.unconfirmed == unconfirmed
        assert await one.calls.awaited(invocation(1).id) is not None
        server.stop()
    await one.close()


@pytest.mark.parametrize("status", ["pending", "running"])
async def test_a_call_that_was_not_sent_to_the_store_is_neither_awaited_nor_over(
    server: RedisServer, status: Status
) -> None:
    call = invocation(1, kind="approval" if status == "pending" else "call", status=status)
    one = await Process(server).open()
    assert await one.calls.get("call_of_nobody") is None
    server.stop()
    with pytest.raises(StateUnavailableError) as raised:
        await one.calls.add(call, each=9, total=9)
    assert not raised.value.unconfirmed
    assert (await one.calls.awaited(call.id), await one.journal.attempt(call.id)) == (None, None)
    server.start()
    assert await one.calls.add(call, each=9, total=9) is not None
    await one.close()


async def test_an_older_version_is_known_as_what_it_is(server: RedisServer) -> None:
    one = await Process(server).open()
    first = await one.calls.add(invocation(1), each=9, total=9)
    assert first is not None
    name = f"toolgen:calls:call:{first.id}"
    async with Redis(port=server.port) as redis:
        old = await redis.dump(name)
        agreed = await one.calls.replace(first, msgspec.structs.replace(first, status="approved"))
        assert agreed is not None
        begun = await one.calls.replace(agreed, msgspec.structs.replace(agreed, status="running", owner="o"))
        assert begun is not None
        await redis.restore(name, 0, old, replace=True)
    with pytest.raises(BehindError) as raised:
        await one.calls.get(first.id)
    assert await one.calls.fate(raised.value.known) == "begun"
    put_back = await one.calls.restore(begun)
    assert put_back is not None
    assert (await one.calls.get(first.id), put_back.status) == (put_back, "running")
    assert await one.calls.restore(first, over=1) is None  # another version is kept by now
    await one.close()


async def test_a_call_of_another_gateway_is_its_own_until_that_is_gone(server: RedisServer) -> None:
    one, two = await Process(server).open(), await Process(server, "two").open()
    known = await one.calls.add(invocation(1), each=9, total=9)
    assert known is not None
    clock = FixedClock()
    two.watch.clock = clock
    await one.calls.due(0)
    await two.calls.due(0)
    assert await two.calls.fate(known) == "foreign"
    clock.advance(LEASE_S + 1)
    await two.calls.due(0)
    assert await two.calls.fate(known) == "orphaned"
    await one.calls.due(0)
    await two.calls.due(0)
    assert await two.calls.fate(known) == "foreign"
    for process in (one, two):
        await process.close()


async def test_a_call_that_is_older_than_a_loss_is_its_own_gateway_s_for_three_leases(server: RedisServer) -> None:
    """That gateway may have ended it, and be cut off since before the store lost that. Also for a process that starts after the loss."""
    one, two = await Process(server).open(), await Process(server, "two").open()
    known = await one.calls.add(msgspec.structs.replace(invocation(1), asked=time.time()), each=9, total=9)
    assert known is not None
    assert two.calls.lost_at == 0
    await two.calls.begin_epoch()
    assert two.calls.lost_at == pytest.approx(time.time(), abs=30)
    again = await Process(server, "two").open()
    assert again.calls.lost_at == two.calls.lost_at
    clock = again.watch.clock = FixedClock()
    await again.calls.due(0)
    for _ in range(29):
        clock.advance(LEASE_S / 10)
        again.watch.heard()
    assert await again.calls.fate(known) == "foreign"
    for _ in range(2):
        clock.advance(LEASE_S / 10)
        again.watch.heard()
    assert await again.calls.fate(known) == "orphaned"
    for process in (one, two, again):
        await process.close()


def test_a_process_that_could_not_ask_takes_nothing_for_lost_until_a_lease_later() -> None:
    clock = FixedClock()
    watch = StoreWatch(clock=clock)
    watch.heard()
    assert watch.settled
    clock.advance(LEASE_S / 2)
    assert not watch.settled
    watch.heard()
    for _ in range(10):
        clock.advance(LEASE_S / 10 - 0.001)
        assert not watch.settled
        watch.heard()
    clock.advance(0.1)
    assert watch.settled


def test_a_process_that_was_stopped_takes_nothing_for_lost_either() -> None:
    clock = FixedClock()
    watch = StoreWatch(clock=clock)
    watch.heard()
    clock.advance(100)
    assert not watch.settled


async def test_a_process_notices_a_store_that_was_set_back_while_no_call_changed(server: RedisServer) -> None:
    one = await Process(server).open()
    async with Redis(port=server.port) as redis:
        copy = {name: await redis.dump(name) for name in await redis.keys()}
        await one.calls.changed()
        assert one.calls.loss == ""
        await redis.flushall()
        for name, body in copy.items():
            await redis.restore(name, 0, body)
    await one.calls.changed()
    assert "set back" in one.calls.loss
    await one.close()


async def test_a_gateway_notes_how_another_one_ended_its_call(server: RedisServer) -> None:
    one, two = await Process(server).open(), await Process(server, "two").open()
    known = await one.calls.add(invocation(1), each=9, total=9)
    assert known is not None
    denied = msgspec.structs.replace(known, status="ended", ended=await two.calls.now(), envelope={"status": "refused"})
    assert await two.calls.replace(known, denied) is not None
    assert await two.calls.missing(1e12) == ()  # it is no call of this gateway's
    await one.calls.changed()
    await emptied(server)
    assert await one.calls.fate(known) == "over"
    assert await one.calls.missing(1e12) == ()
    await one.calls.restore_endings()
    found = await two.calls.get(known.id)
    assert found is not None
    assert (found.status, found.envelope) == ("ended", {"status": "refused"})
    for process in (one, two):
        await process.close()


async def test_a_call_is_absent_that_redis_has_lost_and_that_never_ended(server: RedisServer) -> None:
    one, two = await Process(server).open(), await Process(server, "two").open()
    now = await one.calls.now()
    asked, denied, kept = (msgspec.structs.replace(invocation(number), asked=now) for number in range(3))
    for call in (asked, denied):
        assert await one.calls.add(call, each=9, total=9) is not None
    known = await two.calls.get(denied.id)
    assert known is not None
    over = msgspec.structs.replace(known, status="ended", ended=now, envelope={"status": "refused"})
    assert await two.calls.replace(known, over) is not None
    await one.calls.changed()
    await emptied(server)
    assert await one.calls.add(kept, each=9, total=9) is not None
    made = {call.id: now for call in (asked, denied, kept)}
    assert await one.calls.absent(made) == (asked.id,)
    longer_ago = now - REMEMBERED_S - 1
    assert await one.calls.absent(dict.fromkeys(made, longer_ago)) == ()
    for process in (one, two):
        await process.close()


async def test_an_ending_is_noted_before_redis_is_told(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is on record, whether or not Redis answers, and how Redis has it later tells this gateway nothing new."""
    one = await Process(server).open()
    known = await one.calls.add(invocation(1), each=9, total=9)
    assert known is not None

    async def away(*_: str | bytes) -> object:
        raise StateUnavailableError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(one.calls, "_write", away)
        ended = msgspec.structs.replace(known, status="ended", envelope={"status": "refused"})
        with pytest.raises(StateUnavailableError):
            await one.calls.replace(known, ended)
    assert await one.calls.fate(known) == "over"
    with pytest.raises(BehindError):
        await one.calls.get(known.id)
    put_back = await one.calls.restore_ending(known)
    assert put_back is not None
    assert (await one.calls.get(known.id), put_back.envelope) == (put_back, {"status": "refused"})
    assert await one.calls.restore_ending(known) is None  # another version is kept by now
    await one.close()


@pytest.mark.parametrize("running", [False, True])
async def test_a_call_that_was_given_up_for_its_gateway_is_put_back_unless_it_runs(
    server: RedisServer, running: bool
) -> None:
    """Its own gateway is told too, and may still say how the call ended, which is then final."""
    one, two = await Process(server).open(), await Process(server, "two").open()
    known = await one.calls.add(invocation(1), each=9, total=9)
    assert known is not None
    agreed = await two.calls.replace(known, msgspec.structs.replace(known, status="approved"))
    assert agreed is not None
    lost = msgspec.structs.replace(agreed, status="ended", ended=1.0, lost=True, envelope={"status": "error"})
    assert await two.calls.replace(agreed, lost) is not None
    await one.calls.changed()
    assert (await one.calls.fate(known), await two.calls.fate(known)) == ("over", "over")
    await emptied(server)
    if running:
        assert await one.calls.restore(msgspec.structs.replace(agreed, status="running", owner="o")) is not None
    await two.calls.restore_endings()
    found = await two.calls.get(known.id)
    assert found is not None
    assert found.status == ("running" if running else "ended")
    if not running:
        own = msgspec.structs.replace(found, owner="o", lost=False, envelope={"status": "ok"})
        final = await one.calls.replace(found, own)
        assert final is not None
        assert final.final
    for process in (one, two):
        await process.close()


async def test_a_write_notices_that_another_gateway_found_the_store_set_back(server: RedisServer) -> None:
    one, two = await Process(server).open(), await Process(server, "two").open()
    known = await one.calls.add(invocation(1), each=9, total=9)
    assert known is not None
    await two.calls.begin_epoch()
    assert one.calls.loss == ""
    assert await one.calls.replace(known, msgspec.structs.replace(known, lease=1.0)) is not None
    assert one.calls.loss == "it was emptied"
    for process in (one, two):
        await process.close()


async def test_a_call_that_may_have_been_kept_is_not_kept_later(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its caller was told that it is not, so nobody may be asked about it."""
    one = await Process(server).open()
    write = one.calls._write

    async def unanswered(*arguments: str | bytes) -> object:
        await write(*arguments)
        fault = StateUnavailableError("no answer")
        fault.unconfirmed = True
        raise fault

    with monkeypatch.context() as patch:
        patch.setattr(one.calls, "_write", unanswered)
        with pytest.raises(StateUnavailableError):
            await one.calls.add(invocation(1, kind="call", status="running"), each=9, total=9)
    with pytest.raises(StateUnavailableError):
        await one.calls.add(invocation(1), each=9, total=9)
    assert await one.calls.add(invocation(2), each=9, total=9)
    await one.close()


async def test_a_gateway_whose_journal_is_replaced_while_it_runs_is_another_one(tmp_path: Path) -> None:
    journal = CallJournal(tmp_path / "begun.db")
    home = await journal.home()
    assert await journal.home() == home
    (tmp_path / "begun.db").rename(tmp_path / "old.db")
    other = await journal.home()
    assert other != home
    (tmp_path / "old.db").replace(tmp_path / "begun.db")
    assert await journal.home() == home
    await journal.close()


async def test_a_call_that_another_gateway_found_unreadable_is_missing_at_its_own(server: RedisServer) -> None:
    """Its own gateway, which ends it, may never be the first to look at it."""
    one, two = await Process(server).open(), await Process(server, "two").open()
    broken, whole = [await one.calls.add(invocation(number), each=9, total=9) for number in (1, 2)]
    assert broken is not None
    assert whole is not None
    async with Redis(port=server.port) as redis:
        kept = f"toolgen:calls:call:{broken.id}"
        before = await redis.hget(kept, "box")  # type: ignore[misc]
        await redis.hset(kept, "box", b"x" * 60)  # type: ignore[misc]
        assert await one.calls.missing(1e12) == ()
        assert [one.id for one in await two.calls.due(1e12)] == [whole.id]
        assert [one.id for one in await one.calls.missing(1e12)] == [broken.id]
        await redis.hset(kept, "box", before)  # type: ignore[misc]
    assert await one.calls.missing(1e12) == ()  # it was unreadable for the other gateway alone
    for process in (one, two):
        await process.close()
