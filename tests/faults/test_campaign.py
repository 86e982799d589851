"""The fault campaign itself: real processes without a fault give no anomaly, and evidence of every kind."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from random import Random

import pytest

from tests.faults.campaign import Campaign, request_of
from tests.simulation.invariants import INVARIANTS, check


@pytest.mark.exhaustive
def test_a_campaign_without_faults_finds_nothing_and_sees_everything(tmp_path: Path) -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    campaign = Campaign(7, 15, tmp_path, faults=False)
    assert asyncio.run(campaign.run()) == []
    evidence = campaign.evidence
    assert check(evidence, tuple(INVARIANTS)) == []
    assert len(evidence.operations) > 20
    assert {one.event for one in evidence.entries} >= {"intent", "outcome", "decision"}
    assert {one.gateway for one in evidence.entries} == {"A", "B"}
    assert {one.gateway for one in evidence.received} == {"A", "B"}
    assert {"ok", "pending"} <= {one.status for one in evidence.told}
    assert campaign.story(next(one.operation for one in evidence.received))


def test_operations_of_a_seed_are_the_same_and_of_every_kind() -> None:
    made = [request_of(Random(f"1 {number}"), number) for number in range(200)]
    assert made == [request_of(Random(f"1 {number}"), number) for number in range(200)]
    assert {one.kind for one in made} == {"ask", "left", "keyed", "plain"}
    assert {one.upstream for one in made} == {"ok", "error", "hang"}
    assert {one.answer for one in made} == {"approve", "deny", "none"}
