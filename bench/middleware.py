"""Cost of a middleware: CPU of one more, before and after a call, measured at the stage that runs them.

`before` and `after` are coroutines that answer None; in the last rows one narrows an argument, so that every guard runs again, and one is
a plain function, which runs in a thread.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Sequence

from toolgen.connectors.functions.runtime import FunctionRuntime
from toolgen.gateway.policies.middleware import objects_of
from toolgen.model.call import Call, Principal
from toolgen.model.middleware import CallView, Middleware, Narrow, ResultView
from toolgen.model.result import Result, Success
from toolgen.model.tool import Effect, NoBinding, Tool, seal
from toolgen.pipeline.middleware import CallContext
from toolgen.pipeline.stages.guards import ArgumentsStage
from toolgen.pipeline.stages.middleware import MiddlewareStage

LIMIT_US = 5.0
TOOL = seal(
    Tool(
        name="bench__list",
        title="List",
        description="Lists.",
        input_schema={"type": "object", "properties": {"limit": {"type": "integer"}, "city": {"type": "string"}}},
        output_schema=None,
        effect=Effect.READ,
        idempotent=True,
        source="bench",
        origin="#/bench",
        binding=NoBinding(),
    )
)
CALL = Call(
    id="call_0",
    tool=TOOL,
    arguments={"limit": 10, "city": "Lyon"},
    principal=Principal(id="bot", roles=frozenset({"support"}), attributes={"tenant": "acme"}),
    session="s",
)
ANSWER = Success(data={"rows": [1, 2, 3]})


class Idle(Middleware):
    """Looks, and lets everything on."""

    async def before(self, call: CallView) -> None:
        return None

    async def after(self, call: CallView, result: ResultView) -> None:
        return None


class Lower(Middleware):
    async def before(self, call: CallView) -> Narrow:
        return Narrow(arguments={"limit": 5})


class Plain(Middleware):
    def before(self, call: CallView) -> None:
        return None


async def delivered(_call: Call, _call_context: CallContext) -> Result:
    return ANSWER


async def labelled(_call: Call, _labels: Sequence[str]) -> None: ...


async def measured(given: Sequence[object], runtime: FunctionRuntime, calls: int) -> float:
    """CPU microseconds a call through the stage."""
    stage = MiddlewareStage(
        hooks=objects_of(given),
        again=(ArgumentsStage(),),
        shown=lambda call: call.arguments,
        recorded=lambda call: call.arguments,
        label=labelled,
        apart=runtime.apart,
    )
    began = time.process_time()
    for _ in range(calls):
        await stage(CALL, CallContext(), delivered)
    return (time.process_time() - began) / calls * 1e6


async def main(calls: int, rounds: int) -> float:
    """Prints, and returns what one more idle one costs."""
    runtime = FunctionRuntime()
    ways: dict[str, list[object]] = {
        "none": [],
        "1 idle": [Idle()],
        "5 idle": [Idle() for _ in range(5)],
        "1 that narrows": [Lower()],
        "1 plain, in a thread": [Plain()],
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, given in ways.items():
            taken[name].append(await measured(given, runtime, calls))
    print(f"CPU us per call: median (least) of {rounds} rounds of {calls} calls")
    for name, found in taken.items():
        print(f"  {name:<22} {statistics.median(found):7.2f} ({min(found):.2f})")
    each = (min(taken["5 idle"]) - min(taken["1 idle"])) / 4
    print(f"one more, before and after: {each:.2f} us (at most {LIMIT_US:g})")
    await runtime.close()
    return each


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    raise SystemExit(asyncio.run(main(asked.calls, asked.rounds)) > LIMIT_US)
