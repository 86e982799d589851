"""What it costs that functions do not run on the gateway's loop: CPU of the process per call, hop included, with 1, 16 and 64 in flight.

Held against what is cheapest and holds up everybody: a coroutine awaited where the gateway itself runs, and asyncio's own pool of threads.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

import uvloop

from toolgen.execute.function_threads import FunctionLoop, FunctionThreads, Shares, Watch

CALLS = 5_000
ROUNDS = 5
PLENTY = Shares(all=64, each=64)


def plain() -> int:
    return 1


async def coroutine() -> int:
    return 1


async def measured(call: Callable[[], Awaitable[int]], lanes: int) -> float:
    """CPU microseconds a call."""

    async def lane() -> None:
        for _ in range(CALLS // lanes):
            await call()

    began = time.process_time()
    await asyncio.gather(*(lane() for _ in range(lanes)))
    return (time.process_time() - began) / CALLS * 1e6


async def main() -> None:
    own, threads = FunctionLoop(Watch(), lambda: None), FunctionThreads(PLENTY)
    ways: dict[str, Callable[[], Awaitable[int]]] = {
        "async, on the gateway's loop": coroutine,
        "async, on a loop of its own": lambda: own.run("ann", "f", coroutine),
        "in a thread of asyncio's": lambda: asyncio.to_thread(plain),
        "in a thread of ours": lambda: threads.run("ann", "f", plain),
    }
    for lanes in (1, 16, 64):
        print(f"{lanes} in flight, CPU us per call: median (least) of {ROUNDS} rounds")
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, call in ways.items():
                taken[name].append(await measured(call, lanes))
        for name, found in taken.items():
            print(f"  {name:<30} {statistics.median(found):7.1f} ({min(found):.1f})")
    threads.close()
    await own.close()


if __name__ == "__main__":
    uvloop.run(main())
