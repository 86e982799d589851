"""What the workers of one host count together: exact, whoever asks, and neither lost nor locked by a worker that dies."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from toolgen.core.clock import FixedClock, SystemClock
from toolgen.core.errors import StateUnavailableError
from toolgen.policy.limits import Limit, LimitCharge
from toolgen.state import shared_counts
from toolgen.state.count_connection import Script, StoreUnreachableError
from toolgen.state.encryption import Seal
from toolgen.state.rate_limits import Hold, LimitRefusal
from toolgen.state.shared_buckets import SharedBuckets
from toolgen.state.shared_counts import CountClient, CountServer
from toolgen.state.shared_histories import SharedHistories
from toolgen.state.turn_counter import SharedTurns

HOLDER = """
import asyncio, sys
from toolgen.core.clock import SystemClock
from toolgen.policy.limits import Limit, LimitCharge
from toolgen.state.shared_buckets import SharedBuckets
from toolgen.state.shared_counts import CountClient
from toolgen.state.turn_counter import SharedTurns

async def main():
    link = CountClient(int(sys.argv[1]))
    hold = await SharedBuckets(link, SystemClock()).acquire((LimitCharge(Limit(id="at-once", concurrency=1), ("at-once",), 1),))
    excess = await SharedTurns(2, link, SystemClock()).join(("bot",), "c").excess()
    print(hold.id != "", excess, flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


async def workers(server: CountServer, count: int) -> list[CountClient]:
    """So many workers' ways to the counts."""
    return [CountClient((await server.connect()).detach()) for _ in range(count)]


@asynccontextmanager
async def using(count: int = 2) -> AsyncIterator[tuple[CountServer, list[CountClient]]]:
    server = CountServer(FixedClock())
    links = await workers(server, count)
    try:
        async with asyncio.timeout(120):
            yield server, links
    finally:
        for link in links:
            link.end()
        await server.close()


def charge(key: str = "a", cost: float = 1, burst: int = 3, **terms: Any) -> LimitCharge:
    return LimitCharge(Limit(id=key, per_second=0.001, burst=burst, **terms), (key,), cost)


ONE_PLACE = charge("at-once", burst=0, concurrency=1)


def passed(answers: list[Hold | LimitRefusal]) -> int:
    return sum(isinstance(answer, Hold) for answer in answers)


async def test_a_place_in_flight_is_of_all_and_is_given_back_once() -> None:
    async with using() as (_, links):
        one, two = (SharedBuckets(link, SystemClock()) for link in links)
        ceiling = charge("at-once", burst=0, concurrency=2)
        first, _, third = [await buckets.acquire((ceiling,)) for buckets in (one, two, one)]
        assert isinstance(first, Hold)
        assert isinstance(third, LimitRefusal)
        assert (third.reason, third.retry_after_s) == ("crowded", 1.0)
        one.release(first)
        one.release(first)
        assert passed([await one.acquire((ceiling,)) for _ in range(2)]) == 1


async def test_a_killed_process_holds_no_place_and_no_turn() -> None:
    async with using(3) as (server, links):
        mine, turns = SharedBuckets(links[0], SystemClock()), SharedTurns(2, links[0], SystemClock())
        with await server.connect() as theirs:
            holder = subprocess.Popen(
                [sys.executable, "-c", HOLDER, str(theirs.fileno())],
                stdout=subprocess.PIPE,
                pass_fds=(theirs.fileno(),),
            )
        try:
            assert holder.stdout is not None
            assert await asyncio.to_thread(holder.stdout.readline) == b"True None\n"
            assert isinstance(await mine.acquire((ONE_PLACE,)), LimitRefusal)
            async with turns.join(("bot",), "c") as joined:
                assert await joined.excess() is None  # in the turn that the other one began
        finally:
            holder.kill()
            holder.wait()
            holder.stdout.close()
        while len(server.workers) > 3:  # noqa: ASYNC110 - until the kernel has said so
            await asyncio.sleep(0)
        assert isinstance(await mine.acquire((ONE_PLACE,)), Hold)
        counted = []
        for _ in range(2):
            async with turns.join(("bot",), "c") as turn_lease:
                counted.append(await turn_lease.excess() is None)
        assert counted == [True, False]  # its turn was taken, and has ended


async def test_a_place_whose_answer_nobody_awaited_comes_back() -> None:
    async with using() as (_, links):
        late, other = (SharedBuckets(link, SystemClock()) for link in links)
        asked = b'{"takes":[["gone",[["[\\"at-once\\"]",1,0,0,1]]]],"releases":[],"renewals":[],"beat":false}'
        assert await links[0].run(Script("buckets", ""), asked) == [2, 0, 0]
        assert isinstance(await other.acquire((ONE_PLACE,)), LimitRefusal)
        await late._run((), beat=True)  # it may be on its way yet
        assert isinstance(await other.acquire((ONE_PLACE,)), LimitRefusal)
        await late._run((), beat=True)
        assert isinstance(await other.acquire((ONE_PLACE,)), Hold)


async def test_a_place_that_is_named_stays_taken() -> None:
    async with using() as (_, links):
        slow, other = (SharedBuckets(link, SystemClock()) for link in links)
        hold = await slow.acquire((ONE_PLACE,))
        for _ in range(4):
            await slow._run((), beat=True)
        assert isinstance(await other.acquire((ONE_PLACE,)), LimitRefusal)
        assert isinstance(hold, Hold)
        slow.release(hold)
        await slow._run((), beat=True)
        assert isinstance(await other.acquire((ONE_PLACE,)), Hold)


async def test_without_the_process_above_nothing_is_let_through() -> None:
    async with using() as (server, links):
        buckets, turns = SharedBuckets(links[0], SystemClock()), SharedTurns(2, links[0], SystemClock())
        histories = SharedHistories(links[0], lambda: Seal(b"k"), SystemClock())
        assert isinstance(await buckets.acquire((charge(),)), Hold)
        await server.close()
        refusal = await buckets.acquire((charge(),))
        assert isinstance(refusal, LimitRefusal)
        assert refusal.reason == "unreachable"
        async with turns.join(("bot",), "c") as turn_lease:
            excess = await turn_lease.excess()
        assert excess is not None
        assert excess.reason == "unreachable"
        async with histories.turn(("bot",), "s") as turn:
            with pytest.raises(StateUnavailableError):
                await turn.commit()


async def test_one_that_does_not_answer_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_counts, "TIMEOUT_S", 0.01)

    async with using():
        ours, theirs = socket.socketpair()
        with ours:
            link = CountClient(theirs.detach())
            with pytest.raises(StoreUnreachableError, match="TimeoutError"):
                await link.run(Script("turns", ""), b"{}")
            link.end()


async def test_an_unknown_script_ends_the_connection_of_whoever_asks() -> None:
    async with using() as (_, links):
        with pytest.raises(StoreUnreachableError, match="ConnectionError"):
            await links[0].run(Script("unknown", ""), b"{}")
        assert isinstance(await SharedBuckets(links[1], SystemClock()).acquire((charge(),)), Hold)


@pytest.mark.parametrize("argument", [b"", b"{}", b"[1]", b'{"limit": "x", "steps": []}'])
async def test_what_is_no_question_is_answered_with_nothing(argument: bytes) -> None:
    async with using() as (_, links):
        for name in ("buckets", "turns"):
            with pytest.raises(StoreUnreachableError):
                await links[0].run(Script(name, ""), argument)
        assert isinstance(await SharedBuckets(links[1], SystemClock()).acquire((charge(),)), Hold)


async def test_a_history_that_made_room_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_counts, "_MAX_SESSIONS", 3)
    monkeypatch.setattr(shared_counts, "_MAX_PARTIES", 2)

    async def total(histories: SharedHistories, party: str, session: str, call: str = "") -> float:
        async with histories.turn((party,), session) as turn:
            while not await turn.commit():
                pass
            if call:
                histories.begin(call, party, session, "pay", {"cents": 1}, ())
                while not await turn.commit():
                    histories.begin(call, party, session, "pay", {"cents": 1}, ())
            return histories.views(party, session)[0].sum("pay", "cents")

    async with using(3) as (_, links):
        clock = FixedClock()
        one, two, three = (SharedHistories(link, lambda: Seal(b"k"), clock) for link in links)
        for number in range(4):
            assert await total(one, "bot", f"s{number}", f"call-{number}") == 1
        assert await total(two, "bot", "s3") == 1
        assert await total(two, "bot", "new") == 0
        for histories in (one, two):
            with pytest.raises(LookupError):
                await total(histories, "bot", "s0")
        assert await total(three, "ann", "s0", "call-a") == 1  # who floods pushes out its own alone
        assert await total(three, "eve", "s0", "call-e") == 1
        with pytest.raises(LookupError):
            await total(three, "bot", "s3")  # the party that was used longest ago, with all it had
