"""Retention: old segments go, signed for and recorded, and what is left still verifies."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.audit.logs import PLAIN, add, in_segments, looked_after, names, with_key, write
from toolgen.audit.checkpoint import removal_path
from toolgen.audit.config import AuditPlan
from toolgen.audit.inclusion_proof import prove, verify_proof
from toolgen.audit.keys import public_keys
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify
from toolgen.core.clock import FixedClock

ACTIVE = "gateway-1.jsonl"


def look_after(directory: Path, plan: AuditPlan, clock: FixedClock) -> tuple[str, ...]:
    """One call, and one round of maintenance behind it; returns what it complains about."""

    async def scenario() -> tuple[str, ...]:
        log = await looked_after(directory, plan, clock)
        await add(log, 1000, 1000)
        await asyncio.to_thread(log._maintenance.tick)
        warnings = log.warnings()
        await log.close()
        return warnings

    return asyncio.run(scenario())


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize(("keep", "left"), [({"keep_s": 45.0}, 2), ({"keep_bytes": 1}, 1)])
def test_old_segments_go_and_what_is_left_verifies(
    tmp_path: Path, compress: bool, keep: dict[str, float], left: int
) -> None:
    clock = FixedClock()
    with_key(tmp_path)
    plan = replace(PLAIN, compress=compress)
    in_segments(tmp_path, segments=4, calls=5, plan=plan, clock=clock)
    assert look_after(tmp_path, replace(plan, **keep), clock) == ()
    assert len(names(tmp_path, "gateway-1.0*")) == left
    report = verify(tmp_path)
    assert (report.ok, report.faults) == (True, ())
    assert (report.removed[0].first, report.removed[0].size) == (1, 40 - left * 10)
    recorded = [entry for entry in entries(tmp_path) if entry["event"] == "retention"]
    assert recorded[0]["arguments"]["last"] == 40 - left * 10
    # And what is left is proven, is gone on with, and is let go in its turn.
    keys = public_keys((), tmp_path)
    assert verify_proof(prove(tmp_path, "gateway-1", 45, keys), keys).entry["seq"] == 45
    assert verify_proof(prove(tmp_path, "gateway-1", 51, keys), keys).checkpoint.first == 1
    clock.advance(20)
    look_after(tmp_path, replace(plan, segment_s=10.0, keep_bytes=1), clock)
    assert verify(tmp_path).ok


def test_without_a_key_nothing_is_removed(tmp_path: Path) -> None:
    clock = FixedClock()
    in_segments(tmp_path, segments=3, calls=5, clock=clock)
    warnings = look_after(tmp_path, replace(PLAIN, keep_bytes=1), clock)
    assert "signed" in warnings[0]
    assert len(names(tmp_path)) == 4


def test_segments_older_than_the_key_go_once_a_later_one_is_signed(tmp_path: Path) -> None:
    clock = FixedClock()
    in_segments(tmp_path, segments=2, calls=5, clock=clock)
    with_key(tmp_path)
    assert "no checkpoint covers" in look_after(tmp_path, replace(PLAIN, keep_bytes=1), clock)[0]
    clock.advance(20)
    in_segments(tmp_path, segments=2, calls=5, clock=clock)
    assert look_after(tmp_path, replace(PLAIN, keep_bytes=1), clock) == ()
    assert len(names(tmp_path, "gateway-1.0*")) == 1
    assert verify(tmp_path).ok


def removed(directory: Path) -> None:
    clock = FixedClock()
    with_key(directory)
    in_segments(directory, segments=4, calls=5, clock=clock)
    look_after(directory, replace(PLAIN, keep_s=45.0), clock)
    assert verify(directory).ok


def test_what_is_signed_later_still_speaks_of_what_was_removed(tmp_path: Path) -> None:
    removed(tmp_path)
    before = [(one.first, one.size) for one in verify(tmp_path).signed]

    write(tmp_path, 1, PLAIN)

    report = verify(tmp_path)
    assert report.ok
    assert [one.first for one in report.signed] == [1]
    assert report.signed[0].size > before[0][1]


def test_more_than_was_signed_for_is_missed(tmp_path: Path) -> None:
    removed(tmp_path)
    (tmp_path / names(tmp_path)[0]).unlink()
    assert [fault.kind for fault in verify(tmp_path).faults] == ["missing"]


def test_a_removal_that_nobody_signed_is_none(tmp_path: Path) -> None:
    removed(tmp_path)
    path = removal_path(tmp_path, "gateway-1")
    path.write_bytes(path.read_bytes().replace(b'"size":20', b'"size":30'))
    (tmp_path / names(tmp_path)[0]).unlink()
    assert [fault.kind for fault in verify(tmp_path).faults] == ["signature", "missing"]
    path.unlink()
    assert [fault.kind for fault in verify(tmp_path).faults] == ["missing"]


def test_a_removal_that_was_killed_is_finished_and_verifies_meanwhile(tmp_path: Path) -> None:
    clock = FixedClock()
    with_key(tmp_path)
    in_segments(tmp_path, segments=4, calls=5, clock=clock)
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path, "gateway-1.0*")}
    look_after(tmp_path, replace(PLAIN, keep_s=45.0), clock)
    gone = sorted(set(before) - set(names(tmp_path)))
    assert len(gone) == 2
    (tmp_path / gone[1]).write_bytes(before[gone[1]])  # the first was removed, the second not yet
    assert verify(tmp_path).ok
    (tmp_path / gone[0]).write_bytes(before[gone[0]])
    assert verify(tmp_path).ok
    look_after(tmp_path, replace(PLAIN, keep_s=1e9), clock)
    assert not set(gone) & set(names(tmp_path))
    assert verify(tmp_path).ok


def test_nothing_is_removed_that_may_stay(tmp_path: Path) -> None:
    with_key(tmp_path)
    clock = FixedClock()
    in_segments(tmp_path, segments=3, calls=5, clock=clock)
    look_after(tmp_path, replace(PLAIN, keep_s=1e6, keep_bytes=10**9), clock)
    write(tmp_path, 1, PLAIN, clock)
    assert len(names(tmp_path)) == 4
    assert not removal_path(tmp_path, "gateway-1").exists()
