"""Reasons and notes: what counts as one."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.model.prompt_injection import ANY_INVISIBLE
from toolgen.model.reason import reason_in

UNSEEN = "\u200b\u200d\u2060\ufeff\u00ad\u3164\uffa0\u115f\u1160\u2800\u202e\u2066\u061c\u034f\u180e\ufe0f\U000e0041\x00\ud800"
NOTHING = f"{UNSEEN}\u00a0\u3000 \t\n\u0301"


@pytest.mark.parametrize("text", ["", *NOTHING, NOTHING, "\U00013441", "\U00016fe4", "\ue000", "\U000f0000", "\u0378"])
def test_what_nobody_sees_is_no_reason(text: str) -> None:
    assert reason_in(text) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [(" week 12\n", "week 12"), ("é", "é"), ("👍", "👍"), ("…", "…"), ("خ\u200c", "خ\u200c"), ("週", "週")],
)
def test_what_somebody_sees_is_one(text: str, reason: str) -> None:
    assert reason_in(text) == reason


@given(st.text())
def test_a_reason_has_a_sign_that_is_seen(text: str) -> None:
    found = reason_in(text)
    seen = [sign for sign in text if unicodedata.category(sign)[0] in "LNPS" and not ANY_INVISIBLE.match(sign)]
    assert bool(found) <= bool(seen)
    assert found in {"", text.strip()}
