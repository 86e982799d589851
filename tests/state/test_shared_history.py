"""Histories in a real Redis: exact whatever comes in between, and honest where Redis forgot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from tests.redis_server import RedisServer
from tests.state.test_shared_counts import workers
from toolgen.core.clock import FixedClock
from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.state.count_connection import Link
from toolgen.state.encryption import Seal
from toolgen.state.history import HistoryView, UsageHistory, exact
from toolgen.state.history_bytes import StoredHistory, encoded, read
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation
from toolgen.state.shared_counts import CountServer
from toolgen.state.shared_histories import SharedHistories

DAY = 86_400.0


@pytest.fixture(params=["redis", "above"])
def place(request: pytest.FixtureRequest) -> RedisServer | None:
    """Where histories are kept: in Redis, or in the process above the workers."""
    return request.getfixturevalue("server") if request.param == "redis" else None


@asynccontextmanager
async def using(server: RedisServer | None) -> AsyncIterator[tuple[Callable[[], SharedHistories], FixedClock]]:
    clock, opened = FixedClock(), list[SharedHistories]()
    above = CountServer(clock)
    ends = await workers(above, 7)
    links = [*ends]

    def worker() -> SharedHistories:
        link: Link = links.pop()
        if server is not None:
            link = RedisLink(RedisLocation(host="127.0.0.1", port=server.port), lambda: "")
        opened.append(SharedHistories(link, lambda: Seal(b"k"), clock))
        return opened[-1]

    try:
        async with asyncio.timeout(120):
            yield worker, clock
    finally:
        for item in opened:
            await item.close()
        for end in ends:
            end.end()
        await above.close()


async def let_through(histories: SharedHistories, call: str, most: int, cost: int = 1, session: str = "s") -> bool:
    """Begins a call unless the sum of all before it would go beyond `most`; a call that never ends is still in flight."""
    async with histories.turn(("bot",), session) as turn:
        while True:
            _, whole = histories.views("bot", session)
            fits = whole.sum("pay", "cents") + cost <= most
            if fits:
                histories.begin(call, "bot", session, "pay", {"cents": cost}, ("paid",))
            if await turn.commit():
                return fits


async def total(histories: SharedHistories, session: str = "") -> float:
    async with histories.turn(("bot",), session) as turn:
        while not await turn.commit():
            pass
        return histories.views("bot", session)[0 if session else 1].sum("pay", "cents")


async def test_how_calls_ended_is_settled_for_all_and_a_call_that_waited_flies_twice(place: RedisServer | None) -> None:
    async with using(place) as (worker, _):
        one, two = worker(), worker()
        assert await let_through(one, "asked", 100, 60)
        assert not await let_through(two, "other", 100, 60)
        one.end("asked", "none")  # it waits for a person, and another carries it out
        while await total(two):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert await let_through(two, "asked", 100, 60)
        one.end("asked", "none")  # it is not this one's any more
        assert await total(one) == 60
        two.end("asked", "ok")
        while True:
            async with one.turn(("bot",), "s") as turn:
                while not await turn.commit():
                    pass
                session, _ = one.views("bot", "s")
                if session.called("pay") == 1:
                    assert session.labels() == ["paid"]
                    break


async def test_sessions_are_apart_and_one_idle_for_a_day_has_no_answer(place: RedisServer | None) -> None:
    async with using(place) as (worker, clock):
        one, two = worker(), worker()
        assert await let_through(one, "a", 100, 10, "s")
        assert await let_through(one, "b", 100, 20, "t")
        assert [await total(two, "s"), await total(two, "t"), await total(two)] == [10, 20, 30]
        one.end("a", "ok")
        while one._settling:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        clock.seconds += DAY + 3_700
        with pytest.raises(LookupError):
            await total(two, "s")
        assert await total(two, "t") == 20  # in flight, as far as anybody knows
        assert await total(two) == 0


async def test_what_redis_forgot_has_no_answer_for_a_day_and_is_never_nothing(server: RedisServer) -> None:
    async with using(server) as (worker, clock):
        one, two = worker(), worker()
        assert await let_through(one, "a", 100, 90)
        assert await total(two) == 90
        redis = Redis(host="127.0.0.1", port=server.port)
        await redis.flushall()
        await redis.aclose()
        for histories in (one, two, worker()):
            with pytest.raises(LookupError):
                await total(histories)
        clock.seconds += DAY + 1
        assert await total(two) == 0


async def test_while_redis_is_away_nothing_is_let_through(server: RedisServer) -> None:
    async with using(server) as (worker, _):
        one = worker()
        assert await let_through(one, "a", 100, 10)
        server.stop()
        with pytest.raises(StateUnavailableError):
            await let_through(one, "b", 100, 10)
        one.end("a", "none")
        one.end("b", "none")
        server.start()


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.one_of(st.integers(-(2**70), 2**70), st.floats(allow_nan=True, allow_infinity=True), st.booleans()),
        st.sampled_from(["ok", "failed", "none", "running"]),
        st.floats(0, 3 * DAY),
    )
)


@given(CALLS)
def test_a_ledger_comes_back_exactly(calls: list[tuple[str, float, str, float]]) -> None:
    kept = StoredHistory(ledger=UsageHistory(windowed=True))
    now = 0.0
    for number, (tool, value, outcome, later) in enumerate(calls):
        now += later / 100
        entry = kept.ledger.begin(now, tool, {"n": exact(value)}, ("x",))
        if outcome == "running":
            kept.flying[str(number)] = [(now, entry)]
        else:
            kept.ledger.end(entry, outcome)
    again = read(encoded(kept, now), windowed=True, now=now)
    for tools in ("a", "b", "*"):
        before, after = HistoryView(kept.ledger, now), HistoryView(again.ledger, now)
        assert (before.called(tools), before.count(tools)) == (after.called(tools), after.count(tools))
        assert _sum(before, tools) == _sum(after, tools)
    assert HistoryView(kept.ledger, now).labels() == HistoryView(again.ledger, now).labels()
    assert encoded(again, now) == encoded(kept, now)


def _sum(view: HistoryView, tools: str) -> object:
    try:
        return view.sum(tools, "n")
    except (LookupError, OverflowError) as error:
        return type(error)


@pytest.mark.parametrize("body", [b"", b"\x90", b"x" * 50, b"\x94\x00\x00\x90\x91\x96\xa1a\x00\x07\xa1t\x80\x90"])
def test_what_is_no_ledger_is_an_error(body: bytes) -> None:
    with pytest.raises(StateError):
        read(body, windowed=False, now=0.0)


@pytest.mark.parametrize(
    "entry", [{"version": b"x"}, {"version": b"\xff\xfe"}, {"version": b"9-x", "box": b"\xff" * 90}]
)
async def test_an_entry_that_is_none_of_ours_is_a_fault_of_that_party_alone(
    server: RedisServer, entry: dict[str, bytes]
) -> None:
    async with using(server) as (worker, _):
        assert await let_through(worker(), "call_1", most=5)
        redis = Redis(host="127.0.0.1", port=server.port)
        (name,) = [key async for key in redis.scan_iter("toolgen:history:p:*")]
        await redis.hset(name, mapping=entry)  # type: ignore[misc]
        for histories in (worker(), worker()):
            with pytest.raises(StateError, match=r"the stored history|was changed"):
                await total(histories)
            async with histories.turn(("another",), "s") as turn:
                while not await turn.commit():
                    pass
        await redis.delete(name)
        assert await total(worker()) == 0
        await redis.aclose()
