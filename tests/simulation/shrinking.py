"""Shortens a schedule that breaks an invariant, and shows it: seed, faults, requests, anomalies and everything that happened."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from msgspec.structs import replace

from tests.simulation.invariants import Anomaly, check
from tests.simulation.plan import Plan, plan_of
from tests.simulation.world import Run, run

__all__ = ["anomalies_of", "report", "shrunk"]

T = TypeVar("T")
_MOST_RUNS = 120


def anomalies_of(seed: int) -> list[Anomaly]:
    """Anomalies of the schedule of a seed."""
    return check(run(plan_of(seed)).evidence)


def shrunk(plan: Plan, broken: Collection[str]) -> tuple[Plan, Run]:
    """A schedule with as few faults and requests as can be found by leaving some out that breaks one of these invariants still."""
    best, left = (plan, run(plan)), _MOST_RUNS

    def breaks(changed: Plan) -> bool:
        nonlocal best, left
        if left <= 0:
            return False
        left -= 1
        made = run(changed)
        if not any(one.invariant in broken for one in check(made.evidence)):
            return False
        best = (changed, made)
        return True

    _fewer(plan.faults, lambda faults: breaks(replace(best[0], faults=faults)))
    _fewer(plan.requests, lambda requests: breaks(replace(best[0], requests=requests)))
    _fewer(best[0].faults, lambda faults: breaks(replace(best[0], faults=faults)))
    return best


def _fewer(items: Sequence[T], breaks: Callable[[tuple[T, ...]], bool]) -> None:
    """Leaves out parts, half of all at first and one at last, for as long as the rest still breaks."""
    kept, size = tuple(items), max(1, len(items) // 2)
    while kept:
        start, left_out = 0, False
        while start < len(kept):
            rest = kept[:start] + kept[start + size :]
            if breaks(rest):
                kept, left_out = rest, True
            else:
                start += size
        if size == 1 and not left_out:
            break
        size = max(1, size // 2)


def report(seed: int) -> str:
    """What a schedule breaks, as short as it can be made."""
    plan = plan_of(seed)
    found = check(run(plan).evidence)
    if not found:
        return f"seed {seed}: no anomaly"
    short, made = shrunk(plan, {found[0].invariant})
    lines = [
        f"seed {seed}: {len(found)} anomalies, the first: {found[0]}",
        "",
        "shortened to:",
        f"  workers {short.workers}",
    ]
    lines += [f"  {one}" for one in (*short.faults, *short.requests)]
    lines += ["", "which breaks:", *(f"  {one}" for one in check(made.evidence)), "", *made.trace]
    return "\n".join(lines)
