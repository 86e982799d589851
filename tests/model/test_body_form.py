"""Bodies in another form than a tool has: unwrapped or wrapped if that is unambiguous, never in part or in place of another value."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.catalogs import http_tool
from toolgen.model.body_form import body_advice, in_body_form
from toolgen.model.tool import HttpBinding, HttpBody, Tool

TEXT: Any = {"type": "string"}


def spread() -> Tool:
    return _tool({"where": TEXT, "status": TEXT, "note_": TEXT}, {"status": "status", "note_": "_note"}, None)


def single() -> Tool:
    items = {"type": "object", "properties": {"status": TEXT, "note": TEXT}}
    return _tool({"where": TEXT, "body": items}, {}, "body")


def _tool(properties: dict[str, Any], spread_as: dict[str, str], argument: str | None) -> Tool:
    tool = http_tool("t__change_items", properties=properties)
    assert isinstance(tool.binding, HttpBinding)
    body = HttpBody(media_type="application/json", argument=argument, properties=spread_as)
    return replace(tool, binding=replace(tool.binding, body=body))


@pytest.mark.parametrize(
    ("arguments", "meant", "moved"),
    [
        ({"where": "a", "body": {"status": "x"}}, {"where": "a", "status": "x"}, ("body",)),
        ({"body": {"status": "x", "_note": "n"}}, {"status": "x", "note_": "n"}, ("body",)),
        ({"request_body": {"note_": "n"}}, {"note_": "n"}, ("request_body",)),
        ({"requestBody": '{"status": "x"}'}, {"status": "x"}, ("requestBody",)),
        ({"body": {}}, {}, ("body",)),
        ({"body": {"status": "x", "other": 1}}, None, ()),
        ({"body": {"status": "x"}, "status": "y"}, None, ()),
        ({"body": {"note_": "a", "_note": "b"}}, None, ()),
        ({"body": [1]}, None, ()),
        ({"body": "text"}, None, ()),
        ({"data": {"status": "x"}}, None, ()),
    ],
)
def test_a_wrapped_body_is_spread(arguments: Any, meant: Any, moved: tuple[str, ...]) -> None:
    assert in_body_form(spread(), arguments) == (arguments if meant is None else meant, moved)


@pytest.mark.parametrize(
    ("arguments", "meant", "moved"),
    [
        ({"where": "a", "status": "x"}, {"where": "a", "body": {"status": "x"}}, ("status",)),
        ({"body": {"note": "n"}, "status": "x"}, {"body": {"note": "n", "status": "x"}}, ("status",)),
        ({"body": '{"note": "n"}', "status": "x"}, {"body": {"note": "n", "status": "x"}}, ("status",)),
        ({"body": {"status": "y"}, "status": "x"}, None, ()),
        ({"body": [1], "status": "x"}, None, ()),
        ({"where": "a", "other": 1}, None, ()),
    ],
)
def test_a_spread_body_is_wrapped(arguments: Any, meant: Any, moved: tuple[str, ...]) -> None:
    assert in_body_form(single(), arguments) == (arguments if meant is None else meant, moved)


def test_an_unknown_argument_is_told_where_it_belongs() -> None:
    assert body_advice(spread(), "body") == "give 'status', 'note_' as separate arguments"
    assert body_advice(single(), "status") == "put it into 'body'"
    assert body_advice(spread(), "colour") == ""
    assert body_advice(single(), "colour") == "the request body is the argument 'body', an object"
    assert body_advice(whole({"type": "array"}), "items") == "the request body is the argument 'body', a list"


CIRCLE: Any = {"type": "object", "properties": {"radius": {"type": "integer"}}}
FORMS: dict[str, Any] = {
    "choice": {"oneOf": [CIRCLE, {"type": "object", "properties": {"side": {"type": "integer"}}}]},
    "reference": {"$ref": "#/$defs/Circle"},
    "composed": {"allOf": [{"$ref": "#/$defs/Circle"}, {"properties": {"colour": TEXT}}]},
    "deep": {"anyOf": [{"type": "null"}, {"allOf": [{"$ref": "#/$defs/Circle"}]}]},
    "round": {"allOf": [{"$ref": "#/$defs/Round"}]},
}


def whole(body: Any) -> Tool:
    tool = _tool({"where": TEXT, "body": body}, {}, "body")
    defs = {"Circle": CIRCLE, "Round": {**CIRCLE, "allOf": [{"$ref": "#/$defs/Round"}] * 2}}
    return replace(tool, input_schema={**tool.input_schema, "$defs": defs})


@pytest.mark.parametrize("form", FORMS)
def test_a_body_is_wrapped_whatever_form_its_schema_has(form: str) -> None:
    assert in_body_form(whole(FORMS[form]), {"radius": 1}) == ({"body": {"radius": 1}}, ("radius",))
    assert in_body_form(whole(FORMS[form]), {"radius": 1, "other": 2}) == (
        {"body": {"radius": 1}, "other": 2},
        ("radius",),
    )
    assert body_advice(whole(FORMS[form]), "radius") == "put it into 'body'"


_NAMES = st.sampled_from(["where", "status", "note_", "_note", "note", "body", "request_body", "other"])
_VALUES = st.recursive(st.integers() | st.text(max_size=3), lambda inner: st.dictionaries(_NAMES, inner, max_size=3))


def leaves(value: Any) -> list[str]:
    if isinstance(value, str) and value[:1] == "{":
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, dict):
        return sorted(leaf for item in value.values() for leaf in leaves(item))
    return [repr(value)]


@given(st.dictionaries(_NAMES, _VALUES, max_size=5), st.sampled_from([spread, single]))
def test_no_value_is_lost_or_made(arguments: dict[str, Any], made: Any) -> None:
    meant, moved = in_body_form(made(), arguments)
    assert leaves(dict(meant)) == leaves(arguments)
    assert (meant == arguments) or moved
    assert in_body_form(made(), meant)[0] == meant
