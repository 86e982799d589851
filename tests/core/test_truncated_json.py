"""What is made of JSON that broke off, wherever it did."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.core.json_codec import closed, without_half

ODD = ']\\"'
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=30,
)


@given(VALUES, st.floats(0, 1))
def test_whatever_was_read_is_valid_and_was_there(value: Any, where: float) -> None:
    body = json.dumps(value).encode()
    found = closed(body[: int(len(body) * where)])
    if found is not None:
        assert body.startswith(found[0].rstrip(b"]}")[:-1])
        without_half(json.loads(found[0]), found[1])


def test_a_list_ends_with_its_last_whole_element() -> None:
    first, second = {"id": 1, "tags": ["a,b", "c"]}, {"id": 2, "tags": [ODD, ","]}
    body = json.dumps({"total": 3, "items": [first, second, {"id": 3, "tags": []}]}).encode()
    for end in range(body.index(b'{"id": 2'), len(body)):
        found = closed(body[:end])
        assert found is not None
        kept = without_half(json.loads(found[0]), found[1])["items"]
        assert kept in ([first], [first, second])


@pytest.mark.parametrize("body", [b"", b"[", b'{"a"', b'"' + b"x" * 100, b"[" * 100_000 + b"1,", b'["' + b"," * 100])
def test_where_nothing_whole_was_read_there_is_nothing(body: bytes) -> None:
    assert closed(body) is None
