"""Gain of a second worker: CPU of all processes of a gateway per call, with one worker, with two, and with two and Redis.

`python -m bench.workers` prints it for MCP calls with everything on, and the throughput of two workers on two cores relative to
one worker on one core: a load generator and an upstream need most of a core themselves, so on two cores the calls a second do not show it.
Rounds are interleaved, medians reported. Redis has a separate port, and its CPU is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.calls import MCP, gateway, load, tree_seconds
from tests.redis_server import RedisServer

LANES = (1, 16, 32, 64, 128)
COMPARED = ((16, 16), (64, 64), (16, 32), (64, 128))
"""In flight with one worker, and with two: the same, and the same for each."""


def cost(place: tuple[int, int], lanes: int, calls: int) -> tuple[float, float]:
    """CPU microseconds of a call, and calls a second, of one round."""
    port, pid = place
    calls = max(1, calls // lanes) * lanes
    before, began = tree_seconds(pid), time.perf_counter()
    asyncio.run(load(port, MCP, lanes, calls))
    return (tree_seconds(pid) - before) / calls * 1e6, calls / (time.perf_counter() - began)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=3000)
    options = parser.parse_args()
    measured: dict[tuple[str, int], list[tuple[float, float]]] = {}
    with contextlib.ExitStack() as stack:
        two = (sys.executable, "--workers", "2")
        places = {"one worker": stack.enter_context(gateway()), "two": stack.enter_context(gateway(*two))}
        if shutil.which("redis-server"):
            redis = RedisServer(Path(stack.enter_context(tempfile.TemporaryDirectory())))
            redis.start()
            stack.callback(redis.stop)
            places["two, Redis"] = stack.enter_context(gateway(*two, state=f"redis://127.0.0.1:{redis.port}/0"))
        for port, _ in places.values():
            asyncio.run(load(port, MCP, 16, 400))
        for _ in range(options.rounds):
            for lanes in LANES:
                for name, place in places.items():
                    measured.setdefault((name, lanes), []).append(cost(place, lanes, options.calls))
    print(
        f"CPU us per call of all processes, median of {options.rounds} rounds of {options.calls} calls; calls a second"
    )
    for name in places:
        found = []
        for lanes in LANES:
            cpu, rate = (statistics.median(values) for values in zip(*measured[name, lanes], strict=True))
            found.append(f"c={lanes} {cpu:.0f} ({rate:,.0f}/s)")
        print(f"{name:12}{'   '.join(found)}")
    for name in list(places)[1:]:
        ratios = []
        for alone, together in COMPARED:
            pairs = zip(measured["one worker", alone], measured[name, together], strict=True)
            ratio = statistics.median(2 * one / both for (one, _), (both, _) in pairs)
            ratios.append(f"c={together} beside {alone}: {ratio:.2f}")
        print(f"{name}, on two cores in times of one worker on one: {'   '.join(ratios)}")


if __name__ == "__main__":
    main()
