"""Leaks are found: of real processes that hold too much, and of gateways that say that something is still under way."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.faults.leaks import Held, held, leaked_tasks, leaks, tasks, unsettled
from tests.gateway.governed import project, upstream
from toolgen.frontends.python.gateway import Gateway

START = Held(descriptors=50, threads=8, memory=100 << 20)
QUIET = 'toolgen_calls_in_flight{worker="gateway-1"} 0\ntoolgen_upstream_in_flight 0\ntoolgen_audit_waiting 0\n'
WAITS = "\nprint(flush=True)\ninput()"
PROGRAMS = {
    "descriptors": "import os\nkept = [os.pipe() for _ in range(40)]",
    "threads": "import threading\nend = threading.Event()\n"
    "for _ in range(40): threading.Thread(target=end.wait, daemon=True).start()",
    "memory": "kept = bytearray(b'x') * (160 << 20)",
}


def measured(program: str) -> Held:
    """What a process holds that has run a program, and waits."""
    with subprocess.Popen(
        [sys.executable, "-c", program + WAITS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = held(process.pid)
        process.communicate(b"\n")
    return found


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_process_that_leaks_is_found(kind: str) -> None:
    at_start = {1: measured("")}
    assert leaks(at_start, {1: measured("")}) == []
    found = leaks(at_start, {1: measured(""), 2: measured(PROGRAMS[kind])})
    assert [(one.invariant, one.operation) for one in found] == [("leak", "2")]


@pytest.mark.parametrize("more", [{"descriptors": 91}, {"threads": 33}, {"memory": (196 << 20) + 1}])
def test_a_process_may_have_a_margin_and_no_more(more: dict[str, int]) -> None:
    """A worker that was started meanwhile is compared with the largest one of the start."""
    at_start = {1: START, 2: Held(descriptors=1, threads=1, memory=1)}
    at_end = {3: replace(START, **{name: number - 1 for name, number in more.items()})}
    assert leaks(at_start, at_end) == []
    assert [one.operation for one in leaks(at_start, {3: replace(START, **more)})] == ["3"]


async def test_tasks_that_a_gateway_leaks_are_found(tmp_path: Path) -> None:
    """Tasks of a real gateway, whose process is that of the test."""
    with upstream() as (_, server):
        async with Gateway.load(project(tmp_path / "p", server, {"rules": []})) as gateway:
            at_start = tasks((await gateway.operations.measured()).decode())
            assert at_start == [len(asyncio.all_tasks())]
            assert leaked_tasks("A", at_start, (await gateway.operations.measured()).decode()) == []
            async with asyncio.TaskGroup() as group:
                end = asyncio.Event()
                for _ in range(41):
                    group.create_task(end.wait())
                metrics = (await gateway.operations.measured()).decode()
                end.set()
    assert [one.operation for one in leaked_tasks("A", at_start, metrics)] == ["A"]
    assert [one.operation for one in leaked_tasks("A", at_start, QUIET)] == ["A"]


@pytest.mark.parametrize(
    ("metrics", "named"),
    [
        (QUIET, []),
        (QUIET + 'toolgen_calls_in_flight{worker="gateway-2"} 1\n', ["toolgen_calls_in_flight"]),
        (QUIET.replace("upstream_in_flight 0", "upstream_in_flight 2"), ["toolgen_upstream_in_flight"]),
        (QUIET.replace("audit_waiting 0", "audit_waiting 3"), ["toolgen_audit_waiting"]),
        (QUIET.replace("toolgen_audit_waiting 0\n", ""), ["toolgen_audit_waiting"]),
        ("", ["toolgen_calls_in_flight", "toolgen_upstream_in_flight", "toolgen_audit_waiting"]),
    ],
)
def test_a_gateway_that_has_not_settled_is_found(metrics: str, named: list[str]) -> None:
    assert [one.text.partition(" ")[0] for one in unsettled("A", metrics)] == named
