"""Strict mode: what it takes, what cannot be said in it, and that nothing is lost on the way there and back."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.generator.emit.dialects.values import accepts, filled_in, some
from toolgen.generator.emit.dialects import UnfitError, strict_schema, without_absent

PET = {"type": "object", "properties": {"name": {"type": "string"}, "parent": {"$ref": "#/$defs/Pet"}}, "required": ["name"]}  # fmt: skip


def arguments(schema: Any, *, required: bool = True, **definitions: Any) -> dict[str, Any]:
    """The input schema of a tool with one argument."""
    built: dict[str, Any] = {"type": "object", "properties": {"x": schema}}
    if required:
        built["required"] = ["x"]
    return {**built, "$defs": definitions} if definitions else built


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, {"type": "string"}),
        ({"type": "string", "minLength": 1}, {"type": "string", "description": "At least 1 characters."}),
        (
            {"type": "string", "description": "A name", "default": "x", "examples": ["y"], "deprecated": True},
            {"type": "string", "description": "A name. Default: x. For example y. Deprecated."},
        ),
        ({"type": "string", "pattern": "^a", "format": "uuid"}, {"type": "string", "pattern": "^a", "format": "uuid"}),
        (
            {"type": "string", "pattern": "(?!a)b", "format": "int64"},
            {"type": "string", "description": "Matches the regular expression (?!a)b. Format: int64."},
        ),
        ({"type": "integer", "minimum": 1}, {"type": "integer", "minimum": 1}),
        (
            {"type": "array", "items": {"type": "string"}, "maxItems": 3, "uniqueItems": True},
            {"type": "array", "items": {"type": "string"}, "maxItems": 3, "description": "No two items are equal."},
        ),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"type": ["string", "null"], "enum": ["a", None]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        ({"const": 5}, {"type": "number", "const": 5}),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        (
            {"oneOf": [{"type": "string"}, {"type": "integer"}], "description": "Either"},
            {"anyOf": [{"type": "string"}, {"type": "integer"}], "description": "Either."},
        ),
        (
            {"allOf": [{"type": "integer", "minimum": 1}, {"minimum": 2, "maximum": 9}]},
            {"type": "integer", "minimum": 2, "maximum": 9},
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "minProperties": 1},
            {
                "type": "object",
                "properties": {"a": {"type": ["string", "null"]}},
                "required": ["a"],
                "additionalProperties": False,
                "description": "At least 1 properties.",
            },
        ),
        (
            {"type": "string", "not": {"const": "x"}},
            {"type": "string", "description": 'Does not match {"const":"x"}.'},
        ),
    ],
)  # fmt: skip
def test_what_strict_mode_says(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    before = deepcopy(schema)
    assert strict_schema(arguments(schema))["properties"]["x"] == expected
    assert schema == before


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, {"type": ["string", "null"]}),
        ({"type": "string", "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"const": "a"}, {"anyOf": [{"type": "string", "const": "a"}, {"type": "null"}]}),
        ({"$ref": "#/$defs/Pet"}, {"anyOf": [{"$ref": "#/$defs/Pet"}, {"type": "null"}]}),
        (
            {"$ref": "#/$defs/Pet", "description": "Its parent"},
            {"anyOf": [{"$ref": "#/$defs/Pet"}, {"type": "null"}], "description": "Its parent."},
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
        ),
    ],
)
def test_an_argument_that_may_be_left_out_is_required_and_nullable(
    schema: dict[str, Any], expected: dict[str, Any]
) -> None:
    lowered = strict_schema(arguments(schema, required=False, Pet=PET))
    assert lowered["required"] == ["x"]
    assert lowered["additionalProperties"] is False
    assert lowered["properties"]["x"] == expected


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({}, "any value"),
        (True, "any value"),
        ({"description": "Anything"}, "any type"),
        ({"type": "object"}, "no known properties"),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True}, "does not list"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "does not list"),
        ({"type": "object", "patternProperties": {"^x": {}}}, "no known properties"),
        ({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}, "both null and absent"),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]}, "does not describe"),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "if": {}, "then": {}}, "if has no strict form"),
        ({"type": "array"}, "any value"),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, "prefixItems"),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "no single schema"),
        (deep(10), "10 levels"),
        ({"type": "string", "enum": [str(number) for number in range(1_001)]}, "1001 enum values"),
        ({"type": "string", "enum": [f"{number:080}" for number in range(300)]}, "15000 characters"),
        ({"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(5_000)}}, "5001 properties"),
    ],
    ids=lambda value: value if isinstance(value, str) else "schema",
)  # fmt: skip
def test_what_has_no_strict_form_is_named(schema: Any, reason: str) -> None:
    with pytest.raises(UnfitError, match=reason):
        strict_schema(arguments(schema))


def test_recursion_stays_and_what_is_no_longer_reached_goes() -> None:
    schema = arguments({"allOf": [{"$ref": "#/$defs/Pet"}], "description": "One"}, Pet=PET, Other={"type": "string"})
    lowered = strict_schema(schema)
    assert lowered["properties"]["x"] == {"anyOf": [{"$ref": "#/$defs/Pet"}], "description": "One."}
    assert list(lowered["$defs"]) == ["Pet"]
    assert lowered["$defs"]["Pet"]["properties"]["parent"] == {"anyOf": [{"$ref": "#/$defs/Pet"}, {"type": "null"}]}


def test_an_all_of_that_contains_itself_ends() -> None:
    inner = {"allOf": [{"$ref": "#/$defs/A"}, {"properties": {"z": {"type": "string"}}}]}
    loop = {"type": "object", "properties": {"l": inner, "r": inner}, "required": ["l", "r"]}
    with pytest.raises(UnfitError, match="no end"):
        strict_schema(arguments({"$ref": "#/$defs/A"}, A=loop))
    circle = {"allOf": [{"$ref": "#/$defs/A"}, {"minimum": 2}]}
    with pytest.raises(UnfitError, match="no single schema"):
        strict_schema(arguments({"allOf": [{"$ref": "#/$defs/A"}, {"minimum": 1}]}, A=circle))


WHOLE = [
    arguments({"$ref": "#/$defs/Pet"}, required=False, Pet=PET),
    arguments({"anyOf": [{"$ref": "#/$defs/Pet"}, {"type": "array", "items": {"$ref": "#/$defs/Pet"}}]}, Pet=PET),
    arguments(
        {
            "oneOf": [
                {"type": "object", "properties": {"kind": {"const": kind}, kind: {"type": "string"}}, "required": ["kind"]}
                for kind in ("cat", "dog")
            ]
        }
    ),
    arguments(
        {
            "allOf": [{"$ref": "#/$defs/Pet"}, {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0}}}],
            "minProperties": 1,
        },
        Pet=PET,
    ),
    arguments(
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        }
    ),
    arguments(
        {
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "oneOf": [
                {"properties": {"b": {"type": "string"}}, "required": ["b"]},
                {"properties": {"c": {"type": "array", "items": {"type": ["string", "null"]}}}, "required": ["c"]},
            ],
        }
    ),
]  # fmt: skip


@pytest.mark.parametrize("schema", WHOLE, ids=range(len(WHOLE)))
def test_every_value_can_be_said_strictly_and_comes_back_as_it_was(schema: dict[str, Any]) -> None:
    lowered = strict_schema(schema)
    definitions = schema.get("$defs", {})
    values = some(schema, 12)
    assert len(values) == 12
    for value in values:
        spoken = filled_in(schema, value, definitions)
        assert accepts(lowered, spoken), (value, spoken)
        assert without_absent(schema, spoken) == value
