"""One of several processes that ask one bucket for as much as they can get: `python hammer.py PORT SECONDS RATE BURST`.

Starts at a word on standard input, and prints how many calls passed and between which times.
"""

from __future__ import annotations

import asyncio
import sys
import time

from toolgen.core.clock import SystemClock
from toolgen.policy.limits import Limit, LimitCharge
from toolgen.state.rate_limits import LimitRefusal
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation
from toolgen.state.shared_buckets import SharedBuckets


async def main(port: int, seconds: float, rate: float, burst: int) -> None:
    buckets = SharedBuckets(RedisLink(RedisLocation(host="127.0.0.1", port=port), lambda: ""), SystemClock())
    charges = (
        LimitCharge(Limit(id="one", per_second=rate, burst=burst), ("one",)),
        LimitCharge(Limit(id="wide", per_second=1e6, burst=10**6), ("wide",)),
    )
    await buckets.acquire((LimitCharge(Limit(id="warm", per_second=1, burst=10**6), ("warm",)),))
    print("ready", flush=True)
    sys.stdin.readline()
    began, passed, refused = time.time(), 0, 0
    while time.time() - began < seconds:
        answers = await asyncio.gather(*(buckets.acquire(charges) for _ in range(4)))
        passed += sum(not isinstance(answer, LimitRefusal) for answer in answers)
        refused += sum(isinstance(answer, LimitRefusal) for answer in answers)
        await asyncio.sleep(0.005)
    print(passed, refused, began, time.time(), flush=True)
    await buckets.close()


asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])))
