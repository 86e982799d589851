"""Calls of two gateways under seeded faults, in a simulation: docs/internals/testing.md says how to run one schedule again."""

from __future__ import annotations

import gc
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.exhaustive import size
from tests.simulation import invariants
from tests.simulation.evidence import Evidence
from tests.simulation.plan import plan_of
from tests.simulation.shrinking import anomalies_of, report, shrunk
from tests.simulation.world import run

_FIRST = int(os.environ.get("TOOLGEN_SIMULATION_SEED") or 0)
_SCHEDULES = size("TOOLGEN_SIMULATION", 150, 10_000)
_IN_ONE_PROCESS = 300


def _anomalous(seed: int) -> bool:
    if seed % 20 == 0:
        gc.collect()  # tests run without the garbage collector
    return bool(anomalies_of(seed))


@pytest.mark.sweep
def test_every_call_ends_once_and_as_its_caller_is_told_whatever_is_lost_set_back_or_slow() -> None:
    seeds = range(_FIRST, _FIRST + _SCHEDULES)
    if _SCHEDULES <= _IN_ONE_PROCESS:
        broken = [seed for seed in seeds if _anomalous(seed)]
    else:
        spawn = multiprocessing.get_context("spawn")  # where there is garbage collection
        with ProcessPoolExecutor(mp_context=spawn) as processes:
            found = processes.map(anomalies_of, seeds, chunksize=50)
            broken = [seed for seed, anomalies in zip(seeds, found, strict=True) if anomalies]
    assert not broken, f"{len(broken)} of {_SCHEDULES} schedules, seeds {broken[:40]}\n{report(broken[0])}"


@pytest.mark.parametrize(
    "seed",
    [
        200168,
        200187,
        200643,
        200718,
        201367,
        201719,
        201882,
        201995,
        202314,
        202598,
        202755,
        202826,
        204128,
        206652,
        206813,
        291,
        832,
        2078,
        2803,
        302588,
        302848,
        306500,
        307719,
        5246,
        5759,
        9896,
        1380,
    ],
)
def test_a_schedule_that_broke_an_invariant_before_does_not(seed: int) -> None:
    assert anomalies_of(seed) == []


def test_a_seed_gives_the_same_schedule_and_the_same_run() -> None:
    for seed in (16, 34):
        assert plan_of(seed) == plan_of(seed)
        first, again = run(plan_of(seed)), run(plan_of(seed))
        assert first.trace == again.trace
        assert first.evidence == again.evidence
        assert len(first.evidence.told) > 10


def test_schedules_reach_what_they_are_for() -> None:
    """A simulation in which nothing happens would break no invariant either."""
    runs = [run(plan_of(seed)) for seed in range(40)]
    told = {(one.asked, one.status) for made in runs for one in made.evidence.told}
    assert told >= {
        ("call", "ok"),
        ("call", "pending"),
        ("poll", "ok"),
        ("poll", "pending"),
        ("poll", "refused"),
        ("call", "fault"),
    }
    codes = {one.code for made in runs for one in made.evidence.told}
    assert codes >= {
        "approval_required",
        "deferred",
        "expired",
        "approval_denied",
        "cancelled",
        "outcome_unknown",
        "rate_limited",
    }
    faults = {one.kind for seed in range(40) for one in plan_of(seed).faults}
    assert faults >= {"kill", "restart", "stop", "cut", "away", "flush", "restore", "delay", "junk", "old_call"}
    assert {one.gateway for made in runs for one in made.evidence.received} == {"A", "B"}


def test_a_schedule_is_shortened_to_what_breaks_an_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    """An invariant that nothing could keep: no call is answered by a person."""

    def unanswered(evidence: Evidence) -> invariants.Found:
        for entry in evidence.entries:
            if entry.verdict == "approve":
                yield invariants.Anomaly(invariant="unanswered", operation=entry.call_id, text="answered")

    monkeypatch.setattr(invariants, "INVARIANTS", {"unanswered": unanswered})
    seed = next(seed for seed in range(20) if anomalies_of(seed))
    plan, made = shrunk(plan_of(seed), {"unanswered"})
    assert (len(plan.requests), plan.faults) == (1, ())
    assert [one.verdict for one in made.evidence.entries if one.verdict == "approve"] == ["approve"]
