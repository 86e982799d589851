"""Requests read back from what stands on the wire: the specification's own examples, and what a server could not read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.openapi.readings import document, operation
from toolgen.connectors.openapi.documents import Documents
from toolgen.connectors.openapi.proof.bracket_names import nested
from toolgen.connectors.openapi.proof.reader import ABSENT, Undefined, equal, same_parameter
from toolgen.connectors.openapi.proof.received import UnreadableError, receive
from toolgen.connectors.openapi.proof.refusals import may_be_refused
from toolgen.connectors.openapi.proof.spec_operation import SERVER, Descriptions, SpecOperation

ARRAY = {"type": "array", "items": {"type": "string"}}
OBJECT = {"type": "object", "additionalProperties": {"type": "integer"}}
COLORS = ["blue", "black", "brown"]
RGB = {"R": 100, "G": 200, "B": 150}


def described(folder: Path, parameter: dict[str, Any], path: str = "/e") -> SpecOperation:
    written = document({path: {"get": operation(parameters=[parameter])}})
    (folder / "doc.json").write_text(json.dumps(written), encoding="utf-8")
    origin = f"#/paths/{path.replace('/', '~1')}/get"
    return Descriptions(Documents(folder / "doc.json")).operation(origin)


def parameter(place: str, style: str, explode: bool, schema: Any) -> dict[str, Any]:
    return {"name": "color", "in": place, "style": style, "explode": explode, "schema": schema, "required": True}


# 3.1.1, section 4.8.12.6: what each style makes of the same three values
@pytest.mark.parametrize(
    ("place", "style", "explode", "schema", "sent", "wire"),
    [
        ("path", "matrix", False, ARRAY, COLORS, ";color=blue,black,brown"),
        ("path", "matrix", False, OBJECT, RGB, ";color=R,100,G,200,B,150"),
        ("path", "matrix", True, ARRAY, COLORS, ";color=blue;color=black;color=brown"),
        ("path", "matrix", True, OBJECT, RGB, ";R=100;G=200;B=150"),
        ("path", "label", False, ARRAY, COLORS, ".blue,black,brown"),
        ("path", "label", True, ARRAY, COLORS, ".blue.black.brown"),
        ("path", "label", True, OBJECT, RGB, ".R=100.G=200.B=150"),
        ("path", "simple", False, OBJECT, RGB, "R,100,G,200,B,150"),
        ("path", "simple", True, OBJECT, RGB, "R=100,G=200,B=150"),
        ("query", "form", False, ARRAY, COLORS, "color=blue,black,brown"),
        ("query", "form", False, OBJECT, RGB, "color=R,100,G,200,B,150"),
        ("query", "form", True, ARRAY, COLORS, "color=blue&color=black&color=brown"),
        ("query", "form", True, OBJECT, RGB, "R=100&G=200&B=150"),
        ("query", "spaceDelimited", False, ARRAY, COLORS, "color=blue%20black%20brown"),
        ("query", "spaceDelimited", False, OBJECT, RGB, "color=R%20100%20G%20200%20B%20150"),
        ("query", "pipeDelimited", False, ARRAY, COLORS, "color=blue%7Cblack%7Cbrown"),
        ("query", "pipeDelimited", False, OBJECT, RGB, "color=R%7C100%7CG%7C200%7CB%7C150"),
        ("query", "deepObject", True, OBJECT, RGB, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
    ],
)
def test_the_specifications_examples_are_read(
    tmp_path: Path, place: str, style: str, explode: bool, schema: Any, sent: Any, wire: str
) -> None:
    path = "/e/{color}" if place == "path" else "/e"
    one = described(tmp_path, parameter(place, style, explode, schema), path)
    url = f"{SERVER}/e/{wire}" if place == "path" else f"{SERVER}/e?{wire}"
    received = receive(url, (), None, server=SERVER, path=path)
    assert same_parameter(one, one.parameters[0], received, sent) is None
    other = [*sent, "more"] if isinstance(sent, list) else {**sent, "R": 101}
    assert isinstance(same_parameter(one, one.parameters[0], received, other), str)
    assert isinstance(same_parameter(one, one.parameters[0], received, ABSENT), str)


@pytest.mark.parametrize(
    ("schema", "sent", "wire", "same"),
    [
        ({"type": "integer"}, 0, "color=0", True),
        ({"type": "integer"}, 0, "color=0.0", False),
        ({"type": "integer"}, 0, "color=00", False),
        ({"type": "integer"}, 0, "", False),
        ({"type": "boolean"}, False, "color=false", True),
        ({"type": "boolean"}, False, "color=False", False),
        ({"type": "boolean"}, False, "color=0", False),
        ({"type": "string"}, "", "color=", True),
        ({"type": "string"}, "", "", False),
        ({"type": "string"}, "a+b", "color=a%2Bb", True),
        ({"type": "string"}, "a+b", "color=a+b", False),
        ({"type": "string"}, "x", "color=x&color=x", False),
        ({"type": ["string", "null"]}, None, "", True),
        ({"type": ["string", "null"]}, None, "color=null", False),
        (ARRAY, [], "", True),
        (ARRAY, [""], "color=", True),
        (ARRAY, [""], "", False),
        (ARRAY, "x", "color=x", False),
        ({"type": "number"}, 1e21, "color=1e%2B21", True),
        ({"type": "integer"}, 2**53 + 1, "color=9007199254740992", False),
    ],
)
def test_types_and_absence_are_kept_apart(tmp_path: Path, schema: Any, sent: Any, wire: str, same: bool) -> None:
    one = described(tmp_path, parameter("query", "form", True, schema))
    received = receive(f"{SERVER}/e?{wire}", (), None, server=SERVER, path="/e")
    assert (same_parameter(one, one.parameters[0], received, sent) is None) is same


@pytest.mark.parametrize("sent", [[["a"]], [{"a": 1}], [None], {"a": {"b": 1}}])
def test_what_a_style_has_no_form_for_is_undefined(tmp_path: Path, sent: Any) -> None:
    one = described(tmp_path, parameter("query", "form", True, {}))
    received = receive(f"{SERVER}/e", (), None, server=SERVER, path="/e")
    assert isinstance(same_parameter(one, one.parameters[0], received, sent), Undefined)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("http://other.test/base/e", "/e"),
        (f"{SERVER}/f", "/e"),
        (f"{SERVER}/e/", "/e"),
        (f"{SERVER}/e//x", "/e/{a}/x"),
        (f"{SERVER}/e/.json", "/e/{a}.json"),
        (f"{SERVER}/e/a/b", "/e/{a}"),
        (f"{SERVER}/e#f", "/e"),
        (f"{SERVER}/e?q=a b", "/e"),
        (f"{SERVER}/e?q=%zz", "/e"),
        (f"{SERVER}/e?q=é", "/e"),
        (f"{SERVER}/e?w=1", "/e?v=1"),
    ],
)
def test_a_url_that_is_not_the_paths_is_unreadable(url: str, path: str) -> None:
    with pytest.raises(UnreadableError):
        receive(url, (), None, server=SERVER, path=path)


def test_a_header_twice_is_unreadable() -> None:
    with pytest.raises(UnreadableError, match="twice"):
        receive(f"{SERVER}/e", (("X-A", "1"), ("x-a", "2")), None, server=SERVER, path="/e")


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([("q[a][]", "1"), ("q[a][]", "2")], {"a": ["1", "2"]}),
        ([("q[0][b]", "1"), ("q[1][b]", "2")], [{"b": "1"}, {"b": "2"}]),
        ([("q[]", "1")], ["1"]),
        ([("q", "1")], "1"),
        ([("other[a]", "1")], None),
        ([("q[a[b]]", "1")], UnreadableError),
        ([("q[a]", "1"), ("q[a]", "2")], UnreadableError),
        ([("q[a]", "1"), ("q[a][b]", "2")], UnreadableError),
    ],
)
def test_brackets(pairs: list[tuple[str, str]], expected: Any) -> None:
    if expected is UnreadableError:
        with pytest.raises(UnreadableError):
            nested("q", pairs)
    else:
        assert nested("q", pairs) == expected


@pytest.mark.parametrize(
    ("place", "style", "explode", "value", "rightly"),
    [
        ("path", "simple", False, "", True),
        ("path", "simple", False, "..", True),
        ("path", "simple", False, "%2e%2e", True),
        ("path", "simple", False, "a", False),
        ("path", "label", True, ["a.b"], True),
        ("path", "label", True, "%2F", True),
        ("path", "label", True, "a", False),
        ("header", "simple", False, "a\nb", True),
        ("header", "simple", False, " a", True),
        ("header", "simple", False, ["a,b"], True),
        ("header", "simple", False, "a,b", False),
        ("query", "form", True, "", False),
        ("query", "form", False, ["a,b"], False),
        ("query", "spaceDelimited", False, ["a b"], True),
        ("query", "pipeDelimited", False, ["a b"], False),
        ("query", "form", True, "\ud800", True),
        ("cookie", "form", True, 'a"b', False),
    ],
)
def test_only_what_cannot_be_said_may_be_refused(
    tmp_path: Path, place: str, style: str, explode: bool, value: Any, rightly: bool
) -> None:
    path = "/e/{color}" if place == "path" else "/e"
    one = described(tmp_path, parameter(place, style, explode, {}), path)
    assert may_be_refused(one, {(place, "color"): ("color", value)}) is rightly


@pytest.mark.parametrize(
    ("read", "sent", "same"),
    [
        (1, 1.0, True),
        (True, 1, False),
        (1, True, False),
        (None, None, True),
        ({"a": None}, {}, False),
        ({}, {"a": None}, False),
        ([], {}, False),
        ("1", 1, False),
        (2**53, 2**53 + 1, False),
        ({"a": [0, False]}, {"a": [0, False]}, True),
    ],
)
def test_json_is_equal_when_it_says_the_same(read: Any, sent: Any, same: bool) -> None:
    assert equal(read, sent) is same
