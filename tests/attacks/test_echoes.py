"""The forms in which a server may repeat a credential it was shown: none of them reaches the agent."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from toolgen.connectors.http.response import HttpResponse, decode
from toolgen.connectors.http.scrubber import Scrubber

SECRET = 'k3y/with "quotes"&more+8472910472'
DIGITS = "8472910472"


def answer(body: bytes, content_type: str = "application/json", *, truncated: bool = False) -> HttpResponse:
    return HttpResponse(status=200, content_type=content_type, body=body, truncated=truncated, headers={})


@pytest.mark.parametrize(
    "echo",
    [
        SECRET,
        quote(SECRET, safe=""),
        quote(SECRET),
        quote_plus(SECRET),
        quote(SECRET, safe="").lower(),
        json.dumps(SECRET)[1:-1],
        SECRET.replace("/", "\\/"),
        html.escape(SECRET),
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
    ],
)
@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
def test_an_echo_is_masked_in_every_form(echo: str, content_type: str) -> None:
    text = f"before {echo} after"
    body = json.dumps({"a": [text], text: 1}) if content_type == "application/json" else text
    shown = json.dumps(decode(answer(body.encode(), content_type), Scrubber([SECRET])), ensure_ascii=False)
    assert json.dumps(echo, ensure_ascii=False)[1:-1] not in shown
    assert "***" in shown


@pytest.mark.parametrize("body", [b'{"key": 8472910472}', b"[8472910472.5]", b'{"n": {"deep": [18472910472]}}'])
def test_a_secret_of_digits_is_masked_as_a_number_too(body: bytes) -> None:
    assert DIGITS not in json.dumps(decode(answer(body), Scrubber([DIGITS])))


def test_other_numbers_stay_numbers() -> None:
    assert decode(answer(b'{"key": "8472910472", "n": 5, "ok": true}'), Scrubber([DIGITS])) == {
        "key": "***",
        "n": 5,
        "ok": True,
    }


@pytest.mark.parametrize("length", range(6, len(DIGITS)))
def test_a_secret_cut_off_by_the_cap_leaves_no_beginning(length: int) -> None:
    cut = decode(answer(b"x" * 50 + DIGITS[:length].encode(), "text/plain", truncated=True), Scrubber([DIGITS]))
    assert cut == "x" * 50 + "***"


PLAIN = "sk-live-Canary8472910472"


def _each(form: str) -> str:
    return "".join(form.format(ord(letter)) for letter in PLAIN)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


HARD = {
    "each byte percent-encoded": _each("%{:02x}"),
    "each byte percent-encoded, twice": _each("%25{:02X}"),
    "each byte percent-encoded, three times": _each("%2525{:02X}"),
    "every other byte percent-encoded": "".join(f"%{ord(x):02x}" if at % 2 else x for at, x in enumerate(PLAIN)),
    "unicode escapes": _each("\\u{:04x}"),
    "unicode escapes of unicode escapes": _each("\\\\u{:04X}"),
    "braced unicode escapes": _each("\\u{{{:x}}}"),
    "hexadecimal escapes": _each("\\x{:02x}"),
    "decimal entities": _each("&#{};"),
    "hexadecimal entities": _each("&#x{:X};"),
    "entities, twice": _each("&amp;#{};"),
    "upper case": PLAIN.upper(),
    "lower case": PLAIN.lower(),
    "swapped case": PLAIN.swapcase(),
    "base64 behind one byte": _base64("x" + PLAIN + "yz"),
    "base64 behind two bytes": _base64("xx" + PLAIN + "y"),
    "base64 of basic credentials": _base64("user:" + PLAIN),
    "base64 twice": _base64(_base64(PLAIN)),
    "base64 of hexadecimal": _base64(PLAIN.encode().hex()),
    "hexadecimal of base64": _base64(PLAIN).encode().hex(),
    "base64, percent-encoded": quote(_base64("??" + PLAIN), safe=""),
    "base64 in a JSON string": json.dumps(json.dumps({"was": _base64(PLAIN)})),
    "base64 with entities": "".join(f"&#{ord(letter)};" for letter in _base64(PLAIN)),
}


@pytest.mark.parametrize("form", HARD)
@pytest.mark.parametrize("around", ["{}", "before {} after", "a={}&b=1", '{{"a": "{}"}}'])
def test_an_echo_is_masked_however_it_is_encoded(form: str, around: str) -> None:
    echo = HARD[form]
    text = around.replace("{}", echo).replace("{{", "{").replace("}}", "}")
    scrubber = Scrubber([PLAIN])
    for body, kind in ((json.dumps({"a": [text], text: 1}), "application/json"), (text, "text/plain")):
        shown = json.dumps(decode(answer(body.encode(), kind), scrubber), ensure_ascii=False)
        assert echo not in shown
        assert json.dumps(echo)[1:-1] not in shown
        assert "***" in shown


@pytest.mark.parametrize("line", [4, 20, 76])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r\n ", "\\r\\n", "%0D%0A", "&#10;"])
@pytest.mark.parametrize("coded", [_base64, lambda text: _base64(_base64(text)), str, lambda text: text.encode().hex()])
def test_an_echo_is_masked_where_its_lines_are_wrapped(line: int, end: str, coded: Callable[[str], str]) -> None:
    echo = coded("user:" + "x" * 44 + PLAIN + "and more")
    wrapped = end.join(echo[at : at + line] for at in range(0, len(echo), line))
    scrubber = Scrubber([PLAIN])
    for body, kind in ((json.dumps({"a": [wrapped]}), "application/json"), (wrapped, "text/plain")):
        shown = json.dumps(decode(answer(body.encode(), kind), scrubber), ensure_ascii=False)
        assert wrapped not in shown
        assert json.dumps(wrapped)[1:-1] not in shown
        assert "***" in shown


def test_text_that_holds_no_secret_is_left_as_it_was() -> None:
    text = "100% &amp; 5 &lt; 6, caf\u00e9 %E2%82%AC \\u00e9 sk-live"
    body = json.dumps({"a": text}).encode()
    assert decode(answer(body), Scrubber([PLAIN])) == {"a": text}
    assert Scrubber([PLAIN]).text(text) == text
