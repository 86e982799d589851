"""Calls of a time window: the same as a reader of the whole log finds, whatever is cut off at the beginning of the window."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from tests.audit.drawn_logs import HOUR, START, calls, draw
from toolgen.audit import call_window
from toolgen.audit.call_window import CallWindow, seconds_of
from toolgen.audit.files import closed_segments

SEEDS = range(40)
SINCE = (0.0, START + 3 * HOUR, START + 9.5 * HOUR, START + 20 * HOUR, START + 40 * HOUR)
UNKNOWN = frozenset({"outcome_unknown"})


def _users(name: str) -> bool:
    return name.startswith("corp:")


def _from(rows: list[dict[str, Any]], since: float) -> list[dict[str, Any]]:
    return sorted((row for row in rows if seconds_of(row) >= since), key=itemgetter("time", "call_id"))


@pytest.mark.parametrize(("waiting", "held"), [(8_000, 2**26), (6, 0), (6, 20_000)])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_window_has_the_calls_of_the_whole_log_that_began_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, waiting: int, held: int
) -> None:
    monkeypatch.setattr(call_window, "_MAX_WAITING", waiting)
    monkeypatch.setattr(call_window, "_MAX_KEPT", held)
    monkeypatch.setattr(call_window, "_MAX_HASHES", waiting)
    draw(tmp_path, seed)
    whole = calls(tmp_path)

    for since in SINCE:
        found = list(CallWindow(tmp_path, since, has_users=_users).rows())

        assert [row["time"] for row in found] == sorted(row["time"] for row in found)
        assert _from(found, 0.0) == _from(whole, since)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_window_has_the_calls_that_ended_so_or_not_at_all(tmp_path: Path, seed: int) -> None:
    draw(tmp_path, seed)
    whole = calls(tmp_path)
    doubted = [row for row in whole if row["status"] == "unfinished" or row.get("code") in UNKNOWN]

    for since in SINCE:
        found = CallWindow(tmp_path, since, has_users=_users).ended_with(UNKNOWN)

        assert _from(found, 0.0) == _from(doubted, since)
    assert doubted


def test_one_call_is_read_wherever_its_entries_are(tmp_path: Path) -> None:
    draw(tmp_path, 4)

    for row in calls(tmp_path):
        assert CallWindow(tmp_path).only({row["call_id"]}) == [row]


def test_segments_before_the_window_are_not_read(tmp_path: Path) -> None:
    draw(tmp_path, 9, hours=240.0, kinds=(7, 8))
    since = START + 200 * HOUR
    whole = calls(tmp_path)
    old = [
        segment
        for stream in ("gateway-1", "gateway-2", "gateway-3")
        for segment in closed_segments(tmp_path, stream)
        if segment.first < call_window.start_of(tmp_path, stream, since)
    ]
    assert len(old) > 5
    plain = [row for row in whole if seconds_of(row) >= since]
    for segment in old:
        segment.path.write_bytes(b"no entry at all")

    assert len(list(CallWindow(tmp_path, since).rows())) == len(plain)
