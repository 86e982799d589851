"""Files that stand as base64 in answers: what is taken for one, and what is left as it is."""

from __future__ import annotations

import base64
import random
import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exhaustive import examples
from toolgen.core.json_codec import encode_json
from toolgen.model.media import INLINE, may_hold_files
from toolgen.pipeline.responses.encoded_files import MAX_FILES, completed, declared_names, taken_out

OTHER = b"\0" + random.Random(4).randbytes(2999)
PNG = b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(3000)


def _encoded(body: bytes) -> str:
    return base64.b64encode(body).decode()


def _in_lines(text: str, length: int, end: str = "\n") -> str:
    return "".join(text[at : at + length] + end for at in range(0, len(text), length))


@pytest.mark.parametrize(
    ("written", "body", "media_type"),
    [
        (_encoded(PNG), PNG, "image/png"),
        (_in_lines(_encoded(PNG), 60), PNG, "image/png"),  # as GitHub writes the contents of a file
        (_in_lines(_encoded(PNG), 76, "\r\n"), PNG, "image/png"),
        (_encoded("Grüße\n".encode() * 400), "Grüße\n".encode() * 400, "text/plain"),
        (_encoded(b"x" * 3000), b"x" * 3000, "text/plain"),
        ("data:image/png;base64," + _encoded(PNG), PNG, "image/png"),
        ("data:;base64," + _encoded(b"\0" * 3000), b"\0" * 3000, "application/octet-stream"),
        (base64.urlsafe_b64encode(PNG).decode().rstrip("="), PNG, "image/png"),  # a format that no token has
        (_encoded(PNG)[:-3], PNG[:-2], "image/png"),
        ({"base64": _encoded(PNG)}, PNG, "image/png"),
        ({"base64": _in_lines(_encoded(PNG), 76)}, PNG, "image/png"),
        ({"base64": base64.urlsafe_b64encode(OTHER).decode()}, OTHER, "application/octet-stream"),
        ({"base64": "data:image/png;base64," + _encoded(PNG)}, PNG, "image/png"),
        ({"base64": _encoded(PNG), "media_type": "application/x-own", "filename": "a.bin"}, PNG, "application/x-own"),
    ],
)
@pytest.mark.parametrize("around", ["root", "member", "list", "deep"])
def test_a_file_is_taken_out_wherever_it_stands(written: Any, body: bytes, media_type: str, around: str) -> None:
    place = {"resource": {"media_type": media_type, "size": len(body)}}
    wrap = {
        "root": lambda value: value,
        "member": lambda value: {"id": 1, "content": value, "after": ["x"]},
        "list": lambda value: ["x", value, None],
        "deep": lambda value: {"rows": [[1, {"blob": value}]], "row_count": 1},
    }[around]
    data = wrap(written)
    before = encode_json(data)
    assert around == "root" or may_hold_files(before)
    made, files = taken_out(data)
    assert made == wrap(place)
    assert [(one.body, one.media_type) for one in files] == [(body, media_type)]
    assert encode_json(data) == before  # which others hold too
    files[0].place["uri"] = "u"
    assert b'"uri":"u"' in encode_json(made)


@pytest.mark.parametrize(
    "text",
    [
        "ACGT" * 600,
        "0123456789abcdef" * 200,
        "A1" * 700,
        "word " * 500,
        "Apple\nBanana1\nCherry pie\n" * 100,
        "One2\nThree4five\n" * 200,
        "https://example.org/" + "a1B2" * 500,
        "eyJhbGciOi.eyJzdWIi." + "a1B2" * 500,
        base64.urlsafe_b64encode(random.Random(2).randbytes(3000)).decode().rstrip("="),  # an opaque token
        _encoded(OTHER)[:-3],
        f"-----BEGIN CERTIFICATE-----\n{_in_lines(_encoded(OTHER), 64)}-----END CERTIFICATE-----\n",
        f"see https://example.org/?state={'a1B2' * 500} for more",
        f"the next token is {_encoded(OTHER)}, so send it",
        _encoded(b"s" * INLINE),
    ],
)
def test_what_is_no_file_stays_as_it_is(text: str) -> None:
    data = {"id": 1, "text": text, "list": [text]}
    made, files = taken_out(data)
    assert made is data
    assert files == []


LINES = _in_lines(_encoded(OTHER), 76)


@pytest.mark.parametrize(
    ("text", "body", "around"),
    [
        (f"It is {_encoded(OTHER)}, as asked for.", OTHER, "It is {}, as asked for."),
        (f"It is {_encoded(PNG)}!", PNG, "It is {}!"),
        (f"![plot](data:image/png;charset=x;base64,{_encoded(PNG)}) of May", PNG, "![plot]({}) of May"),
        (f"![plot](DATA:image/png;base64,{_encoded(PNG)})", PNG, "![plot]({})"),
        (
            f'{{"url":"https://example.org/x","image":"{_encoded(OTHER)}"}}',
            OTHER,
            '{{"url":"https://example.org/x","image":"{}"}}',
        ),
        (f"Subject: x\n\n--b\n\n{LINES}\n--b--\n", OTHER, "Subject: x\n\n--b\n\n{}\n\n--b--\n"),
        (f'{{"file": "{LINES}"}}'.replace("\n", "\\n"), OTHER, '{{"file": "{}"}}'),
        (f"next_picture: {_encoded(PNG)}", PNG, "next_picture: {}"),
        (f"b'{_encoded(OTHER)}'", OTHER, "b'{}'"),
    ],
)
def test_a_file_among_the_words_of_a_text_is_named_there(text: str, body: bytes, around: str) -> None:
    data: Any = {"id": 1, "texts": [text, "word " * 500]}
    assert may_hold_files(encode_json(data))
    made, files = taken_out(data)
    assert [one.body for one in files] == [body]
    files[0].place["uri"] = "u"
    whole: Any = completed(made, lambda place: f"<{place['uri']}, {place['size']}>")
    assert whole["texts"][0].replace("\\n", "") == around.format(f"<u, {len(body)}>")
    assert whole["texts"][1:] == data["texts"][1:]


@pytest.mark.parametrize("inner", [[_encoded(PNG)], {"a": _encoded(PNG)}])
def test_an_object_that_only_has_the_name_of_a_file_is_searched(inner: Any) -> None:
    made, files = taken_out({"base64": inner})
    assert [one.body for one in files] == [PNG]
    assert _encoded(PNG) not in str(made)


@pytest.mark.parametrize("name", ["next_token", "nextCursor", "endCursor", "signature", "continuation"])
def test_tokens_that_are_given_back_stay(name: str) -> None:
    data = {name: _encoded(random.Random(3).randbytes(3000))}
    assert taken_out(data) == (data, [])


def test_what_is_declared_to_be_base64_is_taken_for_it() -> None:
    schema = {
        "type": "object",
        "properties": {
            "next_blob": {"type": "string", "format": "byte"},
            "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
        },
        "$defs": {
            "item": {
                "properties": {
                    "many": {"type": "array", "items": {"type": "string", "contentEncoding": "BASE64"}},
                    "plain": {"type": "string"},
                }
            }
        },
    }
    names = declared_names(schema)
    assert names == {"next_blob", "many"}
    zero = _encoded(b"\0" * 3000)
    data = {"next_blob": zero, "items": [{"many": [zero], "plain": zero}]}
    made, files = taken_out(data, names)
    place = {"resource": {"media_type": "application/octet-stream", "size": 3000}}
    assert made == {"next_blob": place, "items": [{"many": [place], "plain": zero}]}
    assert len(files) == 2
    assert declared_names(None) == frozenset()


def test_only_so_many_files_are_taken_to_be_kept() -> None:
    made, files = taken_out([_encoded(PNG)] * (MAX_FILES + 5))
    assert len(files) == MAX_FILES
    assert made == [{"resource": {"media_type": "image/png", "size": len(PNG)}}] * (MAX_FILES + 5)


_TEXTS = st.one_of(
    st.text(max_size=50),
    st.integers(1367, 5000).map(lambda size: _encoded(random.Random(size).randbytes(size))),
    st.integers(1367, 5000).map(lambda size: random.Random(size).choice(string.ascii_letters) * size),
)
_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), _TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(st.text(max_size=8), inner, max_size=5)),
    max_leaves=20,
)


@settings(max_examples=examples(400), deadline=None)
@given(_JSON)
def test_the_quick_look_at_the_bytes_misses_no_file(data: Any) -> None:
    made, files = taken_out(data)
    made = completed(made, lambda _: "a file")
    if files:
        assert may_hold_files(encode_json(data))
    assert taken_out(made) == (made, [])
