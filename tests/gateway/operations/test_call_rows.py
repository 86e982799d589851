"""Rows of a call: whatever an agent sends, each value has its own, in an order that the agent does not choose."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.messages import line_names
from toolgen.gateway.operations.call_rows import (
    BEGINNING,
    Concealed,
    ValueRow,
    argument_rows,
    below_first_screen,
    escaped,
    in_schema_order,
    isolated,
    request_rows,
)
from toolgen.model.prompt_injection import ANY_INVISIBLE

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "reason": {"type": "string"},
        "amount_cents": {"type": "integer"},
        "body": {"$ref": "#/$defs/Body"},
    },
    "$defs": {"Body": {"allOf": [{"properties": {"zeta": {}}}, {"properties": {"alpha": {}}}]}},
}
LONG = "60.01 EUR " * 390


def names(rows: tuple[ValueRow, ...]) -> list[str]:
    return [row.name for row in rows]


def test_a_long_value_stands_behind_the_short_ones_with_its_length_and_its_whole() -> None:
    rows = argument_rows({"reason": LONG, "amount_cents": 199_999}, SCHEMA)
    assert [(row.name, row.text[:12], row.length) for row in rows] == [
        ("amount_cents", "199999", 0),
        ("reason", '"60.01 EUR 6', 3900),
    ]
    assert rows[1].text.endswith("…")
    assert rows[1].whole == json.dumps(LONG)


def test_rows_are_in_the_order_of_the_schema_and_what_it_does_not_know_comes_last() -> None:
    given = {"zz": 1, "aa": 2, "amount_cents": 3, "reason": "x"}
    rows = argument_rows(given, SCHEMA)
    assert names(rows) == ["reason", "amount_cents", "aa", "zz"]
    assert ["schema" in row.note for row in rows] == [False, False, True, True]
    assert [*in_schema_order(given, SCHEMA)] == names(rows)
    assert {row.note for row in argument_rows(given, None)} == {""}


def test_a_member_of_an_object_is_hidden_by_no_other() -> None:
    body = {"note": LONG, "alpha": 1, "zeta": [{"to": "x" * 90, "amount": 5}], "Beta": 2}
    rows = argument_rows({"body": body, "reason": "short"}, SCHEMA)
    assert names(rows) == ["reason", "body.zeta[0].amount", "body.alpha", "body.Beta", "body.zeta[0].to", "body.note"]


def test_many_members_become_so_many_rows_and_one_with_the_rest() -> None:
    many = {f"m{number:04}": number for number in range(2_000)}
    rows = argument_rows({"body": {**many, "alpha": 7}, "amount_cents": 5}, SCHEMA)
    assert names(rows)[:2] == ["amount_cents", "body.alpha"]
    assert rows[-1].name == "body and 1,961 more"
    assert '"m1999": 1999' in rows[-1].whole
    assert len(rows) == 42


def test_a_row_says_who_set_a_value_and_where_a_digest_stands_for_one() -> None:
    rows = argument_rows({"a": {"b": Concealed("hmac-sha256:00"), "c": "x" * 99}, "d": 1}, None, ["a.c", "d"])
    about = {row.name: row.about for row in rows}
    assert about.keys() == {"d", "a.b", "a.c"}
    assert "gateway" in about["d"]
    assert about["a.c"] == f"99 characters; {about['d']}"
    assert line_names(about["a.b"], "sensitive", "digest")


def test_a_request_has_a_row_for_each_header_and_each_part_of_a_long_address_or_form() -> None:
    rows = request_rows(
        {
            "method": "POST",
            "url": f"https://a.example/x?reason={'y' * 200}&amount=199999",
            "headers": [["content-type", "application/x-www-form-urlencoded"], ["x-b", "z" * 90], ["x-c", "3"]],
            "body": f"reason={'y' * 200}&amount=199999",
        }
    )
    assert [(row.name, row.text[:20]) for row in rows] == [
        ("method", "POST"),
        ("url", "https://a.example/x?"),
        ("header content-type", "application/x-www-fo"),
        ("header x-c", "3"),
        ("url amount", "199999"),
        ("body amount", "199999"),
        ("url reason", "y" * 20),
        ("header x-b", "z" * 20),
        ("body reason", "y" * 20),
    ]
    short = request_rows({"url": "https://a.example/x?a=1&b=2", "body": {"b": 1, "a": LONG}, "sql": "SELECT 1"})
    assert [(row.name, row.text[:30]) for row in short] == [
        ("url", "https://a.example/x?a=1&b=2"),
        ("sql", '"SELECT 1"'),
        ("body.b", "1"),
        ("body.a", json.dumps(LONG)[:30]),
    ]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a\u202eb", "a\\u202eb"),
        ("\u200b\u3164\u115f\u2800\u00a0", "\\u200b\\u3164\\u115f\\u2800\\u00a0"),
        ("\U000e0041", "\\udb40\\udc41"),
        ("\ud800", "\\ud800"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("Zoë 日本 👍 שלום", "Zoë 日本 👍 שלום"),
    ],
)
def test_what_is_not_seen_is_spelled_out(text: str, seen: str) -> None:
    assert escaped(text) == seen
    assert escaped(seen) == seen


def test_what_is_written_from_right_to_left_is_isolated_where_there_is_no_markup() -> None:
    assert isolated("a = 1") == "a = 1"
    assert isolated("שלום 5") == "\u2068שלום 5\u2069"


TEXTS = st.text(max_size=120) | st.sampled_from(["\u202e", "\u3164", "ﷺ", "𒐫", "a" * 4_000, "\u0301" * 300])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(TEXTS, inner, max_size=6),
    max_leaves=20,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["reason", "amount_cents", "body"]) | TEXTS, VALUES, max_size=20)


@given(ARGUMENTS, st.randoms())
def test_no_order_and_no_text_of_an_agent_hides_a_value(arguments: dict[str, Any], random: Any) -> None:
    rows = argument_rows(arguments, SCHEMA)
    shuffled = list(arguments.items())
    random.shuffle(shuffled)
    assert argument_rows(dict(shuffled), SCHEMA) == rows
    # Each argument has a row, or a row for each of its members, and each row begins with its value.
    for name, value in arguments.items():
        own = argument_rows({name: value}, SCHEMA)
        assert own
        assert set(own) <= set(rows)
        written = escaped(json.dumps(value, ensure_ascii=False))
        if len(own) == 1 and own[0].name == names(argument_rows({name: 0}, SCHEMA))[0]:
            assert (own[0].whole or own[0].text) == written
    for row in rows:
        text = row.name + row.text + row.whole
        assert not ANY_INVISIBLE.search(text)
        assert "\n" not in text
        assert not any(unicodedata.bidirectional(sign) in {"LRE", "RLE", "LRO", "RLO", "LRI", "RLI"} for sign in text)
        assert len(row.text) <= BEGINNING
        assert not row.whole or row.whole == row.text or row.whole.startswith(row.text.removesuffix("…"))
        assert bool(row.length) <= bool(row.whole)
    longs = [bool(row.whole) for row in rows]
    assert longs == sorted(longs)
    below = below_first_screen(rows)
    assert rows[len(rows) - len(below) :] == below


@given(ARGUMENTS)
def test_two_calls_that_differ_are_shown_differently(arguments: dict[str, Any]) -> None:
    changed = {**arguments, "amount_cents": [1, arguments.get("amount_cents")]}
    assert argument_rows(changed, SCHEMA) != argument_rows(arguments, SCHEMA)
