"""What pages print of text from anywhere, and of numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from markupsafe import Markup

from toolgen.core.clock import FixedClock
from toolgen.frontends.console.charts import bars, lines
from toolgen.frontends.console.figures import Figures, TimeBucket
from toolgen.frontends.console.log_verifier import Verification
from toolgen.frontends.console.text_format import moment, pretty, shown


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("plain ünïcode 日本", "plain ünïcode 日本"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("pay\u202e001\u202c", "pay\\u{202e}001\\u{202c}"),
        ("a\u200bb\ufeffc\u2060", "a\\u{200b}b\\u{feff}c\\u{2060}"),
        ("\x1b[2J\x00", "\\u{1b}[2J\\u{0}"),
        ("\U000e0041", "\\u{e0041}"),
        ("\ud800", "\\u{d800}"),
    ],
)
def test_nothing_is_hidden_in_text(text: str, printed: str) -> None:
    assert shown(text) == printed
    assert "\u202e" not in str(shown(pretty({"x": text})))


def test_markup_of_our_own_stays_what_it_is() -> None:
    assert shown(Markup("<b>\u200b</b>")) == Markup("<b>\u200b</b>")


def test_a_time_that_is_none_is_printed_as_it_is() -> None:
    assert moment("2027-01-31T12:00:00.5Z") == "2027-01-31 12:00:00"
    assert moment("<b>") == "<b>"


def figures(*counts: int) -> Figures:
    buckets = tuple(
        TimeBucket(start=60.0 * number, counts={"ok": count} if count else {}, p50=float(count) or None)
        for number, count in enumerate(counts)
    )
    whole = TimeBucket(start=0.0, counts={"ok": sum(counts)})
    return Figures(
        since=0.0, until=60.0 * len(counts), step=60.0, buckets=buckets, whole=whole, tools=(), principals=()
    )


def test_bars_are_as_high_as_their_numbers_and_within_the_picture() -> None:
    drawn = bars(figures(0, 5, 10)).bars
    assert [bar.label for bar in drawn] == ["00:01: 5 ok", "00:02: 10 ok"]
    assert drawn[1].height == pytest.approx(2 * drawn[0].height)
    assert all(bar.y >= 0 and bar.x + bar.width <= 720 and bar.y + bar.height <= 190 for bar in drawn)


def test_charts_of_nothing_are_empty_and_lines_stop_where_nothing_was_measured() -> None:
    assert bars(figures(0, 0)).bars == ()
    (name, runs), *_ = lines(figures(3, 4, 0, 5)).lines
    assert name == "p50"
    assert len(runs) == 2


async def test_the_record_is_verified_once_a_day(tmp_path: Path) -> None:
    clock = FixedClock(1_000_000.0)
    (tmp_path / "audit").mkdir()

    async def note(faults: int) -> None:
        raise AssertionError(faults)

    verification = Verification(tmp_path / "audit", clock, note)
    assert verification.due(clock.now())
    assert verification.begin()
    assert not verification.due(clock.now())
    await verification.ended(60)
    assert not verification.due(clock.now())
    clock.advance(86_399)
    assert not verification.due(clock.now())
    clock.advance(1)
    assert verification.due(clock.now())
    await verification.close()
