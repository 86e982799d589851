"""The stage that counts: what it refuses never goes further, and places in flight come back however a call ends."""

from __future__ import annotations

import asyncio

import pytest

from tests.catalogs import PETS
from toolgen.clock import FixedClock
from toolgen.model.call import Call, Principal
from toolgen.model.result import Refused, Result, Success
from toolgen.pipeline.chain import Trail
from toolgen.pipeline.limiting import LimitStage
from toolgen.policy.limits import Limit, Limits
from toolgen.state.buckets import MemoryBuckets

CALL = Call(id="c", tool=PETS.tools["pets__list_pets"], arguments={}, principal=Principal(id="bot"))


def stage(*limits: Limit) -> LimitStage:
    clock = FixedClock()
    return LimitStage(limits=Limits(limits, clock), buckets=MemoryBuckets(clock))


async def fine(call: Call, trail: Trail) -> Result:
    return Success(data=1)


async def never(call: Call, trail: Trail) -> Result:
    raise AssertionError("it went further")


ONE = Limit(id="one", per=("principal",), concurrency=1)


def test_a_second_call_in_flight_is_refused_and_one_after_it_passes() -> None:
    async def main() -> None:
        limiting, ending = stage(ONE), asyncio.Event()

        async def slow(call: Call, trail: Trail) -> Result:
            await ending.wait()
            return Success(data=1)

        first = asyncio.create_task(limiting(CALL, Trail(), slow))
        await asyncio.sleep(0)
        refused = await limiting(CALL, Trail(), never)
        assert isinstance(refused, Refused)
        assert (refused.error.code, refused.error.rule, refused.error.retry_after_s) == ("rate_limited", "one", 1.0)
        ending.set()
        assert await first == Success(data=1)
        assert await limiting(CALL, Trail(), fine) == Success(data=1)

    asyncio.run(main())


def test_a_place_comes_back_from_a_call_that_breaks_or_is_cancelled() -> None:
    async def main() -> None:
        limiting = stage(ONE)

        async def breaks(call: Call, trail: Trail) -> Result:
            raise RuntimeError

        async def hangs(call: Call, trail: Trail) -> Result:
            await asyncio.Event().wait()
            raise AssertionError

        with pytest.raises(RuntimeError):
            await limiting(CALL, Trail(), breaks)
        task = asyncio.create_task(limiting(CALL, Trail(), hangs))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await limiting(CALL, Trail(), fine) == Success(data=1)

    asyncio.run(main())


def test_a_refusal_names_the_limit_and_the_wait() -> None:
    async def main() -> None:
        limiting = stage(Limit(id="few", per_second=0.5, burst=1))
        assert await limiting(CALL, Trail(), fine) == Success(data=1)
        refused = await limiting(CALL, Trail(), never)
        assert isinstance(refused, Refused)
        assert (refused.error.code, refused.error.rule, refused.error.retry_after_s) == ("rate_limited", "few", 2.0)

    asyncio.run(main())


def test_a_cost_above_the_burst_is_no_matter_of_waiting() -> None:
    async def main() -> None:
        limiting = stage(Limit(id="few", per_second=1, burst=1, cost=(("pets__*", 2),)))
        assert isinstance(await limiting(CALL, Trail(), never), Refused)

    asyncio.run(main())
