"""What a reader does not see is told from ordinary writing, and the same everywhere."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.model.prompt_injection import INVISIBLE, holds_invisible, spelled, visible

ORDINARY = [
    "plain\ttext\r\nwith line ends",
    "می\u200cخواهم",  # Persian: a prefix that does not join
    "PDF\u200cها",
    "ക്\u200d അത്",  # Malayalam: a chillu, at the end of a word
    "👩\u200d🚀 and 👩🏽\u200d🚀",
    "❤\ufe0f\u200d🔥 ❤\ufe0f ✈\ufe0e ©\ufe0f 1\ufe0f\u20e3",
    "ᠠ\u180b",
    "naïve – “quotes” 日本語 \u00a0 \u3000",
]
HIDDEN = [
    *(
        ("a" + one + "b")
        for one in "\x00\x1b\x7f\u00ad\u034f\u061c\u115f\u1160\u17b4\u180e\u200b\u200e\u202e\u2060\u2066"
    ),
    *(
        ("a" + one + "b")
        for one in "\u2800\u3164\ufe00\ufe0f\ufeff\uffa0\ufff9\ud800\U0001bca0\U0001d173\U000e0041\U000e0100"
    ),
    "a\u200db",
    "é\u200dé",
    "\u200cمی",
    "م\u200c\u200cی",
    "👩\u200d\u200d🚀",
    "👩\u200dx",
    "x\ufe0f\u200d🚀",
    "❤\ufe0f\ufe0f",
    "😀\U000e0101\U000e0102",
    "葛\U000e0100",
    "1\ufe0f",
    "\u061c\u200dx",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_writing_stays_as_it_is(text: str) -> None:
    assert visible(text) == text == spelled(text)


@pytest.mark.parametrize("text", HIDDEN, ids=ascii)
def test_what_hides_is_found_taken_out_and_spelled_out(text: str) -> None:
    assert INVISIBLE.search(text)
    assert INVISIBLE.search(visible(text)) is None
    assert "\\u{" in spelled(text)
    assert INVISIBLE.search(spelled(text)) is None


@pytest.mark.parametrize("one", "\x85\u2028\u2029")
def test_a_separator_of_lines_is_a_line_end(one: str) -> None:
    assert visible(f"a{one}b") == "a\nb"
    assert INVISIBLE.search(f"a{one}b")


@given(st.text(st.sampled_from("aé1#م\u200c\u200d\ufe0e\ufe0f\u200b\u061c\u2028😀❤ᠠ\u180b\u20e3 \U000e0100")))
def test_a_text_that_was_cleaned_holds_none(text: str) -> None:
    cleaned = visible(text)
    assert INVISIBLE.search(cleaned) is None
    assert visible(cleaned) == cleaned


def test_every_control_format_and_separator_character_of_unicode_is_one_of_them_or_has_a_shape() -> None:
    shown = {
        0x600,
        0x601,
        0x602,
        0x603,
        0x604,
        0x605,
        0x6DD,
        0x70F,
        0x890,
        0x891,
        0x8E2,
        0x110BD,
        0x110CD,
    }  # signs around digits
    missed = [
        code
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        and INVISIBLE.search(f"a{chr(code)}") is None
        and chr(code) not in "\t\n\r"
    ]
    assert set(missed) <= shown


@given(st.text(st.characters(max_codepoint=0x7F)) | st.text() | st.sampled_from([*ORDINARY, *HIDDEN]))
def test_the_quick_look_finds_what_the_pattern_finds(text: str) -> None:
    assert holds_invisible(text) == (INVISIBLE.search(text) is not None)
