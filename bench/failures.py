"""Cost of failure handling for a successful call: `python -m bench.failures`.

Circuit breaker, concurrency limit, retry budget, cached answers and the idempotency stage.
Microseconds of CPU a call, medians of interleaved rounds, around an executor that only answers.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from toolgen.config.tools import CacheFor
from toolgen.connectors.failure_settings import ResilienceConfig
from toolgen.connectors.resilience import ResilientExecutor
from toolgen.core.clock import SystemClock
from toolgen.model.call import Call, Principal
from toolgen.model.result import Delivery, Failed, Refused, Result, Success
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Effect, HttpBinding, Tool, seal
from toolgen.pipeline.middleware import CallContext, CallerConnection
from toolgen.pipeline.response_cache import Caching
from toolgen.pipeline.stages.idempotency import LedgerStage
from toolgen.state.stored_answers import Results

CALLS, ROUNDS = 20_000, 7
ANSWER = Success(data={"id": 1}, delivery=Delivery(attempts=1, status=200))


class Answering:
    """The least an executor can do."""

    async def execute(self, call: Call) -> Success | Failed | Refused:
        return ANSWER

    def preview(self, call: Call) -> JsonObject:
        return {}

    async def close(self) -> None: ...


def call_of(name: str) -> Call:
    binding = HttpBinding(method="GET", path="/", servers=("http://api.test",), parameters=(), body=None, security=())
    tool = Tool(
        name=name,
        title="",
        description="",
        input_schema={"type": "object"},
        output_schema=None,
        effect=Effect.READ,
        idempotent=True,
        source="t",
        origin="",
        binding=binding,
    )
    return Call(id="c", tool=seal(tool), arguments={"id": 1}, principal=Principal(id="p"))


async def measure(ways: dict[str, Callable[[], Awaitable[object]]]) -> dict[str, float]:
    """Microseconds a call by way."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            began = time.process_time()
            for _ in range(CALLS):
                await way()
            found[name].append((time.process_time() - began) / CALLS * 1e6)
    return {name: statistics.median(each) for name, each in found.items()}


async def main() -> None:
    clock, inner = SystemClock(), Answering()
    steady = ResilientExecutor(inner, resilience=ResilienceConfig(), repeatable=lambda call: True)
    caching = Caching(
        tools={"t__kept": CacheFor(ttl_s=3600, stale_s=0)},
        sources={"t": ResilienceConfig().concurrency},
        results=Results(clock),
        clock=clock,
    )
    stage = LedgerStage(ledger=None, clock=clock, secret=lambda: b"", redact=lambda call, result: result)
    plain, kept, call_context = call_of("t__plain"), call_of("t__kept"), CallContext()

    async def send() -> Result:
        return ANSWER

    async def proceed(call: Call, call_context: CallContext) -> Result:
        return ANSWER

    caller_connection = CallerConnection()
    costs = await measure(
        {
            "executor": lambda: inner.execute(plain),
            "steady": lambda: steady.execute(plain),
            "send": send,
            "not kept": lambda: caching(plain, "p", caller_connection, send),
            "hit": lambda: caching(kept, "p", caller_connection, send),
            "proceed": lambda: proceed(plain, call_context),
            "no key": lambda: stage(plain, call_context, proceed),
        }
    )
    print(f"breaker, places and budget, closed: {costs['steady'] - costs['executor']:.2f} us")
    print(f"a tool whose answers are not kept:  {costs['not kept'] - costs['send']:.2f} us")
    print(f"a hit:                              {costs['hit']:.2f} us")
    print(f"the ledger, without a key:          {costs['no key'] - costs['proceed']:.2f} us")


if __name__ == "__main__":
    asyncio.run(main())
