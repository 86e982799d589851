"""Cluster under load: nothing is found without faults, and nothing in two minutes of them."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.faults.cluster import PROGRAMS, Cluster
from tests.faults.machine import Machine, build_library
from tests.faults.processes import started
from tests.faults.services import program
from tests.simulation.invariants import INVARIANTS, check

pytestmark = pytest.mark.exhaustive


@pytest.fixture(autouse=True)
def _installed() -> None:
    for name in PROGRAMS:
        if program(name) is None:
            pytest.skip(f"{name} is not installed")


def test_a_cluster_without_faults_does_what_it_acknowledges(tmp_path: Path) -> None:
    cluster = Cluster(7, 20, tmp_path, faults=False)
    assert asyncio.run(cluster.run()) == []
    evidence = cluster.evidence
    assert check(evidence, tuple(INVARIANTS)) == []
    assert cluster.rate > 10
    assert {one.gateway for one in evidence.entries} == {"A", "B", "C"}
    assert {one.gateway for one in evidence.told} >= {"A", "B", "C"}
    assert {"ok", "error", "pending"} <= {one.status for one in evidence.told}
    assert all(evidence.chances.values()), evidence.chances


def test_a_cluster_under_faults_for_two_minutes(tmp_path: Path) -> None:
    cluster = Cluster(1, 120, tmp_path)
    found = asyncio.run(cluster.run())
    assert found == [], "\n".join(line for one in found[:3] for line in cluster.story(one.operation)[-40:])
    assert {one.kind for one in cluster.evidence.planted} >= {"kill", "cut", "loss"}
    assert all(cluster.evidence.chances.values()), cluster.evidence.chances


def test_clock_and_disk_of_one_process_are_set_wrong_and_right_again(tmp_path: Path) -> None:
    library = build_library(tmp_path)
    if library is None:
        pytest.skip("a C compiler is not installed")
    machine = Machine(tmp_path / "machine", library)
    code = "import os, time\nbegan = time.monotonic()\nos.fdatasync(1)\nprint(time.time(), time.monotonic() - began)"

    def run() -> tuple[float, float]:
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        assert started([shutil.which("python3") or "python3", "-c", code], log, machine.environment).wait() == 0
        wall, took = log.read_text().split()
        return float(wall), float(took)

    right, _ = run()
    machine.set(clock_step_s=3600, sync_delay_s=0.3)
    wrong, slow = run()
    machine.set()
    again, _ = run()
    assert 3500 < wrong - right < 3700
    assert slow >= 0.3
    assert abs(again - right) < 60
