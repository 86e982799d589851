"""Checks of a cluster run beside the invariants find what they are for: a lost answer while a gateway drains, and a damaged log."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faults.cluster import Stopped, undrained
from tests.faults.services import Indexer
from tests.gateway.governed import project, upstream
from tests.simulation.evidence import Evidence, Operation, Planted, Told
from toolgen.frontends.python.gateway import Gateway

RESTART = Planted(at=20.0, until=25.0, kind="restart", gateway="B")
LOST = Told(began=21.0, at=22.0, operation="op", gateway="", status="fault", text="ReadError")
RULES = [{"id": "all", "to": ["bot"], "tools": ["*"], "verdict": "allow"}]


@pytest.mark.parametrize(
    ("told", "planted", "found"),
    [
        ([LOST], [RESTART], ["op"]),
        ([LOST], [RESTART, Planted(at=100, until=110, kind="kill")], ["op"]),
        ([LOST], [RESTART, Planted(at=5, until=10, kind="cut")], []),  # its consequences may last
        ([LOST], [Planted(at=20, until=25, kind="kill")], []),
        ([Told(began=30, at=31, operation="op", gateway="", status="fault")], [RESTART], []),
        ([Told(began=21, at=22, operation="op", gateway="A", status="ok")], [RESTART], []),
    ],
)
def test_a_call_that_is_lost_while_a_gateway_drains_is_found(
    told: list[Told], planted: list[Planted], found: list[str]
) -> None:
    operations = {"op": Operation(name="op", kind="plain", effect="write", own_s=5.0)}
    evidence = Evidence(operations=operations, told=told, planted=planted, over=100.0)
    assert [one.operation for one in undrained(evidence)] == found


@pytest.mark.parametrize(
    ("stopped", "planted", "found"),
    [
        (Stopped(gateway="B", at=22.0, status=1), [RESTART], ["B"]),
        (Stopped(gateway="B", at=22.0, status=0), [RESTART], []),
        (Stopped(gateway="A", at=22.0, status=1), [RESTART], []),
        (Stopped(gateway="B", at=22.0, status=1), [RESTART, Planted(at=20, until=22, kind="delay")], []),
    ],
)
def test_a_gateway_that_does_not_end_in_order_is_found(
    stopped: Stopped, planted: list[Planted], found: list[str]
) -> None:
    evidence = Evidence(operations={}, told=[], planted=planted, over=100.0)
    assert [one.operation for one in undrained(evidence, [stopped])] == found


async def test_a_log_that_was_changed_is_found(tmp_path: Path) -> None:
    with upstream() as (_, server):
        path = project(tmp_path / "p", server, {"rules": RULES})
        async with Gateway.load(path) as gateway:
            for _ in range(3):
                assert (await gateway.call("orders__get_health", {}, principal="bot")).status == "ok"
    assert await asyncio.to_thread(Indexer(path).stop) == ""
    log = tmp_path / "p" / "var" / "audit" / "gateway-1.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:3], lines[2], *lines[3:]]))  # an entry that is there twice
    assert "toolgen audit verify ended with 1" in await asyncio.to_thread(Indexer(path).stop)
    log.write_bytes(b"".join([*lines[:3], *lines[4:]]))  # an entry that is not there
    assert "toolgen audit verify ended with 1" in await asyncio.to_thread(Indexer(path).stop)
