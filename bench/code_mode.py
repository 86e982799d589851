"""Start time of code mode: a whole call of `run_code` through a gateway, without and with a call of a tool.

    python -m bench.code_mode [--calls 200]

Each run has a separate process. The bound is 20 ms; the exit status is 1 if the median is above it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.gateway.sandboxes import RUN, sandbox
from tests.gateway.workflows import serving
from toolgen.frontends.python.gateway import Gateway

MOST_MS = 20.0


async def measured(run: Callable[[], Awaitable[Any]], calls: int) -> list[float]:
    """Milliseconds of each of so many runs, after one that is not counted."""
    await run()
    took = []
    for _ in range(calls):
        began = time.perf_counter()
        await run()
        took.append((time.perf_counter() - began) * 1000)
    return sorted(took)


async def main(calls: int, server: str) -> float:
    """Prints the figures; the median of a whole call."""
    with tempfile.TemporaryDirectory() as folder:
        async with Gateway.load(sandbox(Path(folder), server, {"calls": 1000})) as gateway:

            async def code(text: str) -> None:
                envelope = await gateway.call(RUN, {"code": text}, principal="bot")
                assert envelope.status == "ok", envelope

            rows = {
                "run_code, whole call": await measured(lambda: code("1"), calls),
                "with one call of a tool": await measured(lambda: code("await notes__get_issue(id=1)"), calls),
            }
    for name, took in rows.items():
        print(f"{name:28} median {statistics.median(took):6.2f} ms   p95 {took[int(len(took) * 0.95)]:6.2f} ms")
    return statistics.median(rows["run_code, whole call"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=200)
    with serving() as (_, url):
        median = asyncio.run(main(parser.parse_args().calls, url))
    sys.exit(0 if median <= MOST_MS else 1)
