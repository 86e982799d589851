"""What a schema repeats is said once, and means the same."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import jsonschema
import pytest

from toolgen.connectors.openapi.shared_parts import shared

LONG: dict[str, Any] = {"type": "string", "enum": [f"choice_{number}" for number in range(40)]}
ADDRESS = {"type": "object", "properties": {"country": LONG, "former": LONG}, "required": ["country"]}


def test_what_is_written_twice_is_defined_once() -> None:
    schema = {"type": "object", "properties": {"billing": ADDRESS, "shipping": ADDRESS, "note": {"type": "string"}}}
    before = deepcopy(schema)
    rewritten, definitions = shared(schema, ())
    assert schema == before
    assert rewritten["properties"] == {
        "billing": {"$ref": "#/$defs/billing"},
        "shipping": {"$ref": "#/$defs/billing"},
        "note": {"type": "string"},
    }
    assert definitions["country"] == LONG
    assert definitions["billing"]["properties"] == {name: {"$ref": "#/$defs/country"} for name in ("country", "former")}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},  # not worth it
        {"type": "object", "properties": {"a": LONG, "b": {"type": "integer"}}},  # nothing is repeated
        {"type": "object", "properties": {"a": {"default": LONG}, "b": {"default": LONG}, "c": {"const": LONG}}},  # values
    ],
)  # fmt: skip
def test_what_is_not_repeated_stays_as_it_is(schema: dict[str, Any]) -> None:
    if "default" in schema["properties"]["a"]:
        schema["properties"]["b"]["title"] = "another"
    assert shared(schema, ()) == (schema, {})


def test_names_are_never_taken_twice() -> None:
    other = {**LONG, "maxLength": 30}
    schema = {
        "properties": {
            "x": {"properties": {"kind": LONG, "again": other}},
            "y": {"properties": {"kind": other, "again": LONG}},
        }
    }
    rewritten, definitions = shared(schema, ("kind",))
    assert len(definitions) == 2
    assert "kind" not in definitions
    validator = jsonschema.Draft202012Validator({**rewritten, "$defs": {**definitions, "kind": False}})
    assert validator.is_valid({"x": {"kind": "choice_1"}, "y": {"kind": "choice_2"}})
    assert not validator.is_valid({"y": {"again": "cow"}})


def test_the_same_values_conform_before_and_after() -> None:
    schema = {"type": "object", "properties": {"a": {"anyOf": [ADDRESS, {"type": "array", "items": ADDRESS}]}}}
    rewritten, definitions = shared(schema, ())
    assert "$ref" in rewritten["properties"]["a"]["anyOf"][0]
    pair = (
        jsonschema.Draft202012Validator(schema),
        jsonschema.Draft202012Validator({**rewritten, "$defs": definitions}),
    )
    good = {"country": "choice_3"}
    for value in (good, [good], [], {}, [{}], {"country": "cow"}, 5):
        assert len({validator.is_valid({"a": value}) for validator in pair}) == 1
