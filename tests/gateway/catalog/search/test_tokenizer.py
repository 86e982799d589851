"""Text as terms, and what people say for what tools are called."""

from __future__ import annotations

import pytest

from toolgen.gateway.catalog.search.tokenizer import broader, parts_of, query_words, terms


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("could you please provide me with the weather", ["weather"]),
        ("I would kindly like to know the price", ["price"]),
        ("help", ["help"]),  # what is left out counts where nothing else is said
    ],
)
def test_what_asks_for_nothing_is_left_out_of_a_request(query: str, words: list[str]) -> None:
    assert [word for word in query_words(query) if word] == words


@pytest.mark.parametrize(
    ("query", "general"),
    [
        ("a poster", "image"),
        ("the director", "person"),
        ("Who wrote it?", "person"),  # a question word says who is meant
        ("songs", "track"),
        ("what Sofia Coppola directed", "person"),  # who did it has a name
        ("who sings it", "person"),
        ("whatever he writes", "person"),
    ],
)
def test_what_is_named_has_more_general_words(query: str, general: str) -> None:
    assert terms(general)[0] in broader(query)
    assert broader("one image of a person") == []  # one way only


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("list my open orders", []),
        ("Cancel it", []),
        (
            "What is the weather in Rome? Also, book me a hotel there.",
            ["What is the weather in Rome?", "Also, book me a hotel there."],
        ),
        (
            "find the article, then translate it to French and then mail it to Ann",
            ["find the article", "translate it to French", "mail it to Ann"],
        ),
        ("Get the same twice. Get the same twice.", []),
        ("one two three. " * 50, []),
        (
            "".join(f"ask number {count} now. " for count in range(50)),
            [f"ask number {count} now." for count in range(6)],
        ),
    ],
)
def test_a_request_for_several_things_has_parts(query: str, parts: list[str]) -> None:
    assert parts_of(query) == parts
