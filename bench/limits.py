"""What counting costs: a call's three buckets in memory, and in Redis with 64 calls in flight.

`python -m bench.limits` prints microseconds of this process's CPU per call, medians of several rounds, and ends with 1 above a budget.
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
from toolgen.clock import SystemClock
from toolgen.model.call import Call, Principal
from toolgen.model.verdict import Deny
from toolgen.policy.limits import Charge, Limit, Limits
from toolgen.state.buckets_redis import RedisBuckets
from toolgen.state.rate_limits import MemoryBuckets, Refusal
from toolgen.state.redis_connection import RedisLink, RedisLocation

ROUNDS = 7
MEMORY_BUDGET_US = 2.0
REDIS_BUDGET_US = 20.0
LIMITS = tuple(
    Limit(id=name, per=(name,), per_second=1e9, burst=1_000_000_000) for name in ("principal", "tool", "source")
)
CALL = Call(id="c", tool=PETS.tools["pets__list_pets"], arguments={}, principal=Principal(id="bot"))


def charges() -> tuple[Charge, ...]:
    """What the call takes of the three limits."""
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


async def redis(lanes: int, port: int, rounds: int = ROUNDS, calls: int = 12_800) -> float:
    """Microseconds to take of three buckets in Redis, with so many calls in flight."""
    where = RedisLocation(host="127.0.0.1", port=port, prefix=f"toolgen-bench-{secrets.token_hex(4)}")
    buckets, made, spent = RedisBuckets(RedisLink(where, lambda: ""), SystemClock()), charges(), []

    async def lane() -> None:
        for _ in range(calls // lanes):
            if isinstance(await buckets.acquire(made), Refusal):
                raise SystemExit(f"there is no Redis on 127.0.0.1:{port}")

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
    shared = 0.0
    for lanes in (1, 16, 64):
        shared = uvloop.run(redis(lanes, port, calls=1_280 if lanes == 1 else 12_800))
        print(
            f"Redis, {lanes:2} in flight     {shared:6.1f} us"
            + (f" (budget {REDIS_BUDGET_US:g})" if lanes == 64 else "")
        )
    sys.exit(taken > MEMORY_BUDGET_US or shared > REDIS_BUDGET_US)


if __name__ == "__main__":
    main()
