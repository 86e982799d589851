"""A template makes the request that `bind` makes, or leaves it to `bind`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.exhaustive import size
from toolgen.connectors.http.request_builder import HttpRequest, UnbindableError, bind
from toolgen.connectors.http.request_template import http_request_template
from toolgen.model.tool import Effect, HttpBinding, HttpBody, HttpConstant, HttpParameter, HttpPart, Tool

NAMES = ("id", "a b", "q%", "_method", "x[]", "é", "X-Tenant", "Accept", "accept", "Host", "Cookie")
STYLES = ("simple", "label", "matrix", "form", "deepObject", "pipeDelimited")
TEXT = st.text(max_size=6) | st.sampled_from(
    ["", ".", "..", "..;a", "%2e%2e", "a/b", "a%b", "x\ud800", "plain-1_~", "0", "a, b", " a", "a\r\nb: c", "a\tb"]
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=2),
    max_leaves=4,
)


@st.composite
def parameters(draw: st.DrawFn, place: str, number: int) -> HttpParameter:
    return HttpParameter(
        argument=f"{place}{number}",
        in_=place,
        name=draw(st.sampled_from(NAMES)),
        style=draw(st.sampled_from(STYLES))
        if draw(st.booleans())
        else ("simple" if place in {"path", "header"} else "form"),
        explode=draw(st.booleans()),
        allow_reserved=draw(st.booleans()) and draw(st.booleans()),
        content_type="application/json" if draw(st.integers(0, 9)) == 0 else None,
        required=place == "path" or draw(st.booleans()),
        nested=("pipeDelimited",) if draw(st.integers(0, 9)) == 0 else (),
    )


BODIES = st.sampled_from(
    [
        None,
        HttpBody(media_type="application/json", argument="body", properties={}),
        HttpBody(media_type="application/json", argument="body", properties={}, required=True),
        HttpBody(media_type="application/merge-patch+json", argument=None, properties={"b0": "x", "b1": "_method"}),
        HttpBody(
            media_type="application/x-www-form-urlencoded", argument=None, properties={"b0": "x", "b1": "_method"}
        ),
        HttpBody(media_type="application/x-www-form-urlencoded", properties={"b0": "x y", "b1": "é"}, required=True),
        HttpBody(media_type="application/x-www-form-urlencoded", properties={"b0": "x[]"}, parts={"x[]": HttpPart()}),
        HttpBody(
            media_type="application/x-www-form-urlencoded",
            properties={"b0": "x", "b1": "y"},
            parts={"x": HttpPart(style="form", explode=False), "y": HttpPart(content_type="application/json")},
        ),
        HttpBody(media_type="multipart/form-data", argument=None, properties={"b0": "x"}, parts={"x": HttpPart()}),
        HttpBody(media_type="text/plain", argument="body", properties={}),
    ]
)


@st.composite
def tools(draw: st.DrawFn) -> Tool:
    path = [draw(parameters("path", number)) for number in range(draw(st.integers(0, 2)))]
    more = [
        draw(parameters(place, n))
        for n, place in enumerate(draw(st.lists(st.sampled_from(["query", "query", "header", "cookie"]), max_size=3)))
    ]
    pieces = [draw(st.sampled_from(["/pets", "/a%20b", "/.", "/v1.0", "/é", "", "/x?y=1", "/;a"]))]
    for one in path:
        pieces.append(draw(st.sampled_from(["/", "/@", "-", "."])) + "{" + one.name + "}")
    binding = HttpBinding(
        method=draw(st.sampled_from(["GET", "POST", "DELETE"])),
        path="".join(pieces),
        servers=(
            draw(
                st.sampled_from(
                    ["http://127.0.0.1:8080", "https://api.example.com/base/", "http://x.example/a%2fb", "bad", ""]
                )
            ),
        ),
        parameters=tuple(draw(st.permutations(path + more))),
        body=draw(BODIES),
        security=(),
        **({"constants": (HttpConstant(parameter=more[0], value=1),)} if more and draw(st.integers(0, 9)) == 0 else {}),
    )
    return Tool(
        name="t", title="", description="", input_schema={"type": "object"}, output_schema=None, effect=Effect.READ, idempotent=True,
        source="s", origin="", binding=binding, digest="sha256:1",
    )  # fmt: skip


def made(tool: Tool, arguments: dict[str, Any]) -> HttpRequest | str:
    assert isinstance(tool.binding, HttpBinding)
    try:
        return bind(tool.binding, arguments, tool.input_schema)
    except UnbindableError as error:
        return error.message


def fields(request: HttpRequest | str) -> object:
    if isinstance(request, str):
        return request
    return request.method, request.url, request.headers, request.body, request.stream, request.free_names


@settings(max_examples=size("TOOLGEN_TEMPLATES", 600, 50_000), deadline=None)
@given(tools(), st.data())
def test_a_template_makes_what_bind_makes(tool: Tool, data: st.DataObject) -> None:
    template = http_request_template(tool)
    if template is None:
        return
    names = [one.argument for one in tool.binding.parameters] + ["body", "b0", "b1"]  # type: ignore[union-attr]
    for _ in range(4):
        arguments = data.draw(st.dictionaries(st.sampled_from(names), VALUES, max_size=len(names)))
        try:
            request: HttpRequest | str | None = template.request(arguments)
        except UnbindableError as error:
            request = error.message
        if request is not None:
            event("made from the template")
            assert fields(request) == fields(made(tool, arguments))


@pytest.mark.parametrize(
    ("arguments", "url"),
    [
        ({"id": 7}, "http://127.0.0.1:8080/pets/7"),
        ({"id": "it_1", "limit": 5, "q": "a b"}, "http://127.0.0.1:8080/pets/it_1?limit=5&q=a%20b"),
        ({"id": "x", "q": True}, "http://127.0.0.1:8080/pets/x?q=true"),
    ],
)
def test_an_ordinary_call_is_made_from_the_template(arguments: dict[str, Any], url: str) -> None:
    def parameter(name: str, place: str) -> HttpParameter:
        style = "simple" if place == "path" else "form"
        return HttpParameter(argument=name, in_=place, name=name, style=style, explode=False, required=place == "path")

    binding = HttpBinding(
        method="GET",
        path="/pets/{id}",
        servers=("http://127.0.0.1:8080/",),
        parameters=(parameter("id", "path"), parameter("limit", "query"), parameter("q", "query")),
        body=None,
        security=(),
    )
    tool = Tool(
        name="t", title="", description="", input_schema={"type": "object"}, output_schema=None, effect=Effect.READ, idempotent=True,
        source="s", origin="", binding=binding, digest="sha256:1",
    )  # fmt: skip
    template = http_request_template(tool)
    assert template is not None
    request = template.request(arguments)
    assert request is not None
    assert request.url == url
    assert fields(request) == fields(made(tool, arguments))


def test_a_path_that_names_two_parameters_alike_is_filled_in_the_general_way() -> None:
    def parameter(argument: str) -> HttpParameter:
        return HttpParameter(argument=argument, in_="path", name="id", style="simple", explode=False, required=True)

    binding = HttpBinding(
        method="GET",
        path="/pets/{id}/{id}",
        servers=("http://127.0.0.1:8080",),
        parameters=(parameter("one"), parameter("other")),
        body=None,
        security=(),
    )
    tool = Tool(
        name="t", title="", description="", input_schema={"type": "object"}, output_schema=None, effect=Effect.READ, idempotent=True,
        source="s", origin="", binding=binding, digest="sha256:1",
    )  # fmt: skip
    assert http_request_template(tool) is None
