"""Messages as the record keeps them: nothing that it conceals stands in them, nor a piece of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.policy.recorded_message import recorded_message

DIGEST = "hmac-sha256:" + "0" * 64
CASES: dict[str, tuple[str, Any, Any, str]] = {
    "nothing concealed": ("/a: 'tea' is no number", {"a": "tea"}, {"a": "tea"}, "/a: 'tea' is no number"),
    "a text": ("/pin: 'tango' is too short", {"pin": "tango"}, {"pin": DIGEST}, "/pin: '[sensitive]' is too short"),
    "a piece of a text": ("'green tea…' is no date", {"a": "green teapots"}, {"a": DIGEST}, "'[sensitive]…' is no date"),
    "a number": ("5150 is more than 9", {"pin": 5150}, {"pin": DIGEST}, "[sensitive] is more than 9"),
    "a short number": ("/age: 42 is more than 40", {"age": 42}, {"age": DIGEST}, "/age: [sensitive] is more than 40"),
    "a word of a document": ("there is no field ssn", {"query": "{ user { ssn } }"}, {"query": DIGEST}, "there is no field [sensitive]"),
    "JSON in a text": ("'4111' is no number", {"a": '{"card": "4111"}'}, {"a": DIGEST}, "'[sensitive]' is no number"),
    "the name of a member": ("there is no member 'hunter2'", {"a": {"hunter2": 1}}, {"a": DIGEST}, "there is no member '[sensitive]'"),
    "what is on record elsewhere": ("'tea' twice", {"a": "tea", "b": "tea"}, {"a": "tea", "b": DIGEST}, "'tea' twice"),
    "too much to look for": ("'x' is no number", {"a": "y" * 60_000}, {"a": DIGEST}, ""),
}  # fmt: skip


@pytest.mark.parametrize(("text", "sent", "recorded", "kept"), CASES.values(), ids=CASES)
def test_concealed_values_are_masked(text: str, sent: Any, recorded: Any, kept: str) -> None:
    assert recorded_message(text, sent, recorded) == kept


@given(
    st.text(st.characters(codec="utf-8"), min_size=6, max_size=40).filter(lambda text: text.strip() == text),
    st.text("abc xyz'{}\"", max_size=30),
    st.integers(0, 40),
    st.sampled_from([repr, lambda text: f"'{text}'", lambda text: text[1:], lambda text: text[:-1]]),
)
def test_no_piece_of_a_secret_is_left(secret: str, around: str, place: int, quoted: Any) -> None:
    text = around[:place] + quoted(secret) + around[place:]
    kept = recorded_message(text, {"a": secret, "b": "plain"}, {"a": DIGEST, "b": "plain"})
    without = text.replace(quoted(secret), "\0")
    pieces = {secret[at : at + 6] for at in range(len(secret) - 5)}
    assert all(piece not in kept or piece in without for piece in pieces)
