"""National ids by their check digits: what is one and what only looks like one, for every country whose ids have check digits."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest

from bench.inspect_results import false_ids
from bench.result_corpus import corpus
from toolgen.core.errors import ConfigError
from toolgen.policy.detectors.national_ids import NationalIds, countries_known

idnumbers = pytest.importorskip("idnumbers", reason="idnumbers is not installed: `make dev` does that")
LETTERS = {"#": "0123456789", "L": "ABCDEFGHJKLMNPQRSTUVWXYZ", "X": "0123456789ABCDEFGHX", "*": "-+A"}


def primary(country: str) -> Any:
    """The class for what people have there as their number."""
    return idnumbers.get_country(country).national_id


def drawn(mask: str, draw: random.Random) -> str:
    return "".join(draw.choice(LETTERS[one]) if one in LETTERS else one for one in mask)


def found(text: str, *countries: str) -> list[str]:
    return [text[one.start : one.end] for one in NationalIds(countries, "here").find(text)]


@pytest.mark.parametrize(
    ("country", "text", "expected"),
    [
        ("DE", "Steuer-ID: 12 345 678 911, thanks", ["12 345 678 911"]),
        ("DE", "Steuer-ID: 12 345 678 912, thanks", []),
        ("DE", "order 12 345 678 911 shipped", []),
        ("PL", "pesel: 80010100000", ["80010100000"]),
        ("PL", "national_id: 80010100000", ["80010100000"]),
        ("PL", "parcel 80010100000", []),
        ("PL", "pesel: 80010100001", []),
        ("ES", "dni 12345678Z.", ["12345678Z"]),
        ("ES", "code 12345678Z", ["12345678Z"]),
        ("ES", "12345678A, X12345678Z, 12345678ZZ", []),
        ("BR", "111.444.777-35", ["111.444.777-35"]),
        ("BR", "111.444.777-36 and 1.111.444.777-35", []),
        ("CH", "AHV 756.1234.5678.97", ["756.1234.5678.97"]),
        ("SE", "kund 811218-9876", ["811218-9876"]),
        ("NL", "bsn: 123456782", ["123456782"]),
        ("NL", "BSN 123456783", []),
        ("IT", "RSSMRA85M01H501Q", ["RSSMRA85M01H501Q"]),
        ("IN", "card number 1234 8924 7352 8038", []),
        ("IN", "national id 8924 7352 8038", ["8924 7352 8038"]),
        ("VE", "RIF J-12345678-4", ["J-12345678-4"]),
        ("FI", "131052-308T and 131052-308U", ["131052-308T"]),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_an_id_is_found_where_it_is_one(country: str, text: str, expected: list[str]) -> None:
    assert found(text, country) == expected


@pytest.mark.parametrize("country", countries_known())
def test_numbers_of_a_country_are_told_right_and_wrong(country: str) -> None:
    """Drawn at random by the form of the country, and judged by idnumbers itself."""
    draw, ids = random.Random(country), NationalIds([country], "here")
    right = [kind.METADATA.example for kind in idnumbers.get_country(country).id_types if kind.METADATA.checksum]
    kind = primary(country)
    numbers = [drawn(draw.choice(kind.METADATA.masks), draw) for _ in range(2_000)] if kind.METADATA.checksum else []
    for number in numbers:
        any_kind = any(one.validate(number) for one in idnumbers.get_country(country).id_types)
        if not any_kind:
            assert not list(ids.find(f"national id: {number}")), number
        elif kind.validate(number):
            right.append(number)
    seen = [
        number
        for number in right
        if [(one.start, one.end) for one in ids.find(f"national id: {number}")] == [(13, 13 + len(number))]
    ]
    assert seen
    assert not numbers or set(seen) >= {number for number in right if number in numbers}


def test_of_the_labelled_set_nothing_is_an_id_and_no_number_by_itself() -> None:
    wrong, alone, named = false_ids(corpus(), 2_000)
    assert (wrong, alone) == (0, 0.0)
    assert named < 0.3, "for 57 countries at once: behind a word for an id, a check digit is all there is"


def test_no_text_takes_more_than_its_length_says() -> None:
    ids = NationalIds(countries_known(), "here")
    for piece in ("1", "1 ", "12-", "A1", "1.", "national id 12345678", "AAAA11"):
        assert all(one.start < one.end for one in ids.find(piece * (60_000 // len(piece))))


@pytest.mark.parametrize(
    ("country", "said"),
    [("UK", "no ids of 'UK' are known"), ("US", "ids of 'US' have no check digit"), ("de", "no ids of 'de' are known")],
)
def test_a_country_without_check_digits_is_an_error(country: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as error:
        NationalIds([country], "toolgen.yaml:4")
    assert error.value.where == "toolgen.yaml:4"
    assert "DE" in error.value.suggestion


def test_what_is_missing_is_said_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "idnumbers", None)
    with pytest.raises(ConfigError, match="idnumbers is not installed") as error:
        NationalIds(["DE"], "here")
    assert error.value.suggestion == "pip install 'toolgen[national-ids]'"
