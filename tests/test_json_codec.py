"""JSON that is read and written without failing, whatever a system answered."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.json_codec import TooDeepError, carried, decode_json, encode_json

NOTE = "(a number that JSON cannot carry)"


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"x":1e999}', {"x": f"1e999 {NOTE}"}),
        (b"[NaN, -Infinity]", [f"NaN {NOTE}", f"-Infinity {NOTE}"]),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b"9" * 5000, f"{'9' * 40}…, 5000 characters {NOTE}"),
        (b"1e-999", 0.0),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'\xef\xbb\xbf"x"', "x"),
        ('"é"'.encode("utf-16"), "é"),
    ],
)
def test_what_no_program_could_hold_is_text_that_says_so(body: bytes, value: Any) -> None:
    assert decode_json(body) == value


@pytest.mark.parametrize("body", [b"", b"{", b"[1,]", b"[" * 100_000, b'"\xed\xa0\x80"', b"\xff", b"'x'", b"01", b"1."])
def test_what_is_no_json_is_a_value_error(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whoever reads it says what
        decode_json(body)


ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats() | st.text() | st.just("\ud800"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("\udc00"), inner) | st.tuples(inner),
    max_leaves=20,
)


@given(ODD)
def test_whatever_is_made_of_what_json_has_can_be_written_and_read_by_a_strict_reader(value: Any) -> None:
    msgspec.json.decode(encode_json(value))
    assert decode_json(encode_json(carried(value))) == carried(value)


def test_what_is_nested_without_end_is_refused() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(TooDeepError):
        encode_json(deep)


def test_what_json_has_is_left_as_it_is() -> None:
    value = {"a": [1, 2.5, None, True, "é\u2028", 10**25], "b": {}}
    assert carried(value) == value
    assert msgspec.json.decode(encode_json(MappingProxyType({"a": (1,)}), dict)) == {"a": [1]}
    with pytest.raises(TypeError):
        encode_json({"a": object()})
    assert not math.isnan(msgspec.json.decode(encode_json([float("nan"), 10**30]))[1])
