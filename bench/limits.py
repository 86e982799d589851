"""What counting costs: a call's three buckets in memory, and in Redis with 64 calls in flight.

`python -m bench.limits` prints microseconds of this process's CPU per call, medians of several rounds, and ends with 1 above a budget.
"""

from __future__ import annotations

import statistics
import sys
import time

from tests.catalogs import PETS
from toolgen.clock import SystemClock
from toolgen.model.call import Call, Principal
from toolgen.model.verdict import Deny
from toolgen.policy.limits import Charge, Limit, Limits
from toolgen.state.buckets import MemoryBuckets

ROUNDS = 7
MEMORY_BUDGET_US = 2.0
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


def main() -> None:
    """Prints the figures."""
    taken = memory()
    print(f"memory, three buckets   {taken:6.2f} us (budget {MEMORY_BUDGET_US:g})")
    print(f"what a call takes       {charging():6.2f} us")
    sys.exit(taken > MEMORY_BUDGET_US)


if __name__ == "__main__":
    main()
