"""Cost of running functions off the gateway's event loop: CPU of the process per call, thread switch included, with 1, 16 and 64 in flight.

Compared with a coroutine on the gateway's own loop, which is cheapest but blocks other calls, and with the thread pool of asyncio.
Then empty functions, called as by the pipeline (with arguments, context, folder and answer), at most 60 us each.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from toolgen.connectors.functions.event_loop import FunctionLoop
from toolgen.connectors.functions.executor import FunctionExecutor
from toolgen.connectors.functions.runtime import FunctionRuntime
from toolgen.connectors.functions.threads import FunctionThreads, LoopWatch, Shares
from toolgen.generator.build import build
from toolgen.model.call import Call, Principal
from toolgen.model.result import Success

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


MODULE = """
import toolgen

@toolgen.tool(effect="read")
async def nothing(n: int) -> int:
    return n

@toolgen.tool(effect="read")
def nothing_in_a_thread(n: int) -> int:
    return n

@toolgen.tool(effect="read")
async def nothing_with_context(n: int, ctx: toolgen.ToolContext) -> int:
    return n
"""
GOAL_US = 60


def written(folder: str) -> None:
    """The module of functions that do nothing."""
    Path(folder, "bench_functions_module.py").write_text(MODULE, encoding="utf-8")


async def executed() -> None:
    """CPU microseconds that the executor takes for a function that does nothing: all that is not policy and record."""
    with tempfile.TemporaryDirectory() as folder:
        written(folder)
        manifest = build({"own": {"python": "bench_functions_module"}}, root=folder)
        runtime = FunctionRuntime()
        executor = FunctionExecutor("bench_functions_module", folder, runtime)
        for tool in manifest.tools.values():
            call = Call(id="call_1", tool=tool, arguments={"n": 1}, principal=Principal(id="ann"))

            async def once(call: Call = call) -> int:
                result = await executor.execute(call)
                assert isinstance(result, Success), result
                return 1

            found = [await measured(once, 1) for _ in range(ROUNDS)]
            print(f"  {tool.name:<30} {statistics.median(found):7.1f} ({min(found):.1f}); goal {GOAL_US}")
        await runtime.close()


async def main() -> None:
    print(f"a function that does nothing, as the pipeline calls it, CPU us per call: median (least) of {ROUNDS} rounds")
    await executed()
    own, threads = FunctionLoop(LoopWatch(), lambda: None), FunctionThreads(PLENTY)
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
