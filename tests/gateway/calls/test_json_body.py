from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.gateway.calls.json_body import (
    MAX_BODY_SIZE,
    MAX_DEPTH,
    MAX_VALUES,
    Malformed,
    decode,
    encode,
    ended,
    identifier,
)
from toolgen.model.result import Shape, Success
from toolgen.pipeline.middleware import CallContext


class Body(msgspec.Struct, forbid_unknown_fields=True):
    arguments: dict[str, Any] = {}
    items: list[dict[str, int]] = []
    named: dict[str, int] = {}


@pytest.mark.parametrize(
    ("data", "pointer"),
    [
        (b"", ""),
        (b"{", ""),
        (b"[]", ""),
        (b'{"arguments": []}', "/arguments"),
        (b'{"items": [{"a": 1}, 2]}', "/items/1"),
        (b'{"named": {"x": "text"}}', "/named"),
        (b'{"wait_for": 1}', "/wait_for"),
        (b'{"a/b~c": 1}', "/a~1b~0c"),
        (b'{"arguments": {"x": NaN}}', ""),
        (b'{"arguments": {"x": "\xff"}}', ""),
        (b'{"arguments": {"x": "\\ud800"}}', ""),
    ],
)
def test_a_bad_body_is_refused_with_the_pointer_of_the_part_at_fault(data: bytes, pointer: str) -> None:
    with pytest.raises(Malformed) as caught:
        decode(data, Body)
    assert caught.value.pointer == pointer


def test_the_refusal_of_a_value_does_not_repeat_it() -> None:
    with pytest.raises(Malformed) as caught:
        decode(b'{"arguments": "hunter2-secret"}', Body)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("pair", [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")])
def test_json_nested_beyond_the_cap_is_refused_and_up_to_it_is_not(pair: tuple[bytes, bytes]) -> None:
    step = pair[0].count(b"[") + pair[0].count(b"{")
    levels = MAX_DEPTH // step
    assert decode(pair[0] * levels + b"1" + pair[1] * levels, object) is not None
    with pytest.raises(Malformed, match="nested"):
        decode(pair[0] * (levels + 1) + b"1" + pair[1] * (levels + 1), object)


def test_brackets_inside_strings_are_no_depth() -> None:
    text = "[{" * 500 + '\\"' + "[" * 500
    assert decode(msgspec.json.encode([text]), object) == [text]


def test_wide_json_is_no_deep_json() -> None:
    assert len(decode(b"[" + b",".join([b"{}"] * 10_000) + b"]", list)) == 10_000


def test_a_string_that_never_ends_is_read_once() -> None:
    """Looked for from every quote in it, it would be read half a million times, which takes hours."""
    for piece in (b'\\"', b'"', b"\\\\", b'\\"a'):
        with pytest.raises(Malformed):
            decode(b"[" * (MAX_DEPTH + 1) + b'"' + piece * (MAX_BODY_SIZE // len(piece)), object)


def test_more_values_than_anybody_means_are_refused_before_there_are_any() -> None:
    assert len(decode(b"[" + b",".join([b"1"] * (MAX_VALUES - 1)) + b"]", list)) == MAX_VALUES - 1
    for value in (b"1", b"[]", b"{}", b'{"a":1}'):
        with pytest.raises(Malformed, match="values"):
            decode(b"[" + b",".join([value] * MAX_VALUES) + b"]", list)
    assert decode(msgspec.json.encode(["," * MAX_VALUES * 2]), list)


def test_the_deepest_body_that_fits_is_refused_without_recursion() -> None:
    half = MAX_BODY_SIZE // 2
    with pytest.raises(Malformed, match="nested"):
        decode(b"[" * half + b"]" * half, object)


@pytest.mark.parametrize(
    "value",
    [
        {"a": 10**30},
        {"a": MappingProxyType({"b": (1, 2)})},
        {"a": MappingProxyType({"b": 10**30}), "c": [None, True, 1.5, "é"]},
    ],
)
def test_values_of_other_kinds_are_encoded_all_the_same(value: dict[str, Any]) -> None:
    decoded = decode(encode(value), object)
    assert decoded == {"a": 10**30} or decoded["a"]["b"] in ([1, 2], 10**30)  # type: ignore[index]


def test_half_a_surrogate_pair_is_spelled_out() -> None:
    assert encode({"a": "\ud800"}) == b'{"a":"\\\\ud800"}'


def test_not_a_number_is_never_written() -> None:
    assert encode([float("nan")]) == b"[null]"
    assert decode(encode([float("nan"), 10**30]), object) == [None, 10**30]


@pytest.mark.parametrize(
    ("text", "fine"),
    [("abc-1", True), ("x" * 128, True), ("", False), ("x" * 129, False), ("a b", False), ("a\n", False), ("é", False)],
)
def test_an_identifier_is_short_visible_ascii(text: str, fine: bool) -> None:
    assert identifier(text) is fine


@pytest.mark.parametrize(
    "data",
    [
        b'{"name": "a", "name": "b"}',
        b'{"name": "a", "name": "a"}',
        b'{"name": "a", "n\\u0061me": "b"}',
        b'{"arguments": {"x": [{"to": "ann", "to": "eve"}]}}',
        b'{"url": "http://x:1/", "list": [{"a": ":"}, {"a": 1, "b": 2, "a": 3}]}',
        b'{"\\"a\\":": 1, "\\"a\\":": 2}',
    ],
)
def test_a_member_that_stands_twice_is_refused_however_it_is_written(data: bytes) -> None:
    with pytest.raises(Malformed, match="two members of one name"):
        decode(data, dict)


@given(
    st.recursive(
        st.text(max_size=8) | st.integers(-(2**63), 2**63 - 1) | st.none(),
        lambda deeper: st.lists(deeper) | st.dictionaries(st.text(max_size=4), deeper),
        max_leaves=20,
    )
)
def test_no_other_json_is_taken_for_such(value: object) -> None:
    data = json.dumps({"value": value}).encode()
    assert decode(data, dict) == {"value": value}


@pytest.mark.parametrize(
    ("told", "data", "partial"),
    [
        ({"data": {"a": 1}, "errors": [{"message": "m"}]}, {"a": 1}, [{"message": "m"}]),
        ({"data": {"a": 1}, "errors": "hidden"}, {"a": 1}, [{"message": "hidden"}]),
        ("[redacted]", "[redacted]", [{"message": "withheld"}]),
    ],
)
def test_what_a_policy_hides_of_a_graphql_answer_leaves_an_envelope(told: Any, data: object, partial: object) -> None:
    envelope = ended("t", "call_1", Success(data=told, shape=Shape.GRAPHQL), CallContext(), 1.0)
    assert (envelope.data, envelope.meta.partial) == (data, partial)
