"""Arguments in, the exact request out: the whole matrix of places, styles and kinds of value, and everything that is refused."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.connectors.http.bindings import BASE, binding, parameter
from toolgen.connectors.http.connector import Target
from toolgen.connectors.http.parameter_styles import UnbindableError
from toolgen.connectors.http.request_builder import bind
from toolgen.model.tool import HttpParameter

LIST = ["blue", "black"]
OBJECT = {"R": 100, "G": 200}


def target(one: HttpParameter, value: Any) -> str:
    path = "/p/{q}/x" if one.in_ == "path" else "/e"
    return bind(binding(one, path=path), {one.argument: value}).url.removeprefix(BASE)


# 3.1.1, section 4.8.12.6 (style examples), and RFC 6570 where that leaves something open
@pytest.mark.parametrize(
    ("style", "explode", "value", "expected"),
    [
        ("simple", False, "a b", "/p/a%20b/x"),
        ("simple", False, 0, "/p/0/x"),
        ("simple", False, False, "/p/false/x"),
        ("simple", False, 1.5, "/p/1.5/x"),
        ("simple", False, 10**21, "/p/1000000000000000000000/x"),
        ("simple", False, LIST, "/p/blue,black/x"),
        ("simple", True, LIST, "/p/blue,black/x"),
        ("simple", False, OBJECT, "/p/R,100,G,200/x"),
        ("simple", True, OBJECT, "/p/R=100,G=200/x"),
        ("simple", False, "a/b?c#d%20é,;=", "/p/a%2Fb%3Fc%23d%2520%C3%A9%2C%3B%3D/x"),
        ("label", False, "blue", "/p/.blue/x"),
        ("label", False, LIST, "/p/.blue,black/x"),
        ("label", True, LIST, "/p/.blue.black/x"),
        ("label", False, OBJECT, "/p/.R,100,G,200/x"),
        ("label", True, OBJECT, "/p/.R=100.G=200/x"),
        ("label", True, ["a,b", "c"], "/p/.a%2Cb.c/x"),
        ("matrix", False, "blue", "/p/;q=blue/x"),
        ("matrix", False, "", "/p/;q/x"),
        ("matrix", False, LIST, "/p/;q=blue,black/x"),
        ("matrix", True, LIST, "/p/;q=blue;q=black/x"),
        ("matrix", False, OBJECT, "/p/;q=R,100,G,200/x"),
        ("matrix", True, OBJECT, "/p/;R=100;G=200/x"),
    ],
)
def test_path(style: str, explode: bool, value: Any, expected: str) -> None:
    assert target(parameter("path", style, explode=explode), value) == expected


@pytest.mark.parametrize(
    ("style", "explode", "value", "expected"),
    [
        ("form", True, "", "/e?q="),
        ("form", True, "a b&c=d+é", "/e?q=a%20b%26c%3Dd%2B%C3%A9"),
        ("form", True, True, "/e?q=true"),
        ("form", True, None, "/e"),
        ("form", True, LIST, "/e?q=blue&q=black"),
        ("form", False, LIST, "/e?q=blue,black"),
        ("form", False, ["a,b", "c"], "/e?q=a%2Cb,c"),
        ("form", True, [], "/e"),
        ("form", False, [], "/e"),
        ("form", True, OBJECT, "/e?R=100&G=200"),
        ("form", False, OBJECT, "/e?q=R,100,G,200"),
        ("form", True, {"R": None, "G": 2}, "/e?G=2"),
        ("form", True, {}, "/e"),
        ("spaceDelimited", False, LIST, "/e?q=blue%20black"),
        ("spaceDelimited", False, OBJECT, "/e?q=R%20100%20G%20200"),
        ("spaceDelimited", True, LIST, "/e?q=blue&q=black"),
        ("pipeDelimited", False, LIST, "/e?q=blue%7Cblack"),
        ("pipeDelimited", False, OBJECT, "/e?q=R%7C100%7CG%7C200"),
        ("tabDelimited", False, LIST, "/e?q=blue%09black"),
        ("deepObject", True, OBJECT, "/e?q%5BR%5D=100&q%5BG%5D=200"),
        ("deepObject", False, {"a": {"b": 1}, "c": [1, 2]}, "/e?q%5Ba%5D%5Bb%5D=1&q%5Bc%5D%5B%5D=1&q%5Bc%5D%5B%5D=2"),
        ("deepObject", True, ["a"], "/e?q%5B%5D=a"),
        ("deepObject", True, [{"a": 1}, {"a": 2}], "/e?q%5B0%5D%5Ba%5D=1&q%5B1%5D%5Ba%5D=2"),
        ("form", True, [{"a": 1}], "/e?q=%7B%22a%22%3A1%7D"),
    ],
)
def test_query(style: str, explode: bool, value: Any, expected: str) -> None:
    assert target(parameter("query", style, explode=explode), value) == expected


@pytest.mark.parametrize(
    ("one", "value", "expected"),
    [
        (parameter("query", allow_reserved=True), "a/b?c:d@e", "/e?q=a/b?c:d@e"),
        (parameter("query", allow_reserved=True), "a&b=c;d#e+f%'", "/e?q=a%26b=c%3Bd%23e%2Bf%25%27"),
        (
            parameter("query", content_type="application/json"),
            {"a": [1, "x"]},
            "/e?q=%7B%22a%22%3A%5B1%2C%22x%22%5D%7D",
        ),
        (parameter("query", content_type="application/json"), [None, 2**70], f"/e?q=%5Bnull%2C{2**70}%5D"),
        (parameter("query", name="a[b] c"), "x", "/e?a%5Bb%5D%20c=x"),
        (
            parameter("querystring", content_type="application/x-www-form-urlencoded"),
            {"a": "x y", "b": 1},
            "/e?a=x+y&b=1",
        ),
        (parameter("querystring", content_type="application/json"), {"a": 1}, "/e?%7B%22a%22%3A1%7D"),
        (parameter("querystring", content_type="text/plain"), "a=1", "/e?a%3D1"),
    ],
)
def test_what_else_a_query_can_hold(one: HttpParameter, value: Any, expected: str) -> None:
    assert target(one, value) == expected


@pytest.mark.parametrize(
    ("explode", "value", "expected"),
    [
        (False, LIST, "blue,black"),
        (False, OBJECT, "R,100,G,200"),
        (True, OBJECT, "R=100,G=200"),
        (False, False, "false"),
        (False, "a b/é", "a b/é"),
    ],
)
def test_headers(explode: bool, value: Any, expected: str) -> None:
    request = bind(binding(parameter("header", name="X-Q", explode=explode)), {"X-Q": value})
    assert [shown for name, shown in request.headers if name == "X-Q"] == [expected]


def test_cookies_share_one_header() -> None:
    request = bind(
        binding(
            parameter("cookie", name="a"),
            parameter("cookie", name="b", explode=False),
            parameter("cookie", "cookie", name="c"),
        ),
        {"a": "x;y", "b": [1, 2], "c": "plain"},
    )
    assert [shown for name, shown in request.headers if name == "Cookie"] == ["a=x%3By; b=1,2; c=plain"]


@pytest.mark.parametrize(
    ("server", "path", "expected"),
    [
        ("http://h.test", "/e", "http://h.test/e"),
        ("http://h.test/", "/e", "http://h.test/e"),
        ("https://h.test:8443/v1/", "/e", "https://h.test:8443/v1/e"),
        ("http://h.test", "/", "http://h.test/"),
        ("http://h.test", "/e/", "http://h.test/e/"),
        ("http://h.test", "/e?action=x", "http://h.test/e?action=x"),
        ("http://h.test", "/a b", "http://h.test/a%20b"),
    ],
)
def test_servers_and_paths_are_joined(server: str, path: str, expected: str) -> None:
    assert bind(binding(servers=(server,), path=path), {}).url == expected


@pytest.mark.parametrize(
    "server", ["", "/v1", "ftp://h.test", "http://", "http://user:pw@h.test", "http://h.test?x=1", "//h.test"]
)
def test_a_server_that_is_no_origin_is_refused(server: str) -> None:
    with pytest.raises(UnbindableError):
        bind(binding(servers=(server,)), {})


@pytest.mark.parametrize(
    "value",
    [".", "..", "../x", "x/../y", "..\\x", "%2e%2e", "%2E%2E%2Fx", "%252e%252e", "..%2f", "", [], "\ud800"],
)
def test_a_path_value_that_would_change_the_route_is_refused(value: Any) -> None:
    with pytest.raises(UnbindableError):
        target(parameter("path"), value)


@pytest.mark.parametrize(
    ("one", "value"),
    [
        (parameter("query", "spaceDelimited"), ["a b", "c"]),
        (parameter("query", "pipeDelimited"), ["a|b"]),
        (parameter("query", "pipeDelimited"), {"a|b": "c"}),
        (parameter("query", "tabDelimited"), ["a\tb"]),
        (parameter("path", "label", explode=True), [1.5, 2]),
        (parameter("path", "label", explode=True), {"a": "b.c"}),
        (parameter("path", "pipeDelimited"), ["a|b"]),
        (parameter("header", name="X-Q"), ["a,b", "c"]),
        (parameter("header", name="X-Q", explode=True), {"a": "b=c"}),
        (parameter("query", "deepObject", explode=True), {"a": [{}, {"b": 1}]}),
        (parameter("query", "deepObject", explode=True), {"a": ["b", None]}),
        (parameter("query", "form", explode=True), ["a", None]),
        (parameter("query", "form"), [None]),
        (parameter("query", "pipeDelimited"), [1, None]),
        (parameter("path", "simple"), ["a", None]),
        (parameter("path", "matrix", explode=True), ["a", None]),
        (parameter("path", "pipeDelimited"), ["a", None]),
        (parameter("header", name="X-Q"), ["a", None]),
        (parameter("cookie", "form", explode=True), ["a", None]),
    ],
)
def test_a_value_that_would_arrive_as_another_is_refused(one: HttpParameter, value: Any) -> None:
    with pytest.raises(UnbindableError):
        target(one, value)


def test_an_empty_value_never_leaves_its_segments_name_behind() -> None:
    bound = binding(parameter("path"), path="/e/{q}.json")
    with pytest.raises(UnbindableError, match="empty"):
        bind(bound, {"q": ""})


def test_dots_cannot_be_put_together_from_two_arguments() -> None:
    bound = binding(parameter("path", name="a"), parameter("path", name="b"), path="/p/{a}{b}/x")
    assert bind(bound, {"a": "v", "b": "1"}).url == f"{BASE}/p/v1/x"
    with pytest.raises(UnbindableError):
        bind(binding(parameter("path", name="a"), path="/p/.{a}/x"), {"a": "."})


def test_a_missing_path_argument_is_refused() -> None:
    with pytest.raises(UnbindableError, match="'q'"):
        bind(binding(parameter("path", required=True), path="/p/{q}"), {})


@pytest.mark.parametrize("value", ["a\r\nX: 1", "a\nb", "a\0b", "a\x7f", " a", "a ", "\ud800"])
def test_a_header_value_that_could_end_the_header_is_refused(value: str) -> None:
    with pytest.raises(UnbindableError):
        bind(binding(parameter("header", name="X-Q")), {"X-Q": value})


@pytest.mark.parametrize(
    "name",
    [
        "Host",
        "authorization",
        "Cookie",
        "Content-Length",
        "Transfer-Encoding",
        "Content_Length",
        "X-HTTP-Method-Override",
        "X_HTTP_Method_Override",
        "x_forwarded_for",
        "Connection",
        "Content-Type",
        "X Y",
        "X:Y",
        "",
    ],
)
def test_a_header_that_is_not_an_arguments_to_set_is_refused(name: str) -> None:
    with pytest.raises(UnbindableError):
        bind(binding(parameter("header", name=name, argument="h")), {"h": "v"})


@pytest.mark.parametrize("value", ["a;b", "a b", 'a"', "a,b", "a\\b", "é", "a\r\nb"])
def test_a_raw_cookie_takes_only_cookie_characters(value: str) -> None:
    with pytest.raises(UnbindableError):
        bind(binding(parameter("cookie", "cookie")), {"q": value})


@pytest.mark.parametrize(
    ("one", "value"),
    [
        (parameter("query", name="filter"), {"tenant": "other"}),
        (parameter("query", name="filter"), {"TENANT": "other"}),
        (
            parameter("querystring", name="filter", content_type="application/x-www-form-urlencoded"),
            {"tenant": "other"},
        ),
    ],
)
def test_an_object_spread_over_the_query_cannot_speak_for_another_parameter(one: HttpParameter, value: Any) -> None:
    bound = binding(one, parameter("query", name="tenant"))
    assert bind(bound, {"filter": {"colour": "red"}, "tenant": "acme"}).url == f"{BASE}/e?colour=red&tenant=acme"
    with pytest.raises(UnbindableError, match="filter"):
        bind(bound, {"filter": value, "tenant": "acme"})


def test_a_number_json_has_no_form_for_is_refused() -> None:
    with pytest.raises(UnbindableError):
        bind(binding(parameter("query")), {"q": float("nan")})


@given(value=st.text(st.characters(exclude_categories=["Cs"])), style=st.sampled_from(["simple", "label", "matrix"]))
def test_no_text_leaves_its_path_segment(value: str, style: str) -> None:
    try:
        url = bind(binding(parameter("path", style), path="/p/{q}/x"), {"q": value}).url
    except UnbindableError:
        return
    assert url.removeprefix(BASE).split("/")[1::2] == ["p", "x"]
    assert urlsplit(url).path == url.removeprefix(BASE)
    assert Target.of(url).host == "api.test"


@given(value=st.text(st.characters(exclude_categories=["Cs"])), reserved=st.booleans())
def test_no_text_leaves_its_query_pair(value: str, reserved: bool) -> None:
    assume(
        not (reserved and re.search("%[0-9A-Fa-f]{2}", value))
    )  # reserved expansion leaves those as they are (RFC 6570, 3.2.3)
    url = bind(binding(parameter("query", allow_reserved=reserved)), {"q": value}).url
    assert parse_qsl(urlsplit(url).query, keep_blank_values=True) == [("q", value)]
    assert Target.of(url).host == "api.test"


@pytest.mark.parametrize(
    "server", ["http://a\r\nb", "http://a\tb.test", "http://a.test/x\n", "http://\x00a", "http://a\x7f"]
)
def test_a_server_with_a_control_character_is_none(server: str) -> None:
    with pytest.raises(UnbindableError, match="no server"):
        bind(binding(servers=(server,)), {})
