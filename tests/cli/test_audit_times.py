"""Moments and periods as people write them."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from toolgen.cli.audit_times import moment, period, shown_time, zone_label
from toolgen.core.clock import FixedClock

BERLIN = ZoneInfo("Europe/Berlin")
NOON = FixedClock(datetime(2026, 3, 29, 12, 0, tzinfo=UTC).timestamp())  # the day on which Berlin's summer time begins


def at(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%m-%d %H:%M:%S")


@pytest.mark.parametrize(
    ("text", "utc", "berlin"),
    [
        ("90s", "03-29 11:58:30", "03-29 11:58:30"),
        ("2d", "03-27 12:00:00", "03-27 12:00:00"),
        ("today", "03-29 00:00:00", "03-28 23:00:00"),
        ("yesterday", "03-28 00:00:00", "03-27 23:00:00"),
        ("yesterday 15:00", "03-28 15:00:00", "03-28 14:00:00"),
        ("11:30", "03-29 11:30:00", "03-29 09:30:00"),
        ("13:00", "03-28 13:00:00", "03-29 11:00:00"),  # the last 13:00 that has been
        ("9:05:07", "03-29 09:05:07", "03-29 07:05:07"),
        ("2026-02-01", "02-01 00:00:00", "01-31 23:00:00"),
        ("2026-02-01 08:15", "02-01 08:15:00", "02-01 07:15:00"),
        ("2026-02-01T08:15:00+05:00", "02-01 03:15:00", "02-01 03:15:00"),
        ("24:00", None, None),
        ("tomorrow", None, None),
        ("2026-02-30", None, None),
        ("", None, None),
        ("99999999999d", None, None),
    ],
)
def test_a_moment(text: str, utc: str | None, berlin: str | None) -> None:
    assert (at(moment(text, UTC, NOON)), at(moment(text, BERLIN, NOON))) == (utc, berlin)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10:00-11:00", ("03-29 10:00:00", "03-29 11:00:00")),
        ("15:00-16:00", ("03-28 15:00:00", "03-28 16:00:00")),
        ("yesterday 15:00 - 16:00", ("03-28 15:00:00", "03-28 16:00:00")),
        ("23:00-01:00", ("03-28 23:00:00", "03-29 01:00:00")),
        ("2026-03-01 23:30-00:30", ("03-01 23:30:00", "03-02 00:30:00")),
        ("yesterday..today", ("03-28 00:00:00", "03-29 00:00:00")),
        ("2h..1h", ("03-29 10:00:00", "03-29 11:00:00")),
        ("1h..2h", None),
        ("10:00", None),
        ("10:00-25:00", None),
        ("..", None),
    ],
)
def test_a_period(text: str, expected: tuple[str, str] | None) -> None:
    found = period(text, UTC, NOON)
    assert (None if found is None else (at(found[0]), at(found[1]))) == expected


def test_times_of_the_record_are_shown_in_a_zone() -> None:
    assert shown_time("2026-07-01T10:00:00.123456Z", BERLIN) == "2026-07-01 12:00:00"
    assert shown_time("2026-07-01T10:00:00.123456Z", UTC) == "2026-07-01 10:00:00"
    assert shown_time("never", BERLIN) == "never"
    assert [zone_label(zone) for zone in (UTC, None, BERLIN)] == ["UTC", "local", "Berlin"]
