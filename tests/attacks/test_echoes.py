"""The forms in which a server may repeat a credential it was shown: none of them reaches the agent."""

from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote, quote_plus

import pytest

from toolgen.execute.http.answers import Answer, Scrubber, decode

SECRET = 'k3y/with "quotes"&more+8472910472'
DIGITS = "8472910472"


def answer(body: bytes, content_type: str = "application/json", *, truncated: bool = False) -> Answer:
    return Answer(status=200, content_type=content_type, body=body, truncated=truncated, headers={})


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
