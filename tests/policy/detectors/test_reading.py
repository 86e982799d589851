"""Values that are spelled so that no pattern matches them, and every reader reads them, are found wherever they stand."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exhaustive import examples
from toolgen.config.settings import from_data
from toolgen.gateway.policies.inspection import inspector_of
from toolgen.policy.detectors.inspector import Inspector
from toolgen.policy.detectors.reading import OverloadError, reading

VALUES = {
    "email": "ann.lee@mail.example.fr",
    "iban": "DE89370400440532013000",
    "card": "4111111111111111",
    "token": "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",
}
HIDDEN = "\u200b\u200d\u2060\u00ad\u202e\u2066\ufe0f\ufeff\u034f\u3164\u2800\x01\x7f\U000e0041\U000e0101"
Spell = Callable[[str], str]
WAYS: dict[str, Spell] = {
    "as it is": lambda one: one,
    "percent": lambda one: f"%{ord(one):02X}",
    "decimal": lambda one: f"&#{ord(one)};",
    "hexadecimal": lambda one: f"&#x{ord(one):x};",
    "json": lambda one: f"\\u{ord(one):04x}",
    "json in json": lambda one: f"\\\\u{ord(one):04X}",
    "full width": lambda one: chr(ord(one) + 0xFEE0),
    "mathematical": lambda one: chr(ord(one) - 97 + 0x1D41A) if one.islower() else one,
    "another script": lambda one: chr(0x660 + int(one)) if one.isdecimal() else one,
    "json of two halves": lambda one: json.dumps(WAYS["mathematical"](one))[1:-1],
    "accent": lambda one: one + "\u0301",
}
PLACES: tuple[Callable[[str], Any], ...] = (
    lambda text: text,
    lambda text: {text: 1},
    lambda text: {"note": ["to", {"text": f"write to {text} now"}]},
    lambda text: json.dumps({"a": [text]}, ensure_ascii=False),
)


def made(then: str) -> Inspector:
    looked = [{"detector": "hidden_text", "then": "redact"}]
    looked += [{"detector": name, "then": then} for name in ("personal_data", "secrets")]
    data = {"sources": {"own": {"python": "own"}}, "inspect_results": looked}
    inspection = from_data(data, Path("toolgen.yaml").resolve()).inspection
    assert inspection is not None
    return inspector_of(inspection)


REDACTING, TOKENISING = made("redact"), made("tokenise")
SPELLED = st.lists(st.tuples(st.sampled_from(sorted(WAYS)), st.sampled_from(["", "", *HIDDEN])), min_size=1, max_size=8)


def spelled(value: str, ways: list[tuple[str, str]]) -> str:
    """Each character in the next way, with what nobody sees behind it; none behind the last."""
    made = ""
    for number, one in enumerate(value[:-1]):
        way, hidden = ways[number % len(ways)]
        made += WAYS[way](one) + hidden
    return made + value[-1]


def legible(data: Any) -> str:
    """What a reader makes of an answer, by other means than the code that is tried."""
    text = json.dumps(data, ensure_ascii=False)
    return "".join(
        one for one in unicodedata.normalize("NFKC", text) if unicodedata.category(one) not in {"Cf", "Cc", "Mn"}
    )


@pytest.mark.sweep
@settings(max_examples=examples(2_000), deadline=None)
@given(kind=st.sampled_from(sorted(VALUES)), ways=SPELLED, place=st.sampled_from(PLACES))
def test_a_value_is_taken_out_however_it_is_spelled(
    kind: str, ways: list[tuple[str, str]], place: Callable[[str], Any]
) -> None:
    data = place(spelled(VALUES[kind], ways))
    seen = REDACTING.look("own__tool", data)
    told = legible(REDACTING.replaced(data, seen))
    assert f"[{kind}]" in told
    assert VALUES[kind] not in told
    assert {kind} <= set().union(*seen.kinds.values())


@pytest.mark.sweep
@settings(max_examples=examples(1_000), deadline=None)
@given(kind=st.sampled_from(sorted(VALUES)), ways=SPELLED)
def test_a_token_stands_for_the_value_itself_however_that_is_spelled(kind: str, ways: list[tuple[str, str]]) -> None:
    data = {"text": f"to {spelled(VALUES[kind], ways)} now"}
    seen = TOKENISING.look("own__tool", data)
    data = TOKENISING.replaced(data, seen)  # type: ignore[assignment]
    ((_, value),) = wanted = TOKENISING.values(data, seen)
    assert legible(value).strip('"') == VALUES[kind]
    assert TOKENISING.tokenised(data, seen, {wanted[0]: 7}) == {"text": f"to <{kind}:7> now"}


@pytest.mark.sweep
@settings(max_examples=examples(2_000), deadline=None)
@given(st.text(st.one_of(st.characters(codec=None), st.sampled_from(HIDDEN + "%&#;\\u0040x4")), max_size=60))
def test_a_reading_says_where_each_character_of_it_stands(text: str) -> None:
    read = reading(text)
    if read is None:
        return
    spans = [read.span(place) for place in range(len(read.text))]
    assert all(begin < end for begin, end in spans)
    found = [(one, text[begin:end]) for one, (begin, end) in zip(read.text, spans, strict=True)]
    assert all(one == written for one, written in found if len(written) == 1 and written.isascii())
    assert all(one[1] <= other[0] for one, other in pairwise(spans))
    assert all(begin >= 0 and end <= len(text) for begin, end in spans)


@pytest.mark.parametrize("text", ["", "plain", "Größe: 5 m, “so” 漢字, привет", "50% of 3 &amp; \\n", "%zz &#; \\u12"])
def test_most_texts_read_as_they_are_written(text: str) -> None:
    assert reading(text) is None


def test_a_text_that_reads_differently_everywhere_is_bounded() -> None:
    assert reading("\u200b" * 1_000_000) is not None
    with pytest.raises(OverloadError):
        reading("\u200b" * 1_000_001)


@pytest.mark.parametrize("number", [4111111111111111, 4111111111111111.0])
def test_a_number_is_looked_at_as_its_digits_however_it_is_written(number: float) -> None:
    data = {"n": [number, {"paid with": number}]}
    seen = REDACTING.look("own__tool", data)
    assert REDACTING.replaced(data, seen) == {"n": ["[card]", {"paid with": "[card]"}]}
    small = {"n": [1.5e8 + 0.5, 1e300, float("inf"), float("nan"), 12.0]}
    assert REDACTING.look("own__tool", small).watches == []
