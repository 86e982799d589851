"""Percentiles of durations that are held in sorted parts: the same as of one sorted list of all."""

from __future__ import annotations

import math
import random

import pytest

from toolgen.audit import durations
from toolgen.audit.durations import SortedDurations, percentile


@pytest.mark.parametrize(
    ("ordered", "percent", "expected"),
    [
        ([], 50, None),
        ([7.0], 1, 7.0),
        ([7.0], 99, 7.0),
        ([1.0, 2.0], 50, 1.0),
        ([1.0, 2.0], 51, 2.0),
        ([*map(float, range(1, 101))], 90, 90.0),
        ([*map(float, range(1, 101))], 99, 99.0),
    ],
)
def test_a_percentile_is_a_value_that_occurred(ordered: list[float], percent: float, expected: float | None) -> None:
    assert percentile([ordered], percent) == expected


@pytest.mark.parametrize("seed", range(20))
def test_parts_change_no_percentile(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(durations, "_PART", chance.randrange(1, 40))
    drawn = [[chance.choice((0.5, 1.0, chance.random() * 10)) for _ in range(chance.randrange(200))] for _ in range(3)]
    whole = SortedDurations()
    for values in drawn:
        held = SortedDurations()
        for value in values:
            held.add(value)
        whole.take(held)
    parts = whole.parts()
    ordered = sorted(value for values in drawn for value in values)
    for percent in (1, 50, 90, 99, 100):
        expected = ordered[math.ceil(len(ordered) * percent / 100) - 1] if ordered else None
        assert percentile(parts, percent) == expected


def test_durations_may_be_added_after_their_parts_were_read() -> None:
    held = SortedDurations()
    for value in (3.0, 1.0, 2.0):
        held.add(value)
        held.parts()
    assert percentile(held.parts(), 50) == 2.0
