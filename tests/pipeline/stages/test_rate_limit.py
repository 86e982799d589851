"""The stage that counts: what it refuses never goes further, and places in flight come back however a call ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.catalogs import PETS
from toolgen.core.clock import FixedClock
from toolgen.model.call import Call, GraphQLDocument, Principal
from toolgen.model.result import Delivery, Error, Failed, Refused, Result, Success
from toolgen.model.tool import Tool, absent
from toolgen.pipeline.middleware import CallContext, Next
from toolgen.pipeline.stages.rate_limit import LimitStage, MeterStage
from toolgen.policy.limits import Limit, Limits
from toolgen.state.rate_limits import MAX_DURATION_S, MemoryBuckets, Upstreams

CALL = Call(id="c", tool=PETS.tools["pets__list_pets"], arguments={}, principal=Principal(id="bot"))


def stage(*limits: Limit) -> LimitStage:
    clock = FixedClock()
    return LimitStage(limits=Limits(limits, clock), buckets=MemoryBuckets(clock))


async def fine(call: Call, call_context: CallContext) -> Result:
    return Success(data=1)


async def never(call: Call, call_context: CallContext) -> Result:
    raise AssertionError("it went further")


async def breaks(call: Call, call_context: CallContext) -> Result:
    raise RuntimeError


class Waiting:
    """Next stage that waits until it is told to end."""

    def __init__(self) -> None:
        self.ending = asyncio.Event()

    async def __call__(self, call: Call, call_context: CallContext) -> Result:
        await self.ending.wait()
        return Success(data=1)


class Answering:
    """Next stage whose upstream system tells what it still takes."""

    def __init__(self, error: str = "", **rates: float) -> None:
        self.error, self.delivery = error, Delivery(rates=rates)

    async def __call__(self, call: Call, call_context: CallContext) -> Result:
        if self.error:
            return Failed(error=Error(code="upstream_error", message=self.error), delivery=self.delivery)
        return Success(data=1, delivery=self.delivery)


ONE = Limit(id="one", per=("principal",), concurrency=1)


async def test_a_second_call_in_flight_is_refused_and_one_after_it_passes() -> None:
    limiting, slow = stage(ONE), Waiting()
    first = asyncio.create_task(limiting(CALL, CallContext(), slow))
    await asyncio.sleep(0)
    refused = await limiting(CALL, CallContext(), never)
    assert isinstance(refused, Refused)
    assert (refused.error.code, refused.error.rule, refused.error.retry_after_s) == ("rate_limited", "one", 1.0)
    slow.ending.set()
    assert await first == Success(data=1)
    assert await limiting(CALL, CallContext(), fine) == Success(data=1)


async def test_names_that_no_tool_has_take_nothing_from_a_bucket_that_they_cost_nothing_of() -> None:
    money = Limit(id="money", per_second=0.001, burst=10, cost=((CALL.tool.name, 10), ("*", 0)))
    limiting = stage(money)
    for name in ["pets__list_pet", CALL.tool.name, "x", *(f"n{number}" for number in range(20))]:
        assert await limiting(replace(CALL, tool=absent(name)), CallContext(), fine) == Success(data=1)
    assert await limiting(CALL, CallContext(), fine) == Success(data=1)
    assert isinstance(await limiting(CALL, CallContext(), never), Refused)


async def test_a_place_comes_back_from_a_call_that_breaks_or_is_cancelled() -> None:
    limiting = stage(ONE)
    with pytest.raises(RuntimeError):
        await limiting(CALL, CallContext(), breaks)
    task = asyncio.create_task(limiting(CALL, CallContext(), Waiting()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await limiting(CALL, CallContext(), fine) == Success(data=1)


async def test_a_refusal_names_the_limit_and_the_wait() -> None:
    limiting = stage(Limit(id="few", per_second=0.5, burst=1))
    assert await limiting(CALL, CallContext(), fine) == Success(data=1)
    refused = await limiting(CALL, CallContext(), never)
    assert isinstance(refused, Refused)
    assert (refused.error.code, refused.error.rule, refused.error.retry_after_s) == ("rate_limited", "few", 2.0)


async def test_a_cost_above_the_burst_is_no_matter_of_waiting() -> None:
    limiting = stage(Limit(id="few", per_second=1, burst=1, cost=(("pets__*", 2),)))
    assert isinstance(await limiting(CALL, CallContext(), never), Refused)


def document(*roots: tuple[Tool, dict[str, Any]]) -> Call:
    """A call that carries a document of these root fields."""
    tools = tuple(tool for tool, _ in roots)
    made = GraphQLDocument(query="{ a }", variables={}, operation_name=None, tools=tools, cost=1, roots=roots)
    return Call(id="c", tool=PETS.tools["pets__create_pet"], arguments={}, principal=CALL.principal, document=made)


async def test_what_a_document_asks_for_counts_as_the_calls_that_it_is_made_of() -> None:
    """With aliases the same field counts as often as it is asked for; what the document itself was charged is not charged again."""
    clock = FixedClock()
    per_tool = Limit(id="gets", per=("tool",), per_second=0.001, burst=5, cost=(("pets__create_pet", 0),))
    everything = Limit(id="all", per=("principal",), per_second=0.001, burst=9)
    limits, buckets = Limits([per_tool, everything], clock), MemoryBuckets(clock)
    limiting = LimitStage(limits=limits, buckets=buckets)
    meter = MeterStage(limits=limits, buckets=buckets, upstreams=Upstreams(clock))

    def send(call: Call, further: Next) -> Awaitable[Result]:
        return limiting(call, CallContext(), lambda call, call_context: meter(call, call_context, further))

    get, listed = PETS.tools["pets__get_pet"], PETS.tools["pets__list_pets"]
    assert await send(document((get, {}), (get, {}), (get, {})), fine) == Success(data=1)
    refused = await send(document((listed, {}), (get, {}), (get, {}), (get, {})), never)
    assert isinstance(refused, Refused)
    assert refused.error.rule == "gets"
    assert await send(document((get, {}), (get, {}), (listed, {})), fine) == Success(data=1)
    refused = await send(document((listed, {}), (listed, {}), (listed, {})), never)
    assert isinstance(refused, Refused)
    assert refused.error.rule == "all"
    refused = await send(document(*[(listed, {})] * 6), never)
    assert isinstance(refused, Refused)
    assert refused.error.code == "forbidden"


async def test_the_places_of_inner_calls_come_back() -> None:
    clock = FixedClock()
    limits, buckets = Limits([Limit(id="one", per=("tool",), concurrency=1)], clock), MemoryBuckets(clock)
    meter = MeterStage(limits=limits, buckets=buckets, upstreams=Upstreams(clock))
    carrying = document((CALL.tool, {}), (CALL.tool, {}))

    waiting = Waiting()
    task = asyncio.create_task(meter(carrying, CallContext(), waiting))
    await asyncio.sleep(0)
    assert buckets._flying == {("one", CALL.tool.name): 1}
    waiting.ending.set()
    await task
    assert buckets._flying == {}
    with pytest.raises(RuntimeError):
        await meter(carrying, CallContext(), breaks)
    assert buckets._flying == {}


async def test_what_a_system_says_of_its_limits_is_heeded_before_it_refuses() -> None:
    clock = FixedClock()
    upstreams = Upstreams(clock)
    meter = MeterStage(limits=Limits([], clock), buckets=MemoryBuckets(clock), upstreams=upstreams)

    assert isinstance(await meter(CALL, CallContext(), Answering(remaining=1, reset_s=10.0)), Success)
    assert isinstance(await meter(CALL, CallContext(), fine), Success)
    refused = await meter(CALL, CallContext(), never)
    assert isinstance(refused, Refused)
    assert (refused.error.code, refused.error.rule, refused.error.retry_after_s) == (
        "rate_limited",
        "upstream:pets",
        10.0,
    )
    other = Call(id="c", tool=PETS.tools["shop__query"], arguments={}, principal=CALL.principal)
    assert await meter(other, CallContext(), fine) == Success(data=1)
    clock.advance(10)
    assert await meter(CALL, CallContext(), fine) == Success(data=1)
    await meter(CALL, CallContext(), Answering(error="429", retry_after_s=1e12))
    refused = await meter(CALL, CallContext(), never)
    assert isinstance(refused, Refused)
    assert refused.error.retry_after_s == MAX_DURATION_S
