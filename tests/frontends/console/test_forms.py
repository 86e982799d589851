"""Forms made from schemas, and the arguments that come back in them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from toolgen.frontends.console.forms import FormError, arguments_of, fields_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["name", "count"],
    "properties": {
        "state": {"enum": ["open", "1", 1, None]},
        "note": {"type": ["string", "null"], "maxLength": 4000},
        "name": {"type": "string"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "ratio": {"type": "number"},
        "urgent": {"type": "boolean"},
        "address": {"$ref": "#/$defs/Address"},
    },
    "$defs": {"Address": {"type": "object", "description": "Where it goes."}},
}


def test_each_argument_gets_the_field_that_fits_it_and_required_ones_come_first() -> None:
    fields = {field.name: field for field in fields_of(SCHEMA, {})}
    assert list(fields)[:2] == ["name", "count"]
    assert {name: field.kind for name, field in fields.items()} == {
        "name": "text",
        "count": "number",
        "state": "choice",
        "note": "text",
        "ratio": "number",
        "urgent": "boolean",
        "address": "json",
    }
    assert re.findall(r"integer|\d+", fields["count"].hint) == ["integer", "1", "9"]
    assert fields["address"].description == "Where it goes."
    assert fields["note"].long
    assert fields["state"].choices == ('"open"', '"1"', "1")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ({}, {}),
        ({"name": "", "count": " "}, {}),
        ({"name": " a ", "count": " 3 "}, {"name": " a ", "count": 3}),
        ({"name": "1", "count": "many"}, {"name": "1", "count": "many"}),
        ({"ratio": "-1.5e3"}, {"ratio": -1500.0}),
        ({"urgent": "true"}, {"urgent": True}),
        ({"urgent": "false"}, {"urgent": False}),
        ({"state": '"1"'}, {"state": "1"}),
        ({"state": "1"}, {"state": 1}),
        ({"address": '{"city": "Bonn"}'}, {"address": {"city": "Bonn"}}),
        ({"note": "a\r\nb"}, {"note": "a\nb"}),
        ({"unknown": "x"}, {}),
    ],
)
def test_what_was_typed_becomes_arguments(typed: dict[str, str], expected: dict[str, Any]) -> None:
    form = {f"argument.{name}": value for name, value in typed.items()}
    assert arguments_of(SCHEMA, form) == expected


def test_one_json_object_takes_the_place_of_all_fields() -> None:
    assert arguments_of(SCHEMA, {"argument.name": "a", "json": '{"name": ""}'}) == {"name": ""}


@pytest.mark.parametrize("form", [{"json": "[]"}, {"json": "{"}, {"argument.address": "Bonn"}, {"json": "[" * 100}])
def test_what_is_no_json_is_said_so(form: dict[str, str]) -> None:
    with pytest.raises(FormError):
        arguments_of(SCHEMA, form)
