"""Texts for regular expressions: the plainest, and any other; bounded whatever the expression asks for."""

from __future__ import annotations

import random
import re

import pytest

from toolgen.generator.samples.regex import UnsupportedPatternError, matching

PATTERNS = [
    r"^[A-Z]{2}\d{4}$",
    r"^(?:GET|POST)$",
    r"^\w+@\w+\.(com|org)$",
    r"[^a-z]+",
    r"^a?b*c+$",
    r"^\+?[1-9]\d{1,14}$",
    r"^[\w.\-]{3,}$",
    r"^(?<year>\d{4})-(?P<month>\d\d)$",
    r"^\u0041\x42$",
    r"^[^\s/]+/\S$",
    r"^[a-z0-9_-]{3,8}$",
    r"^(foo|ba[rz])+\.(?:png|jpe?g)$",
    r"\d{4}-\d{2}",
    r"^[^/]+/[^/]+$",
    r"^#?[0-9a-fA-F]{6}$",
    r"^\w+(\s\w+)*$",
    r"[\u0041-\u005A]{2}",
    r"^$|^x{2,}$",
    r"^a{b$",
    r"^(a|b(c|d){2}){2,3}?$",
    "",
]


def compiled(pattern: str) -> re.Pattern[str]:
    """Python spells a named group otherwise than ECMA 262."""
    return re.compile(pattern.replace("(?<y", "(?P<y"))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_text_matches_the_pattern_it_was_made_for(pattern: str) -> None:
    expression = compiled(pattern)
    choose = random.Random(0)
    for text in (
        matching(pattern),
        matching(pattern, length=9),
        *(matching(pattern, choose=choose) for _ in range(20)),
    ):
        assert expression.search(text), text


def test_every_choice_is_made_anew() -> None:
    choose = random.Random(0)
    assert {matching("^(a|b)[cd]?$", choose=choose) for _ in range(200)} == {"a", "b", "ac", "ad", "bc", "bd"}
    assert len({matching("[a-z]{4}", choose=choose) for _ in range(50)}) > 40
    assert matching("[a-z]{4}", choose=random.Random(7)) == matching("[a-z]{4}", choose=random.Random(7))


UNKNOWN = [
    r"(a)\1", "(?=a)a", "(?!a)b", "(?<=a)b", "(", "[", "*", r"\p{Foo}", "a)", "[z-a]", "(a", "[a", "a{3,2}", "[^\\x00-\\x7f]",
    "(" * 100 + ")" * 100, "((a{999}){999}){999}", "((a{9999}){9999}){9999}", "(" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("pattern", UNKNOWN)
@pytest.mark.parametrize("choose", [None, random.Random(0)], ids=["plainest", "any"])
def test_a_pattern_that_is_not_understood_or_asks_for_too_much_is_refused(
    pattern: str, choose: random.Random | None
) -> None:
    with pytest.raises(UnsupportedPatternError):
        matching(pattern, choose=choose)
