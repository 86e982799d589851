"""JSON that is read and written without failing, whatever a system answered."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.core import json_codec
from toolgen.core.json_codec import (
    PART,
    TooDeepError,
    carried,
    decode_json,
    decode_json_in_turns,
    encode_json,
    file_json,
    indented_json,
)

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


def _decoded(decode: Callable[[bytes], Any], body: bytes) -> Any:
    try:
        return repr(decode(body))
    except ValueError as error:
        return type(error)


TOKENS = st.sampled_from(
    ["[", "]", "{", "}", ",", ":", '"a"', '"b"', '"\\ud800"', "1", "1e999", "NaN", "nul", "é", " ", "\n", "0" * 301]
)


@given(
    st.recursive(
        st.text(max_size=30) | st.integers() | st.floats(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=2), inner),
    ),
    st.lists(st.tuples(st.integers(0, 400), TOKENS), max_size=2),
    st.integers(1, 80),
    st.booleans(),
)
def test_a_text_that_is_decoded_in_turns_has_the_same_value_or_error(
    value: Any, inserted: list[tuple[int, str]], part: int, spaced: bool
) -> None:
    text = json.dumps(value, indent=1 if spaced else None, ensure_ascii=spaced)
    for at, token in inserted:
        text = text[:at] + token + text[at:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_codec, "PART", part)
        found = _decoded(lambda body: asyncio.run(decode_json_in_turns(body, partial(asyncio.sleep, 0))), text.encode())
    assert found == _decoded(decode_json, text.encode())


async def test_others_have_a_turn_while_a_long_text_is_decoded() -> None:
    body = encode_json({"items": [{"id": number, "name": "x" * 80} for number in range(10_000)], "pad": "y" * PART * 3})
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(count())
    value = await decode_json_in_turns(body, partial(asyncio.sleep, 0))
    others.cancel()
    assert value == decode_json(body)
    assert turns > len(body) // PART


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


NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
EDGES = st.sampled_from(
    [1e15, 1e16, 1e17, 1.5e16, 1e21, 1e22, 1e-4, 1e-5, 1e-6, 5e-324, 1.7976931348623157e308, -0.0, 0.1]
)
TEXTS = st.text(max_size=8) | st.sampled_from(["1e5", '"1e5', "\\1e5", '\\"', "\x7f", "\u2028", "😀"])
PLAIN = st.recursive(
    st.none() | st.booleans() | NUMBERS | EDGES | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(PLAIN)
def test_every_encoder_writes_what_the_json_module_reads(value: Any) -> None:
    for write in (encode_json, file_json, indented_json):
        written = write(value)
        assert json.loads(written) == value
        assert repr(json.loads(written)) == repr(value)  # 1, 1.0 and True are one number to ==, and so are 0.0 and -0.0
    assert json.loads(file_json(value, sort_keys=True)) == value
    assert decode_json(encode_json(value)) == decode_json(file_json(value)) == value


@given(st.integers() | st.integers(0, 299).map(lambda digits: 10**digits))
def test_an_integer_is_written_with_all_its_digits(number: int) -> None:
    for write in (encode_json, file_json):
        assert write([number, -number]) == f"[{number},{-number}]".encode()
    assert decode_json(f"[{number}]".encode()) == [number]


@given(PLAIN)
def test_files_have_the_bytes_that_orjson_writes(value: Any) -> None:
    """The form of generated files is older than their encoder, and digests of whole files are kept by others."""
    orjson = pytest.importorskip("orjson", reason="orjson is not installed, and is no dependency")
    assert file_json(value) == orjson.dumps(value)
    assert file_json(value, sort_keys=True) == orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    assert indented_json(value) == orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 5000,
        b"text [" + b"[" * 90 + b"]" * 91,
        b'{"a": ' + b"[" * 90 + b"}",
        b"[" * 90 + b"]" * 89,
    ],
)
def test_text_with_many_brackets_is_no_json_and_not_json_that_is_too_deep(body: bytes) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        decode_json(body)


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
