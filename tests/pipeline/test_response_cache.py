"""Kept answers, decision by decision: who is given what again, for how long, and what is never kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.catalogs import PETS
from toolgen.config.tools import CacheFor
from toolgen.core.clock import FixedClock
from toolgen.model.call import Call, Principal, Statement
from toolgen.model.result import Delivery, Error, Failed, Refused, Result, Success
from toolgen.model.secret import Secret
from toolgen.model.tool import Effect
from toolgen.pipeline.middleware import CallerConnection
from toolgen.pipeline.response_cache import ABREAST, Caching
from toolgen.state.stored_answers import CAPACITY, Results, StoredAnswer

TOOL = PETS.tools["pets__get_pet"]
WRITE = msgspec.structs.replace(TOOL, name="pets__rename_pet", effect=Effect.WRITE)
ANN, BEN = (Principal(id=name, roles=frozenset({"user"}), attributes={"tenant": "acme"}) for name in ("ann", "ben"))
CALL = Call(id="call_1", tool=TOOL, arguments={"petId": 1}, principal=ANN)
STATEMENT = Statement(
    sql="SELECT 1",
    parameters=(),
    tables=frozenset(),
    columns=frozenset(),
    max_rows=10,
    max_bytes=10,
    max_cell_bytes=10,
    timeout_s=1,
)
BROKEN = Failed(error=Error(code="upstream_error", message="m"), delivery=Delivery(status=503, attempts=2))


class Upstream:
    """Answers with what it is told, in order, and then with the number of the time it is asked."""

    def __init__(self, *answers: Result) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self) -> Result:
        self.asked += 1
        await asyncio.sleep(0)
        return (
            self.answers.pop(0) if self.answers else Success(data={"time": self.asked}, delivery=Delivery(attempts=1))
        )


class Cache:
    """A cache with a clock that stands still."""

    def __init__(
        self, ttl: float = 60, stale: float = 0, capacity: int = CAPACITY, places: int = 100, resilience: float = 60
    ) -> None:
        self.clock = FixedClock()
        self.results = Results(self.clock, capacity)
        rules = {TOOL.name: CacheFor(ttl_s=ttl, stale_s=stale)}
        self.caching = Caching(
            tools=rules, sources={"pets": places}, results=self.results, clock=self.clock, max_wait_s=resilience
        )

    async def ask(self, upstream: Callable[[], Awaitable[Result]], call: Call = CALL, policy: str = "p1") -> Any:
        return await self.caching(call, policy, CallerConnection(), upstream)


async def test_the_same_question_is_answered_once_a_lifetime_and_says_how_old_its_answer_is() -> None:
    cache, upstream = Cache(ttl=60), Upstream()
    first = await cache.ask(upstream)
    cache.clock.advance(59.5)
    again = await cache.ask(upstream)
    assert (first.data, first.age_s) == ({"time": 1}, None)
    assert (again.data, again.age_s, again.delivery) == ({"time": 1}, 59.5, Delivery(cache="hit"))
    cache.clock.advance(0.5)
    assert (await cache.ask(upstream)).data == {"time": 2}


@pytest.mark.parametrize(
    ("other", "policy"),
    [
        (msgspec.structs.replace(CALL, principal=BEN), "p1"),
        (msgspec.structs.replace(CALL, principal=replace(ANN, on_behalf_of=BEN)), "p1"),
        (msgspec.structs.replace(CALL, principal=replace(ANN, roles=frozenset({"admin"}))), "p1"),
        (msgspec.structs.replace(CALL, principal=replace(ANN, attributes={"tenant": "globex"})), "p1"),
        (msgspec.structs.replace(CALL, principal=replace(ANN, toolsets=frozenset({"safe"}))), "p1"),
        (msgspec.structs.replace(CALL, arguments={"petId": 2}), "p1"),
        (msgspec.structs.replace(CALL, arguments={"petId": "1"}), "p1"),
        (msgspec.structs.replace(CALL, arguments={"petId": True}), "p1"),
        (msgspec.structs.replace(CALL, arguments={"petId": 1, "x": None}), "p1"),
        (msgspec.structs.replace(CALL, tool=msgspec.structs.replace(TOOL, digest="sha256:other")), "p1"),
        (msgspec.structs.replace(CALL, statement=STATEMENT), "p1"),
        (msgspec.structs.replace(CALL, statement=msgspec.structs.replace(STATEMENT, skip=5)), "p1"),
        (msgspec.structs.replace(CALL, approval="sha256:agreed"), "p1"),
        (msgspec.structs.replace(CALL, principal=replace(ANN, token=Secret("narrow"))), "p1"),
        (
            msgspec.structs.replace(CALL, principal=replace(BEN, on_behalf_of=replace(ANN, token=Secret("narrow")))),
            "p1",
        ),
        (CALL, "p2"),
    ],
)
async def test_another_question_has_an_answer_of_its_own(other: Call, policy: str) -> None:
    cache, upstream = Cache(), Upstream()
    await cache.ask(upstream)
    await cache.ask(upstream, other, policy)
    found = upstream.asked
    assert found == 2


async def test_arguments_in_another_order_are_the_same_question() -> None:
    cache, upstream = Cache(), Upstream()
    await cache.ask(upstream, msgspec.structs.replace(CALL, arguments={"a": 1, "b": {"c": 1, "d": 2}}))
    await cache.ask(upstream, msgspec.structs.replace(CALL, arguments={"b": {"d": 2, "c": 1}, "a": 1}))
    found = upstream.asked
    assert found == 1


@pytest.mark.parametrize(
    "answer",
    [
        Success(data=1, delivery=Delivery(lifetime_s=0.0)),
        Success(data=1, truncated=True),
        Success(data="\ud800"),
        Success(data={1: 2}),
        Success(data=b"bytes"),
        Success(data=float("nan")),
        Failed(error=Error(code="upstream_error", message="m"), delivery=Delivery(status=404)),
        Failed(error=Error(code="secret_unavailable", message="m")),
        Refused(error=Error(code="upstream_unavailable", message="m")),
        BROKEN,
    ],
)
async def test_what_may_or_can_not_be_kept_is_not(answer: Result) -> None:
    cache, upstream = Cache(stale=600), Upstream(answer)
    assert await cache.ask(upstream) == answer
    await cache.ask(upstream)
    assert cache.results.flights == {}
    found = upstream.asked
    assert found == 2


async def test_an_integer_of_any_size_is_kept_exactly() -> None:
    cache, upstream = Cache(), Upstream(Success(data=[2**70, -(2**64)]))
    await cache.ask(upstream)
    kept = await cache.ask(upstream)
    assert isinstance(kept, Success)
    assert kept.data == [2**70, -(2**64)]
    found = upstream.asked
    assert found == 1


@pytest.mark.parametrize(("said", "lives"), [(5.0, 5), (3600.0, 60), (1e18, 60)])
async def test_an_answer_may_shorten_its_life_and_never_lengthen_it(said: float, lives: int) -> None:
    cache, upstream = Cache(ttl=60), Upstream(Success(data=0, delivery=Delivery(lifetime_s=said)))
    await cache.ask(upstream)
    cache.clock.advance(lives - 0.1)
    assert (await cache.ask(upstream)).delivery == Delivery(cache="hit")
    cache.clock.advance(0.2)
    await cache.ask(upstream)
    assert upstream.asked == 2


@pytest.mark.parametrize(
    "failure",
    [
        BROKEN,
        Failed(error=Error(code="upstream_timeout", message="m")),
        Failed(error=Error(code="upstream_error", message="m"), delivery=Delivery(broken=True)),
        Refused(error=Error(code="upstream_unavailable", message="m", rule="breaker")),
    ],
)
async def test_a_stale_answer_is_better_than_none_for_as_long_as_it_was_said_to_be(failure: Result) -> None:
    cache, upstream = Cache(ttl=10, stale=100), Upstream(Success(data="old"), failure, failure)
    await cache.ask(upstream)
    cache.clock.advance(109)
    stale = await cache.ask(upstream)
    assert (stale.data, stale.delivery.cache, stale.age_s) == ("old", "stale", 109)
    cache.clock.advance(2)
    assert await cache.ask(upstream) == failure


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 429])
async def test_a_system_that_says_no_is_believed_and_what_it_said_before_forgotten(status: int) -> None:
    no = Failed(error=Error(code="upstream_error", message="m"), delivery=Delivery(status=status))
    cache, upstream = Cache(ttl=10, stale=100), Upstream(Success(data="old"), no, BROKEN)
    await cache.ask(upstream)
    cache.clock.advance(11)
    assert await cache.ask(upstream) == no
    assert await cache.ask(upstream) == BROKEN


async def test_a_write_to_the_source_makes_what_was_read_before_worthless() -> None:
    cache, upstream = Cache(stale=600), Upstream()
    await cache.ask(upstream)
    await cache.ask(Upstream(), msgspec.structs.replace(CALL, tool=WRITE, principal=BEN))
    assert (await cache.ask(upstream)).data == {"time": 2}
    await cache.ask(
        Upstream(), msgspec.structs.replace(CALL, statement=msgspec.structs.replace(STATEMENT, writes="update"))
    )
    assert (await cache.ask(upstream)).data == {"time": 3}


async def test_what_is_read_while_a_write_is_under_way_is_not_taken_for_what_is_so_afterwards() -> None:
    cache, upstream = Cache(), Upstream()
    gate, begun = asyncio.Event(), asyncio.Event()

    async def slow() -> Result:
        begun.set()
        await gate.wait()
        return Success(data=None)

    writing = asyncio.ensure_future(cache.ask(slow, msgspec.structs.replace(CALL, tool=WRITE)))
    await begun.wait()
    await cache.ask(upstream)
    gate.set()
    await writing
    assert (await cache.ask(upstream)).data == {"time": 2}


async def test_many_who_ask_at_once_are_one_question() -> None:
    cache, upstream = Cache(), Upstream()
    found = await asyncio.gather(*(cache.ask(upstream) for _ in range(100)))
    assert upstream.asked == 1
    assert {msgspec.json.encode(one.data) for one in found} == {b'{"time":1}'}
    assert [one.delivery.cache for one in found] == [""] + ["shared"] * 99
    found[1].data["time"] = "poison"  # nobody's answer is anybody else's
    assert found[2].data == (await cache.ask(upstream)).data == {"time": 1}


async def test_those_who_wait_share_a_failure_but_nothing_that_must_not_be_kept() -> None:
    cache, upstream = Cache(), Upstream(BROKEN)
    found = await asyncio.gather(*(cache.ask(upstream) for _ in range(10)))
    assert upstream.asked == 1
    assert {one.error.code for one in found} == {"upstream_error"}
    private = Upstream(*[Success(data=number, delivery=Delivery(lifetime_s=0.0)) for number in range(10)])
    found = await asyncio.gather(*(cache.ask(private) for _ in range(10)))
    assert sorted(one.data for one in found) == list(range(10))


class Crowd:
    """Answers nobody before it is told to, with what may not be shared, and counts who is with it at once."""

    def __init__(self) -> None:
        self.here = self.most = self.asked = 0
        self.open = asyncio.Event()
        self.came = asyncio.Condition()

    async def __call__(self) -> Result:
        self.asked += 1
        self.here += 1
        self.most = max(self.most, self.here)
        async with self.came:
            self.came.notify_all()
        await self.open.wait()
        await asyncio.sleep(0)
        self.here -= 1
        return Success(data=self.asked, delivery=Delivery(lifetime_s=0.0))

    async def holds(self, count: int) -> None:
        """Returns once so many are with it together."""
        async with self.came:
            await self.came.wait_for(lambda: self.here >= count)


@pytest.mark.parametrize(("places", "abreast"), [(100, ABREAST), (3, 3), (1, 1)])
async def test_those_who_waited_for_what_may_not_be_shared_ask_a_few_at_a_time(places: int, abreast: int) -> None:
    cache, upstream = Cache(places=places), Crowd()
    asking = [asyncio.ensure_future(cache.ask(upstream)) for _ in range(200)]
    await upstream.holds(1)
    upstream.open.set()
    found = await asyncio.gather(*asking)
    assert [type(one) for one in found] == [Success] * 200
    assert (upstream.asked, upstream.most) == (200, abreast)
    assert cache.results.flights == {}


async def test_once_an_answer_may_not_be_shared_nobody_waits_for_anothers() -> None:
    cache, upstream = Cache(), Crowd()
    upstream.open.set()
    await cache.ask(upstream)
    upstream.open.clear()
    asking = [asyncio.ensure_future(cache.ask(upstream)) for _ in range(20)]
    await upstream.holds(20)
    upstream.open.set()
    await asyncio.gather(*asking)
    cache.clock.advance(11)  # and then it is tried again
    plain = Upstream()
    await asyncio.gather(*(cache.ask(plain) for _ in range(20)))
    assert plain.asked == 1


async def test_what_one_of_those_who_waited_may_share_the_others_are_given() -> None:
    cache, upstream = Cache(places=1), Upstream(Success(data="mine", delivery=Delivery(lifetime_s=0.0)))
    found = await asyncio.gather(*(cache.ask(upstream) for _ in range(50)))
    assert upstream.asked == 2
    assert [one.data for one in found] == ["mine", *[{"time": 2}] * 49]
    assert [one.delivery.cache for one in found] == ["", "", *["shared"] * 48]


async def test_whoever_is_held_back_by_the_time_of_its_turn_sends_nothing() -> None:
    cache, upstream = Cache(), Crowd()

    async def paused(_: Call) -> Error | None:
        return Error(code="paused", message="m")

    first = asyncio.ensure_future(cache.ask(upstream))
    second = asyncio.ensure_future(cache.ask(upstream, msgspec.structs.replace(CALL, withheld=paused)))
    await upstream.holds(1)
    upstream.open.set()
    found = await asyncio.gather(first, second)
    assert (found[0].data, found[1].error.code, upstream.asked) == (1, "paused", 1)


async def test_whose_turn_does_not_come_is_told_so_and_has_sent_nothing() -> None:
    cache, upstream = Cache(places=1, resilience=0), Crowd()
    asking = [asyncio.ensure_future(cache.ask(upstream)) for _ in range(5)]
    await upstream.holds(1)
    upstream.open.set()
    await asyncio.sleep(0)
    upstream.open.clear()
    done, under_way = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
    while len(done) < 4:
        more, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
        done |= more
    refused = [one.result().error for one in done if isinstance(one.result(), Refused)]
    assert [(error.code, error.rule, error.retry_after_s) for error in refused] == [
        ("upstream_unavailable", "concurrency", 1.0)
    ] * 3
    upstream.open.set()
    await asyncio.gather(*under_way)
    assert upstream.asked == 2


async def test_those_who_wait_for_a_call_that_broke_down_make_it_themselves() -> None:
    cache, upstream = Cache(), Upstream()
    begun = asyncio.Event()

    async def hanging() -> Result:
        begun.set()
        return await asyncio.Event().wait()  # type: ignore[return-value]

    first = asyncio.ensure_future(cache.ask(hanging))
    await begun.wait()
    others = [asyncio.ensure_future(cache.ask(upstream)) for _ in range(3)]
    await asyncio.sleep(0)
    first.cancel()
    found = await asyncio.gather(*others)
    assert [type(one) for one in found] == [Success] * 3
    assert cache.results.flights == {}


def test_room_is_bounded_and_the_least_asked_for_goes_first() -> None:
    clock = FixedClock()
    results = Results(clock, capacity=100_000)

    def kept(size: int) -> StoredAnswer:
        now = clock.monotonic()
        return StoredAnswer(
            body=b"x" * size, next_cursor="", link="", rows=None, made=now, fresh_until=now + 9, stale_until=now + 9
        )

    results.put(b"wanted", kept(1000))
    for number in range(100_000):
        results.put(b"%d" % number, kept(1000))
        assert results.get(b"wanted") is not None
        assert results.size <= 100_000
    assert len(results._kept) <= 100_000 // 1000
    results.put(b"huge", kept(20_000))
    assert results.get(b"huge") is None
    clock.advance(10)
    assert results.get(b"wanted") is None
    for key in list(results._kept):
        results.get(key)
    assert results.size == 0
