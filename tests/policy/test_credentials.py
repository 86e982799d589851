"""Claims of a token: texts and lists of them within their bounds, and nobody where they are anything else."""

from __future__ import annotations

from typing import Any

import pytest

from toolgen.policy.credentials import ClaimsError, audience_fits, scopes_of, subject_of

TOOLGEN = frozenset({"toolgen"})


@pytest.mark.parametrize(
    ("audience", "fits"),
    [
        ("toolgen", True),
        ("other", False),
        (["other", "toolgen"], True),
        ([], False),
        (["x"] * 999 + ["toolgen"], True),
    ],
)
def test_a_token_fits_one_of_its_audiences(audience: Any, fits: bool) -> None:
    assert audience_fits(TOOLGEN, {"aud": audience}) is fits


@pytest.mark.parametrize("audience", [None, 7, {"toolgen": True}, ["toolgen", 7], ["toolgen"] * 1001])
def test_an_audience_that_is_no_short_list_of_texts_is_refused(audience: Any) -> None:
    with pytest.raises(ClaimsError, match="audience"):
        audience_fits(TOOLGEN, {"aud": audience})


def test_scopes_are_words_of_a_text_or_of_a_list() -> None:
    assert scopes_of({"scope": ["a b", "c"]}) == frozenset("abc")
    assert scopes_of({"scope": "a b  c", "scp": ["d e", "a"]}) == frozenset("abcde")
    assert scopes_of({"scp": "a b"}) == frozenset("ab")
    for claims in ({"scope": ["a", 7]}, {"scope": {"a": 1}}, {"scp": ["a"] * 1001}, {"scp": 7}):
        with pytest.raises(ClaimsError):
            scopes_of(claims)


def test_a_subject_has_1_to_128_printable_characters() -> None:
    assert subject_of({"sub": "x"}) == "x"
    assert subject_of({"sub": "x" * 128}) == "x" * 128
    for subject in (None, 7, "", "x" * 129, "a\nb"):
        with pytest.raises(ClaimsError, match="subject"):
            subject_of({"sub": subject})
