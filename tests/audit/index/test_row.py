"""What the index keeps of an entry beside its text."""

from __future__ import annotations

import pytest

from toolgen.audit.index.row import micros


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("1970-01-01T00:00:01.000002Z", 1_000_002),
        ("1970-01-01T01:00:00+01:00", 0),
        ("", 0),
        ("yesterday", 0),
        ("9999-99-99T00:00:00Z", 0),
    ],
)
def test_a_time_is_microseconds_and_nothing_where_it_is_none(time: str, expected: int) -> None:
    assert micros(time) == expected
