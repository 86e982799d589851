"""Cost of counting: the three buckets of a call in memory, in the supervisor process, and in Redis.

`python -m bench.limits` prints microseconds of CPU per call, medians of several rounds, and exits with 1 above a budget. The figure of the
supervisor includes both processes, that of Redis only this one.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import statistics
import sys
import time

import uvloop

from tests.catalogs import PETS
from toolgen.core.clock import SystemClock
from toolgen.model.call import Call, Principal
from toolgen.model.verdict import Deny
from toolgen.policy.limits import Limit, LimitCharge, Limits
from toolgen.state.count_connection import Link
from toolgen.state.rate_limits import LimitRefusal, MemoryBuckets
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation
from toolgen.state.shared_buckets import SharedBuckets
from toolgen.state.shared_counts import CountClient, CountServer

ROUNDS = 7
MEMORY_BUDGET_US = 2.0
REDIS_BUDGET_US = 20.0
LIMITS = tuple(
    Limit(id=name, per=(name,), per_second=1e9, burst=1_000_000_000) for name in ("principal", "tool", "source")
)
CALL = Call(id="c", tool=PETS.tools["pets__list_pets"], arguments={}, principal=Principal(id="bot"))


def charges() -> tuple[LimitCharge, ...]:
    """Charges of the call on the three limits."""
    made = Limits(LIMITS, SystemClock()).charges(CALL)
    assert not isinstance(made, Deny)
    return made


def memory(rounds: int = ROUNDS, takes: int = 100_000) -> float:
    """Microseconds to take of three buckets in memory."""
    buckets, made, spent = MemoryBuckets(SystemClock()), charges(), []
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(takes):
            buckets.take(made)
        spent.append((time.process_time() - began) / takes * 1e6)
    return statistics.median(spent)


def charging(rounds: int = ROUNDS, calls: int = 100_000) -> float:
    """Microseconds to work out what a call takes."""
    limits, spent = Limits(LIMITS, SystemClock()), []
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(calls):
            limits.charges(CALL)
        spent.append((time.process_time() - began) / calls * 1e6)
    return statistics.median(spent)


async def redis(lanes: int, port: int) -> float:
    """Microseconds to take of three buckets in Redis, with so many calls in flight."""
    where = RedisLocation(host="127.0.0.1", port=port, prefix=f"toolgen-bench-{secrets.token_hex(4)}")
    return await shared(RedisLink(where, lambda: ""), lanes)


async def above(lanes: int) -> float:
    """CPU if the supervisor process counts; its part runs in this process too."""
    server = CountServer(SystemClock())
    link = CountClient((await server.connect()).detach())
    try:
        return await shared(link, lanes)
    finally:
        link.end()
        await server.close()


async def shared(link: Link, lanes: int, rounds: int = ROUNDS) -> float:
    """Microseconds to take of three buckets at the other end of a link."""
    buckets, made, spent = SharedBuckets(link, SystemClock()), charges(), []
    calls = 1_280 if lanes == 1 else 12_800

    async def lane() -> None:
        for _ in range(calls // lanes):
            if isinstance(await buckets.acquire(made), LimitRefusal):
                raise SystemExit(f"{link.place} is not there")

    for _ in range(rounds):
        began = time.process_time()
        await asyncio.gather(*(lane() for _ in range(lanes)))
        spent.append((time.process_time() - began) / (calls // lanes * lanes) * 1e6)
    await buckets.close()
    return statistics.median(spent)


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--redis-port", type=int, default=6379)
    port = parser.parse_args().redis_port
    taken = memory()
    print(f"memory, three buckets   {taken:6.2f} us (budget {MEMORY_BUDGET_US:g})")
    print(f"what a call takes       {charging():6.2f} us")
    for lanes in (1, 16, 64):
        print(f"above, {lanes:2} in flight     {uvloop.run(above(lanes)):6.1f} us")
    counted = 0.0
    for lanes in (1, 16, 64):
        counted = uvloop.run(redis(lanes, port))
        print(
            f"Redis, {lanes:2} in flight     {counted:6.1f} us"
            + (f" (budget {REDIS_BUDGET_US:g})" if lanes == 64 else "")
        )
    sys.exit(taken > MEMORY_BUDGET_US or counted > REDIS_BUDGET_US)


if __name__ == "__main__":
    main()
