"""The text of HTML: what a reader sees of a page, from any bytes, in time that grows with the page alone."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exhaustive import examples
from toolgen.connectors.http.html_text import text_of_html
from toolgen.connectors.http.response import HttpResponse, decode
from toolgen.connectors.http.scrubber import Scrubber


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("", ""),
        ("plain", "plain"),
        ("<p>Hello &amp; <b>good</b>\n  bye</p>", "Hello & good bye"),
        (
            "<html><head><title>Shop</title><style>p{}</style></head><body><h1>Open</h1>now</body></html>",
            "Shop\n\nOpen\n\nnow",
        ),
        ("<head><meta charset=utf-8><title>A</title><body class=x>b", "A\n\nb"),
        ("<ul><li>one<li>two</ul>", "- one\n- two"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a | b |\nc |"),
        ("one<br>two<br/>three", "one\ntwo\nthree"),
        ("a<script>alert('</p>')</script>b<style>x</style>c<!-- <p>no</p> -->d", "abcd"),
        ("<a href=\"x>y\" title='a>b'>link</a>", "link"),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        ("a<script>never ends", "a"),
        ("a<!-- never ends", "a"),
        ("a<p class=", "a"),
        ("<!DOCTYPE html><?xml version='1'?>x", "x"),
        ("&lt;b&gt; &#x41;&nbsp;B", "<b> A B"),
        ("<svg><text>no</text></svg>yes<script src=x />too", "yestoo"),
    ],
)
def test_a_page_is_what_its_reader_sees(page: str, text: str) -> None:
    assert text_of_html(page) == text


@settings(max_examples=examples(400), deadline=None)
@given(
    st.lists(
        st.sampled_from([*"<>/'\"=! -abc&;\n", "script", "<!--", "-->", "</", "<p", "head", "title", "&amp;"])
    ).map("".join)
)
def test_any_text_gives_a_text(page: str) -> None:
    text = text_of_html(page)
    assert "\n\n\n" not in text
    assert text == text.strip()


@pytest.mark.parametrize("before", ["", "<script>", "<head>"])
@pytest.mark.parametrize(
    "part",
    [
        "<",
        "<a ",
        "<a \"'>",
        "<a '>",
        "<!--",
        "<head>",
        "<script>",
        "</script",
        "</script ",
        "<title>",
        "<title",
        "<title ",
        "&",
        "&#",
        "<p>",
        "<![",
        "<a/",
        "\n",
    ],
)
def test_the_time_grows_with_the_page_alone(part: str, before: str) -> None:
    def taken(size: int) -> float:
        page = before + (part * (size // len(part) + 1))[:size]
        started = time.process_time()
        text_of_html(page)
        return time.process_time() - started

    taken(1_000)
    small, large = min(taken(50_000) for _ in range(3)), min(taken(400_000) for _ in range(3))
    assert large < 40 * small + 0.05  # eight times the size: quadratic work would take sixty-four times as long


@pytest.mark.parametrize("kind", ["text/html", "text/html; charset=utf-8", "application/xhtml+xml"])
def test_a_page_is_given_as_it_is_only_where_its_description_says_html(kind: str) -> None:
    page = b"<p>Hello</p>"
    scrubber = Scrubber(())
    answer = HttpResponse(status=200, content_type=kind, body=page, truncated=False, headers={})
    assert decode(answer, scrubber) == "Hello"
    described = HttpResponse(status=200, content_type=kind, body=page, truncated=False, headers={}, html=True)
    assert decode(described, scrubber) == "<p>Hello</p>"
