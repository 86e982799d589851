"""The canonical form against an independent implementation of RFC 8785."""

from __future__ import annotations

import math

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from toolgen.canonical import canonical, digest, encodable
from toolgen.errors import CanonicalError

LARGEST = 2**53 - 1
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-LARGEST, LARGEST),
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
