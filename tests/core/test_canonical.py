"""The canonical form against an independent implementation of RFC 8785."""

from __future__ import annotations

import json
import math

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exhaustive import size
from toolgen.core.canonical import (
    Recorded,
    canonical,
    decoded,
    digest,
    encodable,
    encoded,
    flat_form,
    is_digest,
    written,
)
from toolgen.core.errors import CanonicalError

MAX_SIZE = 2**53 - 1
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-MAX_SIZE, MAX_SIZE),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=("Cs",))),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner), st.dictionaries(st.text(st.characters(exclude_categories=("Cs",))), inner)
    ),
    max_leaves=20,
)


@given(values)
def test_it_is_what_another_implementation_writes(value: object) -> None:
    assert canonical(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_written_as_ecmascript_does(value: float) -> None:
    assert canonical(value) == rfc8785.dumps(value)


def test_keys_are_sorted_by_utf_16_units() -> None:
    assert canonical({"\U0001f600": 1, "ﬀ": 2}) == '{"\U0001f600":1,"ﬀ":2}'.encode()


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        [math.nan],
        {"a": -math.inf},
        {1: 2},
        2**53,
        -(2**53),
        "\ud800",
        {"\ud800": 1},
        object(),
        b"x",
    ],
)
def test_what_has_no_form_is_refused(value: object) -> None:
    with pytest.raises(CanonicalError):
        canonical(value)


def test_deep_nesting_is_refused_in_bounded_time() -> None:
    value: object = 1
    for _ in range(100_000):
        value = [value]
    with pytest.raises(CanonicalError):
        canonical(value)


def test_wide_integers_keep_their_digests_apart() -> None:
    assert digest(encodable(2**53 + 1)) != digest(encodable(2**53 + 2))
    assert encodable({"id": [2**60, 5, True]}) == {"id": [{"$integer": str(2**60)}, 5, True]}


DIGEST = "hmac-sha256:" + "0" * 64
ESCAPED = [
    ({"$integer": "5"}, {"$$integer": "5"}),
    ({"$$float": 1}, {"$$$float": 1}),
    ({"a": [{"$text": {"$integer": "1"}}]}, {"a": [{"$$text": {"$$integer": "1"}}]}),
    (DIGEST, {"$text": DIGEST}),
    ([{"$text": DIGEST}], [{"$$text": {"$text": DIGEST}}]),
    (Recorded(DIGEST), DIGEST),
    ({"$filter": "x"}, {"$filter": "x"}),
    ({"$integer": "5", "b": 1}, {"$integer": "5", "b": 1}),
    (2**60, {"$integer": str(2**60)}),
    (1e16, {"$float": "1e+16"}),
]


@pytest.mark.parametrize(("value", "form"), ESCAPED)
def test_what_looks_like_a_form_of_the_records_own_is_escaped(value: object, form: object) -> None:
    assert encodable(value) == form
    assert encoded(value) == canonical(form) == written(form)
    assert decoded(form) == value


def test_a_digest_is_told_apart_from_the_same_text_that_somebody_sent() -> None:
    assert is_digest(encodable(Recorded(DIGEST)))
    assert not is_digest(encodable(DIGEST))


@pytest.mark.parametrize(
    "recorded", [{"$integer": "five"}, {"$integer": "5"}, {"$float": "nan"}, {"$float": 1}, {"$text": 5}, {"$x": 1}]
)
def test_what_a_log_from_before_the_escapes_holds_is_read_as_it_stands(recorded: object) -> None:
    assert decoded(recorded) == recorded


NAMES = st.text("ab\u00e9\U0001f600", max_size=2) | st.sampled_from(["$integer", "$float", "$text", "$$integer", "$"])
CALLS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.sampled_from([0, 1, -1, 2**53, 2**53 + 1, 10**16, 1e16, 1.0, 0.5, "1", "", "null", "true"])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([DIGEST, "hmac-sha256:", str(2**53), str(2**60), "1e+16"])
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def same(one: object, other: object) -> bool:
    """Whether two values are one to JSON, which knows numbers and no integers; and `true` is none of them."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(item, other[name]) for name, item in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    kinds = {type(one) if type(one) is not float else int, type(other) if type(other) is not float else int}
    return len(kinds) == 1 and one == other


def edited(value: object, other: object, draw: st.DrawFn) -> object:
    """The value with one thing in it changed."""
    if isinstance(value, dict) and value and draw(st.booleans()):
        name = draw(st.sampled_from(sorted(value)))
        return {**value, name: edited(value[name], other, draw)}
    if isinstance(value, list) and value and draw(st.booleans()):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], edited(value[at], other, draw), *value[at + 1 :]]
    return other


@st.composite
def pairs(draw: st.DrawFn) -> tuple[object, object]:
    one, other = draw(CALLS), draw(CALLS)
    return one, edited(one, other, draw)


@settings(max_examples=size("TOOLGEN_CALLS", 150, 5000))
@given(pairs())
def test_no_two_calls_share_a_digest_unless_they_are_one(pair: tuple[object, object]) -> None:
    """Digests of approvals, keys of kept answers and of idempotency are all made of this form; TOOLGEN_CALLS=100000 looks longer."""
    one, other = pair
    if not same(one, other):
        assert digest(encodable(one)) != digest(encodable(other))
        assert encoded(one) != encoded(other)
    assert encoded(one) == canonical(encodable(one))
    assert encoded(one) == written(encodable(one))
    assert same(decoded(json.loads(encoded(one))), one)


FLAT = (
    st.text(max_size=6)
    | st.sampled_from(["\ud800", "hmac-sha256:x", "$text", ""])
    | st.booleans()
    | st.integers()
    | st.none()
    | st.floats()
)


@settings(max_examples=size("TOOLGEN_FLAT", 300, 20_000), deadline=None)
@given(st.dictionaries(st.text(max_size=3) | st.sampled_from(["$text", "b", "a"]), FLAT, max_size=4))
def test_a_flat_form_is_the_canonical_form(value: dict[str, object]) -> None:
    form = flat_form(value)
    assert not form or form == canonical(encodable(value)) == canonical(value)


def test_plain_arguments_have_a_flat_form() -> None:
    assert flat_form({"b": True, "a": 5, "text": "x"}) == b'{"a":5,"b":true,"text":"x"}'
    assert flat_form({}) == b"{}"
