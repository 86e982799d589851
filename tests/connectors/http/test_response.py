"""Answers: decoded by their type, capped, cleaned, scrubbed, and turned into something an agent can act on."""

from __future__ import annotations

import base64
import html
import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.connectors.http.response import MAX_ANSWER_SIZE, HttpResponse, decode, result, retry_after
from toolgen.connectors.http.scrubber import Scrubber
from toolgen.core.json_codec import TooDeepError
from toolgen.model.result import Delivery, Failed, Success

CANARY = "canary-7f3a/x"
NOBODY = Scrubber(())


def answer(body: bytes | str, content_type: str = "application/json", status: int = 200, **more: Any) -> HttpResponse:
    raw = body.encode() if isinstance(body, str) else body
    fields: dict[str, Any] = {"truncated": False, "headers": {}, **more}
    return HttpResponse(status=status, content_type=content_type, body=raw, **fields)


@pytest.mark.parametrize(
    ("body", "content_type", "data"),
    [
        ('{"a": [1, null]}', "application/json", {"a": [1, None]}),
        ('{"a": 1}', "application/vnd.api+json; charset=utf-8", {"a": 1}),
        ('\ufeff{"a": 1}', "application/json", {"a": 1}),
        ("1000000000000000000000", "application/json", 10**21),
        ('{"a": 1}', "", {"a": 1}),
        ("plain", "", "plain"),
        ("", "application/json", None),
        ("{not json", "application/json", "{not json"),
        ("[NaN]", "application/json", ["NaN (a number that JSON cannot carry)"]),
        ('{"x": -1e999}', "application/json", {"x": "-1e999 (a number that JSON cannot carry)"}),
        ("[" * 5000, "application/json", "[" * 5000),
        ("see [" * 90, "", "see [" * 90),
        ("<p>é</p>", "text/html", "é"),
        ("é".encode("latin-1"), "text/plain; charset=ISO-8859-1", "é"),
        (b"\xff", "text/plain", "\ufffd"),
        (b"a", "text/plain; charset=unicode_escape", "a"),
        ("a: 1", "application/yaml", "a: 1"),
        (b"\x89PNG", "image/png", {"base64": "iVBORw==", "media_type": "image/png"}),
        (b"\x00\xff", "", {"base64": "AP8=", "media_type": "application/octet-stream"}),
        # What bytes are is told by them, not by what they are called.
        (b"\x89PNG\r\n\x1a\n", "text/plain", {"base64": "iVBORw0KGgo=", "media_type": "image/png"}),
        (b"\x89PNG\r\n\x1a\n", "application/json", {"base64": "iVBORw0KGgo=", "media_type": "image/png"}),
        (b"\x00\xff", "text/html", {"base64": "AP8=", "media_type": "application/octet-stream"}),
        (b"%PDF-1.7 is how it begins", "text/plain", "%PDF-1.7 is how it begins"),
        (b"a\x00b", "text/plain", "ab"),
        ("é".encode("utf-16"), "text/plain; charset=utf-16", "é"),
        ("\u0130\u00e9".encode("utf-16-le"), 'text/plain; charset="UTF-16LE"', "\u0130\u00e9"),
        (b"", "application/x-ndjson", []),
        (b"", "text/event-stream", []),
    ],
)
def test_a_body_is_decoded_by_its_type(body: str | bytes, content_type: str, data: Any) -> None:
    assert decode(answer(body, content_type), NOBODY) == data


CHARSETS = {
    "ISO-8859-1": "é",
    "latin1": "é",
    "windows-1252": "“€”",
    "cp1252": "“€”",
    "iso-8859-15": "€",
    "windows-1251": "Привет",
    "KOI8-R": "Привет",
    "Shift_JIS": "表示、ソ",
    "sjis": "表示、ソ",
    "windows-31j": "表示①",
    "EUC-JP": "表示",
    "iso-2022-jp": "表示",
    "GBK": "中文",
    "gb2312": "中文",
    "gb18030": "中文😀",
    "Big5": "中文",
    "euc-kr": "한국",
    "macintosh": "é",
    "utf-16": "é中",
    "utf-8": "é中",
}


@pytest.mark.parametrize(("charset", "text"), CHARSETS.items())
@pytest.mark.parametrize("media_type", ["application/json", "application/vnd.api+json"])
def test_json_in_a_declared_character_set_is_data(charset: str, text: str, media_type: str) -> None:
    value = {"a": [text, f"{text}\u202e{CANARY}"], text: 1}
    written = json.dumps(value, ensure_ascii=False).replace("\u202e", "")
    codec = "cp932" if charset == "windows-31j" else charset
    body, kind = written.encode(codec), f'{media_type}; charset="{charset}"'
    assert decode(answer(body, kind), Scrubber((CANARY,))) == {"a": [text, f"{text}***"], text: 1}
    said = decode(answer(text.encode(codec), f"text/plain; charset={charset}"), NOBODY)
    assert said == text
    whole = {"data": [text] * 50}
    cut = json.dumps(whole, ensure_ascii=False).encode(codec)[:-7]
    if charset.lower() not in {"utf-16", "iso-2022-jp"}:  # whose end cannot be told from a cut
        found = result(answer(cut, kind, truncated=True), NOBODY, "GET", Delivery())
        assert isinstance(found, Success)
        assert isinstance(found.data, dict)
        assert set(found.data["data"]) == {text}  # type: ignore[arg-type]


@pytest.mark.parametrize("charset", ["iso-8859-1", "windows-1252", "shift_jis", "nothing", "unicode_escape", "x" * 90])
def test_json_that_reads_as_utf_8_is_utf_8(charset: str) -> None:
    body = json.dumps(["é中"], ensure_ascii=False).encode()
    assert decode(answer(body, f"application/json; charset={charset}"), NOBODY) == ["é中"]


def test_an_answer_that_nothing_changed_is_an_answer() -> None:
    found = result(answer(b"", "", 304, headers={"etag": '"v7"', "server": "x"}), NOBODY, "GET", Delivery(status=304))
    assert isinstance(found, Success)
    assert found.data == {"status": 304, "headers": {"etag": '"v7"'}}


def test_a_body_that_is_nested_too_deeply_is_not_decoded() -> None:
    for body in ("[" * 65 + "]" * 65, '{"a":' * 65 + "1" + "}" * 65):
        with pytest.raises(TooDeepError):
            decode(answer(body, "application/json"), NOBODY)


@pytest.mark.parametrize(
    ("dirty", "clean"),
    [
        ("a\x00b\x1b[31mc\x9b", "ab[31mc"),
        ("user\u202egnp.exe", "usergnp.exe"),
        ("a\u2066b\u2069c\u200bd\ufeff", "abcd"),
        ("hi\U000e0069\U000e0067", "hi"),
        ("line\n\ttab", "line\n\ttab"),
        ("👩\u200d🚀", "👩\u200d🚀"),
    ],
)
def test_what_a_reader_would_not_see_is_stripped(dirty: str, clean: str) -> None:
    assert decode(answer(dirty, "text/plain"), NOBODY) == clean
    assert decode(answer(json.dumps({dirty: [dirty]})), NOBODY) == {clean: [clean]}
    assert decode(answer(json.dumps([dirty], ensure_ascii=False)), NOBODY) == [clean]


def test_a_lone_surrogate_does_not_get_through() -> None:
    assert decode(answer(r'["a\ud800b"]'), NOBODY) == ["ab"]


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"you": f"sent {CANARY}!"}),
        json.dumps({CANARY: 1}),
        json.dumps([CANARY]).replace("/", "\\/"),
        '["' + "".join(f"\\u{ord(letter):04x}" for letter in CANARY) + '"]',
        json.dumps([CANARY.replace("7", "\u200b7")]),
    ],
)
def test_a_secret_that_is_echoed_is_scrubbed_however_it_is_written(body: str) -> None:
    data = decode(answer(body), Scrubber((CANARY,)))
    assert CANARY not in json.dumps(data)
    assert "***" in json.dumps(data)


def _each_text_scrubbed(value: Any, scrubber: Scrubber) -> Any:
    match value:
        case str():
            return scrubber.text(value)
        case list():
            return [_each_text_scrubbed(item, scrubber) for item in value]
        case dict():
            return {scrubber.text(name): _each_text_scrubbed(item, scrubber) for name, item in value.items()}
    return value


FORMS = [
    CANARY, CANARY.upper(), quote(CANARY, safe=""), quote(quote(CANARY, safe="")), html.escape(CANARY), CANARY.encode().hex(),
    base64.b64encode(CANARY.encode()).decode(), CANARY.replace("/", "\\/"), "".join(f"\\u{ord(one):04x}" for one in CANARY),
    "".join(f"&#{ord(one)};" for one in CANARY), CANARY[:6], CANARY[6:], 'q"\\', "pin1",
]  # fmt: skip
PARTS = [
    *FORMS,
    "\\",
    '"',
    "/",
    "\n",
    "\r",
    "\t",
    "\b",
    "\x00",
    "\x1b",
    "\u200b",
    "u0041",
    "%",
    "&",
    " ",
    "x",
    "é",
    "\U0001f44d",
]
WORDS = st.lists(st.sampled_from(PARTS), max_size=6).map("".join)
ANSWERS = st.recursive(
    WORDS | st.none() | st.integers() | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@given(ANSWERS, st.booleans(), st.booleans())
def test_an_answer_is_what_it_is_with_each_of_its_texts_scrubbed(value: Any, ascii_only: bool, slashes: bool) -> None:
    scrubber = Scrubber((CANARY, 'q"\\secret', "pin1"))
    body = json.dumps(value, ensure_ascii=ascii_only)
    body = body.replace("/", "\\/") if slashes else body
    assert decode(answer(body), scrubber) == _each_text_scrubbed(json.loads(body), scrubber)


def test_secrets_are_scrubbed_from_text_and_bytes_and_short_ones_only_as_a_whole() -> None:
    scrubber = Scrubber((CANARY, "T"))
    assert decode(answer(f"key={CANARY}", "text/plain"), scrubber) == "key=***"
    shown = decode(answer(b"\x00" + CANARY.encode(), "application/octet-stream"), scrubber)
    assert isinstance(shown, dict)
    assert base64.b64decode(str(shown["base64"])) == b"\x00***"
    assert decode(answer('["T", "TT"]'), scrubber) == ["***", "TT"]
    assert CANARY not in repr(scrubber)


def test_an_answer_beyond_the_cap_is_cut_as_text_and_refused_as_json() -> None:
    cut = result(answer("abc", "text/plain", truncated=True), NOBODY, "GET", {})
    assert isinstance(cut, Success)
    assert (cut.data, cut.truncated) == ("abc", True)
    refused = result(answer('{"a":', truncated=True), NOBODY, "GET", {})
    assert isinstance(refused, Failed)
    assert refused.error.code == "response_too_large"
    assert str(MAX_ANSWER_SIZE) in refused.error.message


@pytest.mark.parametrize(
    ("status", "body", "content_type", "said"),
    [
        (404, '{"message": "no such pet"}', "application/json", "404 Not Found: no such pet"),
        (400, '{"error": {"message": "limit is wrong"}}', "application/json", "400 Bad Request: limit is wrong"),
        (422, '{"title": "t", "detail": "limit: too big"}', "application/problem+json", "Unprocessable"),
        (500, "<h1>Oops</h1>", "text/html", "500 Internal Server Error: Oops"),
        (502, "", "", "502 Bad Gateway"),
        (503, '{"message": "Service unavailable"}', "application/json", "503 Service Unavailable"),
        (404, "404: not found\n", "text/plain", "404 Not Found"),
        (
            404,
            "<title>404 Not Found</title><h1>404 Not Found</h1><hr>nginx/1.26",
            "text/html",
            "404 Not Found: nginx/1.26",
        ),
        (404, "<title>No pet</title><h1>No pet</h1><p>It is gone.", "text/html", "404 Not Found: No pet It is gone."),
        (302, "", "", "302 Found"),
        (418, '["x"]', "application/json", "418"),
        (599, "", "", "599"),
    ],
)
def test_an_error_says_what_the_server_said_and_what_to_do(
    status: int, body: str, content_type: str, said: str
) -> None:
    failed = result(answer(body, content_type, status), NOBODY, "GET", {})
    assert isinstance(failed, Failed)
    assert failed.error.code == "upstream_error"
    assert failed.error.message.endswith(said) or said in {"Unprocessable", "418"}
    assert failed.error.suggestion


def test_an_error_is_bounded_and_scrubbed() -> None:
    body = json.dumps({"message": f"bad key {CANARY} " + "x" * 5000})
    failed = result(answer(body, status=401), Scrubber((CANARY,)), "GET", {})
    assert isinstance(failed, Failed)
    assert len(failed.error.message) <= 1000
    assert CANARY not in failed.error.message + json.dumps(failed.data)


def test_head_answers_with_its_headers() -> None:
    shown = result(answer("", "", headers={"etag": f'"{CANARY}"'}), Scrubber((CANARY,)), "HEAD", {})
    assert isinstance(shown, Success)
    assert shown.data == {"status": 200, "headers": {"etag": '"***"'}}


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        ("999999999999", 86400.0),
        ("Sun, 09 Sep 2001 01:46:50 GMT", 10.0),
        ("Sun, 09 Sep 2001 01:00:00 GMT", 0.0),
        ("soon", None),
        ("-1", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: str, seconds: float | None) -> None:
    assert retry_after(value, 1_000_000_000.0) == seconds


@pytest.mark.parametrize("code", [*range(0x20), 0x7F, 0x80, 0x9F, 0x200B, 0x202E])
def test_a_control_character_is_stripped_wherever_it_stands_in_json(code: int) -> None:
    """Raw ones are no JSON below 0x20 but for blanks between values; beyond, and escaped, they are."""
    escaped = f'{{"a":"x\\u{code:04x}y"}}'.encode()
    kept = chr(code) in "\t\n\r"
    found = decode(answer(escaped), Scrubber(()))
    assert found == {"a": f"x{chr(code) if kept else ''}y"}
    if code >= 0x7F:
        assert decode(answer(f'{{"a":"x{chr(code)}y"}}'.encode()), Scrubber(())) == {"a": "xy"}


@pytest.mark.parametrize("digits", [18, 19, 20, 40])
def test_a_long_number_keeps_its_digits_wherever_it_stands(digits: int) -> None:
    number = "9" * digits
    body = f'{{"a":[1,{number}],"{number}":"{number}"}}'.encode()
    assert decode(answer(body), Scrubber(())) == {"a": [1, int(number)], number: number}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            {"type": "https://e.test/credit", "title": "No credit", "detail": "30 is less than 50"},
            "No credit: 30 is less than 50",
        ),
        ({"title": "No credit"}, "No credit"),
        (
            {
                "title": "Invalid",
                "errors": [
                    {"pointer": "#/age", "detail": "must be positive"},
                    {"pointer": "#/name", "detail": "is missing"},
                ],
            },
            "Invalid (#/age: must be positive; #/name: is missing)",
        ),
        (
            {"message": "Validation Failed", "errors": [{"field": "title", "code": "missing_field"}]},
            "Validation Failed (title: missing_field)",
        ),
        ({"title": "One or more", "errors": {"Name": ["is required", "is odd"]}}, "One or more (Name: is required)"),
        ({"detail": "no", "errors": ["a", 1, None, {}]}, "no (a)"),
        ({"detail": "no", "errors": [{"name": "x" * 5000, "reason": "y"}] * 1000}, "no (" + "x" * 119 + "…"),
    ],
)
def test_problem_details_say_what_to_change(body: Any, said: str) -> None:
    answer = HttpResponse(
        status=422, content_type="application/problem+json", body=json.dumps(body).encode(), truncated=False, headers={}
    )
    outcome = result(answer, Scrubber(()), "POST", {})
    assert isinstance(outcome, Failed)
    assert said in outcome.error.message
    assert len(outcome.error.message) <= 1000
    assert "arguments" in outcome.error.suggestion


def test_problem_details_are_scrubbed() -> None:
    body = json.dumps(
        {"title": "bad key canary-1f9c2e", "detail": "a\x1b[31m\u202eb", "errors": ["canary-1f9c2e"]}
    ).encode()
    answer = HttpResponse(status=400, content_type="application/problem+json", body=body, truncated=False, headers={})
    outcome = result(answer, Scrubber(("canary-1f9c2e",)), "GET", {})
    assert isinstance(outcome, Failed)
    assert "canary" not in repr(outcome)
    assert "\x1b" not in outcome.error.message
    assert "\u202e" not in outcome.error.message


def test_json_that_goes_on_beyond_the_cap_is_cut_after_a_whole_element() -> None:
    body = json.dumps({"items": [{"id": number} for number in range(1000)]}).encode()[:5000]
    answer = HttpResponse(status=200, content_type="application/json", body=body, truncated=True, headers={})
    outcome = result(answer, Scrubber(()), "GET", {})
    assert isinstance(outcome, Success)
    assert outcome.truncated
    assert isinstance(outcome.data, dict)
    assert outcome.data["items"] == [{"id": number} for number in range(len(outcome.data["items"]))]
    assert len(outcome.data["items"]) > 300
