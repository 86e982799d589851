"""What is suggested of arguments takes those that were seen, no other names, and says what else it takes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.exhaustive import examples
from tests.messages import line_names
from toolgen.core.canonical import Recorded
from toolgen.policy.arguments import Validator
from toolgen.policy.suggested_schema import closed

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)
CALLS = st.lists(st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES, max_size=3), min_size=1, max_size=30)


@settings(max_examples=examples(150), deadline=None)
@given(CALLS)
def test_it_takes_what_was_seen_and_no_other_name(seen: list[dict[str, Any]]) -> None:
    schema, _ = closed(seen)
    validator = Validator(schema)

    assert all(validator.accepts(one) for one in seen)
    assert not validator.accepts({**seen[0], "another": 1})


@settings(max_examples=examples(100), deadline=None)
@example([f"hmac-sha256:{number}" for number in range(12)])
@given(st.lists(st.text(), min_size=11, max_size=40, unique=True))
def test_many_texts_become_a_pattern_that_takes_them(texts: list[str]) -> None:
    schema, beyond = closed([{"a": text} for text in texts])
    validator = Validator(schema)

    assert all(validator.accepts({"a": text}) for text in texts)
    assert "pattern" in schema["properties"]["a"]
    assert len(beyond) == 1


CASES: list[tuple[list[Any], dict[str, Any], list[str]]] = [
    (["x", "y", "x"], {"enum": ["x", "y"]}, []),
    ([5, 900, *range(20, 31)], {"type": "integer", "minimum": 5, "maximum": 900}, ["a may be any integer from 5 to 900; 13 were observed"]),
    (
        [f"ord-{number}" for number in range(95, 107)],
        {"type": "string", "pattern": "^ord-[0-9]{2,3}$"},
        ["a may be any text like ^ord-[0-9]{2,3}$; 12 were observed"],
    ),
    (
        [f"{name}@example.com" for name in "abcdefghijk"],
        {"type": "string", "pattern": "^[a-z]{1}@example\\.com$"},
        ["a may be any text like ^[a-z]{1}@example\\.com$; 11 were observed"],
    ),
    (["hmac-sha256:00", "x"], {"enum": ["hmac-sha256:00", "x"]}, []),  # somebody's own text
    ([Recorded("hmac-sha256:00"), "x"], {}, ["a may be anything: the audit log only has its keyed digest"]),
    ([{"b": 1}], {"type": "object", "properties": {"b": {"enum": [1]}}, "additionalProperties": False, "required": ["b"]}, []),
    (
        [["x"], []],
        {"type": "array", "minItems": 0, "maxItems": 1, "items": {"enum": ["x"]}},
        ["a may have 0 to 1 of these items, in any order"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("values", "expected", "beyond"), CASES)
def test_the_narrowest_that_says_what_it_opens(values: list[Any], expected: dict[str, Any], beyond: list[str]) -> None:
    schema, told = closed([{"a": value} for value in values])

    assert schema["properties"]["a"] == expected
    assert told == beyond


def test_what_may_be_left_out_and_combined_is_said() -> None:
    schema, beyond = closed([{"a": 1, "b": "x"}, {"a": 2}, {"a": 3, "b": "y"}])

    assert schema["required"] == ["a"]
    assert any(line_names(one, "b is optional") for one in beyond)
    assert any(line_names(one, "a, b", "combinations") for one in beyond)
