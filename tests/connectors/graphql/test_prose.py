"""Descriptions of GraphQL that are too long end behind a sentence, or behind a word."""

from __future__ import annotations

from toolgen.connectors.graphql.prose import gist, prose


def test_a_long_description_ends_behind_a_sentence() -> None:
    assert prose("The order is shown. It has lines and more.", limit=24) == "The order is shown."
    assert prose("The order that everybody is shown", limit=20) == "The order that…"
    assert prose("Short.") == "Short."
    assert prose(None) == ""


def test_a_long_first_sentence_ends_behind_a_word() -> None:
    assert gist("Returns whatever the seller has offered. More.", "order", limit=24) == "Returns whatever the…"
