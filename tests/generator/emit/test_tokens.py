"""The estimate of what a text costs: near what the known vocabularies count."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exhaustive import examples
from toolgen.generator.emit import tokens as module
from toolgen.generator.emit.tokens import tokens

# What o200k_base and cl100k_base count for these texts (the larger of the two).
COUNTED = [
    ("", 0),
    ("a", 1),
    ("The name of the repository.", 6),
    ('{"type":"object","properties":{"limit":{"type":"integer","minimum":1,"maximum":100}},"required":["limit"]}', 27),
    ("2026-11-22T10:15:00Z", 13),
    ("petstore__get_pet_by_id", 7),
    ('{"$ref":"#/$defs/repository-ruleset-conditions"}', 15),
    ("                    ", 1),
    ("!!!!!!!!!!!!", 2),
]


@pytest.mark.parametrize(("text", "counted"), COUNTED, ids=[text[:12] for text, _ in COUNTED])
def test_the_estimate_is_near(text: str, counted: int) -> None:
    assert counted * 7 // 10 <= tokens(text) <= counted + counted // 3 + 6


@pytest.mark.parametrize(("text", "least"), [("übergrößen", 3), ("猫の手も借りたい", 8), ("🐕🐕", 2), ("\ud800", 1)])
def test_what_is_not_ascii_costs_more(text: str, least: int) -> None:
    assert least <= tokens(text) <= 4 * len(text)


def test_it_adds_up() -> None:
    assert tokens("one two\n" * 1000) == 1000 * tokens("one two\n")


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.sampled_from(['"}},', '"', "}", ",", "a", "Name", "9", "_", ".", " ", "é", "\n", '":{"']), max_size=30)
)
def test_remembering_what_is_shared_changes_nothing(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert tokens(text) == module._section.__wrapped__(text)


@given(st.text(st.characters(max_codepoint=127), max_size=200))
@settings(max_examples=examples(200))
def test_ascii_text_falls_into_the_pieces_of_any_text(text: str) -> None:
    assert module._ASCII_PIECES.findall(text) == module._PIECES.findall(text)
