"""Bodies: what each media type makes of the arguments, byte for byte."""

from __future__ import annotations

import base64
import json
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.connectors.http.bindings import binding
from toolgen.connectors.http.bodies import Encoded, encode_body
from toolgen.connectors.http.parameter_styles import UnbindableError, encode_json
from toolgen.connectors.http.request_builder import bind
from toolgen.model.tool import HttpBody, HttpPart

FORM = "application/x-www-form-urlencoded"
FILE = {"base64": base64.b64encode(b"\x00\xff").decode(), "filename": "a.png", "media_type": "image/png"}


def sent(body: HttpBody, arguments: dict[str, Any]) -> Encoded:
    encoded = encode_body(body, arguments)
    assert encoded is not None
    return encoded


def parts(encoded: Encoded) -> list[tuple[str, str | None, str, bytes]]:
    """(name, filename, content type, content) of each part, as an independent parser reads them."""
    message = BytesParser(policy=HTTP).parsebytes(
        f"Content-Type: {encoded.media_type}\r\n\r\n".encode() + encoded.content
    )
    return [
        (
            str(part.get_param("name", header="content-disposition")),
            part.get_filename(),
            part.get_content_type(),
            part.get_payload(decode=True),
        )
        for part in message.iter_parts()
    ]


@pytest.mark.parametrize(
    "value",
    [{}, [], [1, {"a": None}], "text", 0, False, 10**30, 0.1, {"é": "\u2028"}, {"a": 9007199254740993, "b": "007"}],
)
def test_json_of_any_root_is_sent_exactly(value: Any) -> None:
    encoded = sent(HttpBody(media_type="application/json", argument="body", required=True), {"body": value})
    assert json.loads(encoded.content) == value
    assert encoded.media_type == "application/json"


def test_null_is_sent_where_it_was_given_and_absent_stays_absent() -> None:
    body = HttpBody(media_type="application/merge-patch+json", properties={"x": "a", "y": "b"}, required=True)
    assert sent(body, {"x": None}).content == b'{"a":null}'
    assert sent(body, {}).content == b"{}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (HttpBody(media_type="application/json", properties={"a": "a"}), None),
        (HttpBody(media_type="application/json", argument="body"), None),
        (HttpBody(media_type="application/json", properties={"a": "a"}, required=True), b"{}"),
        (HttpBody(media_type=FORM, properties={"a": "a"}), None),
    ],
)
def test_an_optional_body_nobody_gave_is_not_sent(body: HttpBody, expected: bytes | None) -> None:
    encoded = encode_body(body, {})
    assert (encoded.content if encoded else None) == expected


@pytest.mark.parametrize(
    ("value", "part", "expected"),
    [
        ("x y&z=é", None, "q=x+y%26z%3D%C3%A9"),
        (True, None, "q=true"),
        ([1, 2], None, "q=1&q=2"),
        ({"R": 1}, None, "q=%7B%22R%22%3A1%7D"),
        (None, None, ""),
        ([1, 2], HttpPart(explode=False), "q=1,2"),
        ([1, 2], HttpPart(style="pipeDelimited", explode=False), "q=1%7C2"),
        ({"R": 1, "G": {"x": 2}}, HttpPart(style="deepObject", explode=True), "q%5BR%5D=1&q%5BG%5D%5Bx%5D=2"),
        ({"R": 1}, HttpPart(style="form"), "R=1"),
        ([1, 2], HttpPart(content_type="application/json"), "q=%5B1%2C2%5D"),
        ("a/b c", HttpPart(allow_reserved=True), "q=a/b+c"),
    ],
)
def test_forms(value: Any, part: HttpPart | None, expected: str) -> None:
    body = HttpBody(media_type=FORM, properties={"q": "q"}, parts={"q": part} if part else {}, required=True)
    assert sent(body, {"q": value}).content.decode() == expected


def test_an_object_spread_over_a_form_cannot_speak_for_another_property() -> None:
    body = HttpBody(
        media_type=FORM, properties={"q": "q", "t": "tenant"}, parts={"q": HttpPart(style="form", explode=True)}
    )
    assert bind(binding(body=body), {"q": {"x": 1}, "t": "acme"}).body == b"x=1&tenant=acme"
    with pytest.raises(UnbindableError, match="'q'"):
        bind(binding(body=body), {"q": {"tenant": "other"}, "t": "acme"})


def test_multipart_sends_texts_objects_and_files_each_its_way() -> None:
    body = HttpBody(
        media_type="multipart/form-data",
        properties={"note": "note", "meta": "meta", "files": "files", "n": "n"},
        parts={"files": HttpPart(file=True, content_type="image/*"), "n": HttpPart(content_type="text/csv")},
        required=True,
    )
    encoded = sent(body, {"note": "hé\r\n--x", "meta": {"a": 1}, "files": [FILE, {"base64": "YQ=="}], "n": [1, 2]})
    assert parts(encoded) == [
        ("note", None, "text/plain", "hé\r\n--x".encode()),
        ("meta", None, "application/json", b'{"a":1}'),
        ("files", "a.png", "image/png", b"\x00\xff"),
        ("files", "files", "application/octet-stream", b"a"),
        ("n", None, "text/csv", b"1"),
        ("n", None, "text/csv", b"2"),
    ]
    assert encode_body(body, {"note": "x"}) == encode_body(body, {"note": "x"})


@pytest.mark.parametrize("filename", ['a"; name="x', "a%22", "é.txt", "a\\b"])
def test_a_filename_cannot_leave_its_quotes(filename: str) -> None:
    body = HttpBody(media_type="multipart/form-data", properties={"f": "f"}, parts={"f": HttpPart(file=True)})
    head = sent(body, {"f": {"base64": "YQ==", "filename": filename}}).content.split(b"\r\n")[1].decode()
    assert head.count('"') == 4
    assert head.startswith('Content-Disposition: form-data; name="f"; filename="')


@pytest.mark.parametrize(
    "file",
    [
        {"base64": "not base64!"},
        {"base64": "YQ"},
        {"base64": 5},
        {"base64": "YQ==", "filename": "a\r\nX: 1"},
        {"base64": "YQ==", "media_type": "text/plain\r\nX: 1"},
        {"base64": "YQ==", "media_type": "text"},
    ],
)
def test_a_file_that_is_none_is_refused(file: Any) -> None:
    body = HttpBody(media_type="multipart/form-data", properties={"f": "f"}, parts={"f": HttpPart(file=True)})
    with pytest.raises(UnbindableError):
        encode_body(body, {"f": file})


@pytest.mark.parametrize(
    ("value", "kind", "content"),
    [("a.png", "text/plain", b"a.png"), (7, "text/plain", b"7"), ({"url": "a"}, "application/json", b'{"url":"a"}')],
)
def test_what_may_be_a_file_and_is_none_is_sent_as_what_it_is(value: Any, kind: str, content: bytes) -> None:
    body = HttpBody(media_type="multipart/form-data", properties={"f": "f"}, parts={"f": HttpPart(file=True)})
    assert parts(sent(body, {"f": value})) == [("f", None, kind, content)]


@pytest.mark.parametrize("value", [{"filename": "a"}, 7])
def test_a_body_that_is_a_file_is_nothing_else(value: Any) -> None:
    body = HttpBody(media_type="image/png", argument="body", required=True, file=True)
    with pytest.raises(UnbindableError):
        encode_body(body, {"body": value})


@pytest.mark.parametrize(
    ("media_type", "value", "expected", "content"),
    [
        ("application/octet-stream", {"base64": "AAH/gA=="}, "application/octet-stream", b"\x00\x01\xff\x80"),
        ("image/*", FILE, "image/png", b"\x00\xff"),
        ("*/*", {"base64": "YQ=="}, "application/octet-stream", b"a"),
    ],
)
def test_a_whole_body_can_be_a_file(media_type: str, value: Any, expected: str, content: bytes) -> None:
    encoded = sent(HttpBody(media_type=media_type, argument="body", file=True), {"body": value})
    assert (encoded.media_type, encoded.content) == (expected, content)


def test_a_file_outside_the_declared_range_is_refused() -> None:
    with pytest.raises(UnbindableError, match="audio"):
        encode_body(HttpBody(media_type="audio/*", argument="body", file=True), {"body": FILE})


@pytest.mark.parametrize("media_type", ["text/plain", "application/xml", "text/csv; charset=utf-8"])
def test_text_is_sent_as_it_is(media_type: str) -> None:
    encoded = sent(HttpBody(media_type=media_type, argument="body"), {"body": "<a>é</a>\n"})
    assert (encoded.media_type, encoded.content) == (media_type, "<a>é</a>\n".encode())


@pytest.mark.parametrize("media_type", ["application/json\r\nX: 1", "json", "a/b; c"])
def test_a_media_type_that_is_none_is_refused(media_type: str) -> None:
    with pytest.raises(UnbindableError):
        encode_body(HttpBody(media_type=media_type, argument="body"), {"body": 1})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=10,
)


@given(JSON)
def test_json_reads_back_as_what_was_written(value: Any) -> None:
    assert json.loads(encode_json(value)) == value


@pytest.mark.parametrize(
    ("value", "part", "expected"),
    [
        ({"R": 1, "G": 2}, HttpPart(style="deepObject", explode=True), [("q[R]", "1"), ("q[G]", "2")]),
        ({"R": 1, "G": 2}, HttpPart(style="form", explode=True), [("R", "1"), ("G", "2")]),
        ([1, 2], HttpPart(style="form", explode=False), [("q", "1,2")]),
        ([1, 2], HttpPart(explode=True), [("q", "1"), ("q", "2")]),
    ],
)
def test_a_part_with_a_style_is_sent_in_its_style(value: Any, part: HttpPart, expected: list[tuple[str, str]]) -> None:
    body = HttpBody(media_type="multipart/form-data", properties={"q": "q"}, parts={"q": part})
    sent = encode_body(body, {"q": value})
    assert sent is not None
    whole = f"Content-Type: {sent.media_type}\r\n\r\n".encode() + sent.content
    parts = list(BytesParser(policy=HTTP).parsebytes(whole).iter_parts())
    read = [(one.get_param("name", header="content-disposition"), one.get_content().strip()) for one in parts]
    assert read == expected


@pytest.mark.parametrize("media_type", ["application/x-www-form-urlencoded", "multipart/form-data"])
@pytest.mark.parametrize("name", ["role", "ROLE"])
def test_an_object_cannot_say_what_a_property_left_out_would_say(media_type: str, name: str) -> None:
    body = HttpBody(
        media_type=media_type,
        properties={"meta": "meta", "role": "role"},
        parts={"meta": HttpPart(style="form", explode=True)},
        required=True,
    )
    with pytest.raises(UnbindableError):
        bind(binding(body=body), {"meta": {name: "admin"}})
    assert bind(binding(body=body), {"meta": {"color": "red"}}).body
