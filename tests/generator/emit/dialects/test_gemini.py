"""Gemini's Schema: every tool gets one, the SDK takes it, and it refuses nothing that the canonical schema accepts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.generator.emit.dialects.test_strict import PET, WHOLE, arguments
from tests.generator.emit.dialects.values import accepts, as_json_schema, some
from toolgen.generator.emit.dialects import gemini_schema


def _sdk() -> Any:
    from google.genai import types  # noqa: PLC0415 - takes half a second

    return types


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, {"type": "STRING"}),
        ({"type": "string", "format": "date-time", "minLength": 1}, {"type": "STRING", "format": "date-time", "minLength": 1}),
        ({"type": "string", "format": "uuid"}, {"type": "STRING", "description": "Format: uuid."}),
        ({"type": ["string", "null"], "enum": ["a", None]}, {"type": "STRING", "enum": ["a"], "nullable": True}),
        ({"enum": ["a", ""]}, {"type": "STRING", "description": 'One of a, "".'}),
        ({"type": "integer", "enum": [1, 2]}, {"type": "INTEGER", "description": "One of 1, 2."}),
        ({"const": "a"}, {"type": "STRING", "enum": ["a"]}),
        (
            {"type": "number", "exclusiveMinimum": 0, "multipleOf": 2},
            {"type": "NUMBER", "minimum": 0, "description": "More than 0. A multiple of 2."},
        ),
        ({}, {"description": "Any JSON value."}),
        (False, {"description": "No value."}),
        ({"type": "null"}, {"type": "NULL"}),
        ({"type": "array"}, {"type": "ARRAY", "items": {"description": "Any JSON value."}}),
        (
            {"type": ["string", "integer"], "minimum": 1, "description": "Either"},
            {"anyOf": [{"type": "STRING"}, {"type": "INTEGER", "minimum": 1}], "description": "Either."},
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
            {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}], "nullable": True},
        ),
        ({"anyOf": [{"type": "string"}, {"type": "null"}], "description": "x."}, {"type": "STRING", "nullable": True, "description": "x."}),
        ({"allOf": [{"type": "string"}], "description": "x."}, {"type": "STRING", "description": "x."}),
        ({"allOf": [{"type": "string"}, {"type": "integer"}], "type": "string"}, {"type": "STRING"}),
        (
            {"type": "object", "properties": {"a": {}}, "required": ["a", "gone"], "additionalProperties": False},
            {
                "type": "OBJECT",
                "properties": {"a": {"description": "Any JSON value."}},
                "required": ["a"],
                "description": "No other properties.",
            },
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"type": "OBJECT", "description": 'Other properties match {"type":"string"}.'},
        ),
        (
            {"$ref": "#/$defs/Pet", "description": "It."},
            {
                "type": "OBJECT",
                "properties": {
                    "name": {"type": "STRING"},
                    "parent": {"type": "OBJECT", "description": "A Pet. Properties: name, parent."},
                },
                "required": ["name"],
                "description": "It.",
            },
        ),
    ],
)  # fmt: skip
def test_what_gemini_is_told(schema: Any, expected: dict[str, Any]) -> None:
    lowered = gemini_schema(arguments(schema, Pet=PET))["properties"]["x"]
    assert lowered == expected
    _sdk().Schema.model_validate(lowered)


@pytest.mark.parametrize("schema", WHOLE, ids=range(len(WHOLE)))
def test_nothing_the_schema_accepts_is_refused(schema: dict[str, Any]) -> None:
    lowered = as_json_schema(gemini_schema(schema))
    values = some(schema, 12)
    assert len(values) == 12
    assert [value for value in values if not accepts(lowered, value)] == []


def test_a_schema_too_large_to_write_out_is_cut_where_it_still_fits() -> None:
    fan = {
        f"L{level}": {"type": "object", "properties": {f"p{n}": {"$ref": f"#/$defs/L{level + 1}"} for n in range(12)}}
        for level in range(8)
    }
    schema = arguments({"$ref": "#/$defs/L0"}, **fan, L8={"type": "string"})
    lowered = gemini_schema(schema)
    declared = _sdk().FunctionDeclaration(name="f", parameters=_sdk().Schema.model_validate(lowered))
    assert 100 < str(lowered).count("'type'") <= 1_500
    assert declared.parameters is not None
    value: Any = "end"
    for _ in range(8):
        value = {"p0": value}
    assert accepts(as_json_schema(lowered), {"x": value})


def test_a_tool_with_more_arguments_than_that_keeps_them_all() -> None:
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(2_000)}}
    assert len(gemini_schema(schema)["properties"]) == 2_000
