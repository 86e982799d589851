"""Shortened descriptions keep what decides a call."""

from __future__ import annotations

import pytest

from toolgen.model.short_text import MAX_PARAMETER_LENGTH, cut, described_in_short, shortened

PROSE = "It is shown to everybody who opens the page, and has the names of those who wrote it and the date on which they did. "


@pytest.mark.parametrize(
    "deciding",
    [
        "One of small, medium or large.",
        "Valid values are small, medium, large.",
        "Valid resolutions are fixed or revoked.",
        "The default is small.",
        "If omitted, the whole page is sent.",
        "Cannot be given together with offset.",
        "Required with kind.",
        "At most 100 are returned.",
        "The time is in seconds.",
        "A Unix timestamp.",
        "small: no more than ten.",
        "Use page_token instead.",
    ],
)
def test_a_sentence_that_decides_a_call_is_kept_wherever_it_stands(deciding: str) -> None:
    text = f"The size of the page. {PROSE}{PROSE}{deciding}"
    short = shortened(text, MAX_PARAMETER_LENGTH)
    assert short.startswith("The size of the page.")
    assert short.endswith(deciding)
    assert len(short) < len(text)


def test_a_first_sentence_is_whole_up_to_twice_the_limit() -> None:
    first = "The size " + "of the very long page " * 10 + "ends."
    assert shortened(f"{first} {PROSE}", MAX_PARAMETER_LENGTH) == first
    longer = "The size " + "of the very long page " * 30 + "ends."
    assert shortened(longer, MAX_PARAMETER_LENGTH).endswith("…")
    assert len(shortened(longer, MAX_PARAMETER_LENGTH)) <= 2 * MAX_PARAMETER_LENGTH


def test_values_and_defaults_that_the_schema_has_are_not_repeated() -> None:
    text = f"The size. {PROSE}{PROSE}One of small, medium or large. The default is small."
    both = {"type": "string", "description": text, "enum": ["small", "medium", "large"], "default": "small"}
    assert described_in_short(both, MAX_PARAMETER_LENGTH)["description"] == f"The size. {PROSE.strip()}"
    items = {"type": "array", "description": text, "items": {"enum": ["small", "medium", "large"]}}
    assert "One of" not in described_in_short(items, MAX_PARAMETER_LENGTH)["description"]
    assert described_in_short(items, MAX_PARAMETER_LENGTH)["description"].endswith("The default is small.")


def test_a_long_list_of_values_is_whole() -> None:
    listed = ", ".join(f"value_{number}" for number in range(60))
    short = shortened(f"The kind. {PROSE}{PROSE}One of {listed}.", MAX_PARAMETER_LENGTH)
    assert "value_59." in short


def test_many_lists_are_bounded() -> None:
    text = "The kind. " + "One of a, b, c or a very long value that takes much room. " * 400
    assert len(shortened(text, MAX_PARAMETER_LENGTH)) < 1_400


def test_a_schema_with_a_short_description_is_the_same_object() -> None:
    schema = {"type": "string", "description": "The size."}
    assert described_in_short(schema, MAX_PARAMETER_LENGTH) is schema
    assert described_in_short({"type": "string"}, MAX_PARAMETER_LENGTH) == {"type": "string"}


def test_abbreviations_end_no_sentence() -> None:
    assert cut("Any unit, e.g. metres are taken. Or feet.", 34) == "Any unit, e.g. metres are taken."


def test_a_list_of_keys_with_their_values_is_whole() -> None:
    keys = (
        "before: yyyy-mm-dd; order: latest, likes; in:: title, seen, unseen; status:: open, closed, noreplies, solved."
    )
    text = f"The query. {'It is a text of many words. ' * 8}{keys} See more."
    assert keys in shortened(text, 60)
    assert "tags:: api,solved" in shortened(text.replace(keys, "tags:: api,solved for posts of both."), 60)
    assert "noreplies" not in shortened(text.replace("before:", "the one before,").replace("; ", " and "), 60), (
        "no list of keys"
    )
