"""Runs schedules and reports what they break: `python -m tests.simulation FIRST [COUNT]`; one alone is shortened and shown whole."""

from __future__ import annotations

import sys
import time
from collections import Counter

from tests.simulation.shrinking import anomalies_of, report


def main(first: int, count: int) -> int:
    """Exit status: 1 if an invariant was broken."""
    if count == 1:
        text = report(first)
        print(text)
        return int(not text.endswith("no anomaly"))
    broken, seeds, began = Counter[str](), [], time.process_time()
    for seed in range(first, first + count):
        found = anomalies_of(seed)
        broken.update({one.invariant for one in found})
        if found:
            seeds.append(seed)
            print(f"seed {seed}: {found[0]}", flush=True)
    seconds = time.process_time() - began
    print(
        f"{count} schedules, {len(seeds)} of them broke an invariant {dict(broken)}, {seconds / count:.3f} CPU s each"
    )
    return int(bool(seeds))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1))
