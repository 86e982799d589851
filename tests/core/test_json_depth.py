"""Depth of JSON: counted in one pass, exactly, whatever stands in strings."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.core.json_codec import MAX_DEPTH, TooDeepError, carried, decode_json, deeper_than, file_json, value_json

PAIRS = [
    (b"[", b"]"),
    (b'{"a":', b"}"),
    (b'{"]}":[', b"]}"),
    (b"[[],", b",[]]"),
    (b'["[{\\"",', b"]"),
    (b'["\\\\",', b"]"),
]
TEXTS = st.text(st.sampled_from('[]{}"\\,a:'), max_size=6)
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=60,
)


def depth_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@given(VALUES, st.integers(0, 70), st.booleans())
def test_the_count_is_exact(value: Any, around: int, escaped: bool) -> None:
    for _ in range(around):
        value = [value] if around % 2 else {"[": value}
    text = json.dumps(value, ensure_ascii=escaped).encode()
    depth = depth_of(value)
    for limit in {1, 12, 24, 25, 30, MAX_DEPTH, max(1, depth - 1), max(1, depth)}:
        assert deeper_than(text, limit) is (depth > limit)


def test_the_count_is_exact_in_texts_of_any_size() -> None:
    chance = random.Random(38)
    for levels in (3, 30, 62, 70):
        inner = [json.loads("[" * size + "]" * size) for size in range(1, levels)]
        value = [chance.choice(inner) for _ in range(3000)]
        text = json.dumps([value, "x" * 5000, {"[": '"]'}]).encode()
        depth = depth_of([value])
        assert not deeper_than(text, depth)
        assert deeper_than(text, depth - 1)


@pytest.mark.parametrize("pair", PAIRS)
def test_one_level_more_than_the_limit_is_refused(pair: tuple[bytes, bytes]) -> None:
    step = depth_of(json.loads(pair[0] + b"1" + pair[1])) if pair[0] != b"[[]," else 1
    levels = MAX_DEPTH // step - (pair[0] == b"[[],")
    text = pair[0] * levels + b"1" + pair[1] * levels
    assert decode_json(text) == json.loads(text)
    levels = MAX_DEPTH // step + 1
    with pytest.raises(TooDeepError):
        decode_json(pair[0] * levels + b"1" + pair[1] * levels)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("leaf", ["1", "1e999", "NaN", '"\\ud800"', "9" * 400])
def test_no_way_of_reading_goes_deeper(encoding: str, leaf: str) -> None:
    for levels, fits in ((MAX_DEPTH, True), (MAX_DEPTH + 1, False), (100_000, False)):
        text = ("[" * levels + leaf + "]" * levels).encode(encoding)
        if fits:
            decode_json(text)
        else:
            with pytest.raises(TooDeepError):
                decode_json(text)


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 900, 100_000])
def test_no_produced_value_goes_deeper(levels: int) -> None:
    value: Any = "\ud800"
    for _ in range(levels):
        value = (value,)
    for work in (value_json, carried):
        with pytest.raises(TooDeepError):
            work(value)
    while isinstance(value, tuple):
        value = value[0]


@given(st.floats(allow_nan=False, allow_infinity=False), st.text())
def test_files_keep_the_form_of_numbers(number: float, text: str) -> None:
    """What generated files have always had: an exponent from 1e16 on, with its sign, and one without zeros."""
    written = file_json([text, number, f"1e5,{number}"])
    shown = written[len(file_json(text)) + 2 :].split(b",")[0].decode()
    assert json.loads(written) == [text, number, f"1e5,{number}"]
    assert float(shown) == number
    assert ("e" in shown) is (number != 0 and not 1e-5 <= abs(number) < 1e16)
    assert "e" not in shown or ("e+" in shown) is (abs(number) >= 1)
