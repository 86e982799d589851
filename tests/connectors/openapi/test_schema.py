"""Schemas: self-contained, pruned, valid 2020-12, whatever the document's own dialect or mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.connectors.openapi.readings import document, only, operation, read
from toolgen.model.manifest import assemble

JSON = "application/json"


def converted(folder: Path, schema: Any, version: str = "3.1.0", schemas: dict[str, Any] | None = None) -> Any:
    """The input schema of a query parameter with this schema."""
    parameter = {"name": "q", "in": "query", "schema": schema}
    written = document(
        {"/e": {"get": operation(parameters=[parameter])}}, version, components={"schemas": schemas or {}}
    )
    tool, _ = only(read(folder, written))
    definitions = tool.input_schema.get("$defs")
    whole = dict(tool.input_schema) if definitions is None else {**tool.input_schema, "$defs": dict(definitions)}
    jsonschema.Draft202012Validator.check_schema(whole)
    return whole


@pytest.mark.parametrize(
    ("version", "schema", "expected"),
    [
        ("3.0.3", {"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        (
            "3.0.3",
            {"type": "string", "nullable": True, "enum": ["a"]},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        (
            "3.0.3",
            {"nullable": True, "allOf": [{"type": "string"}]},
            {"anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}]},
        ),
        ("3.1.0", {"type": "string", "nullable": True}, {"type": "string"}),
        (
            "3.0.3",
            {"type": "number", "minimum": 1, "exclusiveMinimum": True},
            {"type": "number", "exclusiveMinimum": 1},
        ),
        ("3.0.3", {"type": "number", "maximum": 1, "exclusiveMaximum": False}, {"type": "number", "maximum": 1}),
        ("3.1.0", {"type": "number", "exclusiveMinimum": 1}, {"type": "number", "exclusiveMinimum": 1}),
        ("3.0.3", {"type": "string", "example": "x", "xml": {}, "x-foo": 1}, {"type": "string", "examples": ["x"]}),
        ("3.1.0", {"type": ["string", "null"], "const": None}, {"type": ["string", "null"], "const": None}),
        ("3.1.0", {"type": "any"}, {}),
        ("3.1.0", {"type": "int"}, {"type": "integer"}),
        (
            "3.1.0",
            {"type": "array", "items": [{"type": "string"}]},
            {"type": "array", "prefixItems": [{"type": "string"}]},
        ),
        ("3.1.0", {"required": True, "enum": [], "pattern": 5, "minimum": "0", "minLength": -1, "allOf": []}, {}),
        ("3.1.0", {"pattern": "("}, {}),
        ("3.1.0", {"pattern": "^a+$"}, {"pattern": "^a+$"}),
        ("3.1.0", {"type": "integer", "maximum": 2**63 - 1}, {"type": "integer", "exclusiveMaximum": float(2**63)}),
        ("3.1.0", {"type": "integer", "minimum": -(2**63)}, {"type": "integer", "minimum": float(-(2**63))}),
        ("3.1.0", {"enum": [2**60], "default": 2**60}, {"enum": [2**60], "default": 2**60}),
        ("3.1.0", {"enum": [10**300], "default": 10**300, "examples": [10**300, 1]}, {"examples": [1]}),
        ("3.1.0", {"type": "object", "additionalProperties": False}, {"type": "object", "additionalProperties": False}),
        ("3.1.0", True, {}),
        ("3.1.0", False, {"not": {}}),
        ("3.1.0", None, {}),
    ],
)
def test_dialects_and_mistakes(tmp_path: Path, version: str, schema: Any, expected: Any) -> None:
    assert converted(tmp_path, schema, version)["properties"]["q"] == expected


def test_recursion_is_kept_and_only_what_is_reached_is_carried(tmp_path: Path) -> None:
    schemas = {
        "Node": {
            "type": "object",
            "properties": {
                "next": {"$ref": "#/components/schemas/Node"},
                "leaf": {"$ref": "#/components/schemas/Leaf"},
            },
        },
        "Leaf": {"type": "string"},
        "Other": {"type": "integer"},
    }
    schema = converted(tmp_path, {"$ref": "#/components/schemas/Node"}, schemas=schemas)
    assert list(schema["$defs"]) == ["Leaf", "Node"]
    assert schema["properties"]["q"] == {"$ref": "#/$defs/Node"}
    jsonschema.Draft202012Validator(schema).validate({"q": {"next": {"next": {"leaf": "x"}}}})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate({"q": {"next": {"leaf": 1}}})


def test_a_chain_of_a_thousand_references_is_no_chain_of_frames(tmp_path: Path) -> None:
    schemas: dict[str, Any] = {
        f"S{n}": {"properties": {"x": {"$ref": f"#/components/schemas/S{n + 1}"}}} for n in range(3000)
    }
    schema = converted(tmp_path, {"$ref": "#/components/schemas/S0"}, schemas={**schemas, "S3000": {"type": "string"}})
    assert len(schema["$defs"]) == 3001


def test_a_schema_nested_without_end_costs_its_operation_only(tmp_path: Path) -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(150):
        deep = {"type": "array", "items": deep}
    paths = {
        "/deep": {"get": operation(parameters=[{"name": "q", "in": "query", "schema": deep}])},
        "/good": {"get": operation()},
    }
    reading = read(tmp_path, document(paths))
    assert [(problem.origin, problem.code) for problem in reading.problems] == [
        ("#/paths/~1deep/get", "schema_too_deep")
    ]
    assert len(assemble({"t": reading.info}, reading.tools, reading.problems).tools) == 1


def test_names_of_definitions_come_from_the_reference_alone(tmp_path: Path) -> None:
    schemas = {"A b/c": {"type": "string"}, "X": {"properties": {"y": {"type": "integer"}}}}
    refs = ["#/components/schemas/A b~1c", "#/components/schemas/X/properties/y"]
    for ref in refs:
        (name,) = converted(tmp_path, {"$ref": ref}, schemas=schemas)["$defs"]
        (again,) = converted(tmp_path, {"anyOf": [{"$ref": ref}, {"type": "null"}]}, schemas=schemas)["$defs"]
        assert name == again


def test_read_only_is_left_out_of_inputs_and_write_only_out_of_outputs(tmp_path: Path) -> None:
    schemas = {
        "Id": {"type": "integer", "readOnly": True},
        "Pet": {
            "type": "object",
            "required": ["id", "ref", "name", "secret"],
            "properties": {
                "id": {"type": "integer", "readOnly": True},
                "ref": {"$ref": "#/components/schemas/Id"},
                "name": {"type": "string"},
                "secret": {"type": "string", "writeOnly": True},
            },
        },
    }
    media = {JSON: {"schema": {"$ref": "#/components/schemas/Pet"}}}
    written = operation(
        requestBody={"required": True, "content": media}, responses={"201": {"description": "", "content": media}}
    )
    tool, _ = only(read(tmp_path, document({"/e": {"post": written}}, components={"schemas": schemas})))
    assert tool.input_schema["required"] == ["name", "secret"]
    assert set(tool.input_schema["properties"]) == {"name", "secret"}
    assert tool.output_schema is not None
    assert tool.output_schema["$defs"]["Pet"]["required"] == ["id", "ref", "name"]


def test_a_discriminator_chooses_its_branch(tmp_path: Path) -> None:
    branch = {"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}}}
    schemas = {"Cat": branch, "Dog": branch}
    refs = [{"$ref": f"#/components/schemas/{name}"} for name in schemas]
    one_of = {"oneOf": refs, "discriminator": {"propertyName": "kind", "mapping": {"dog": "#/components/schemas/Dog"}}}
    schema = converted(tmp_path, one_of, schemas=schemas)
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid({"q": {"kind": "dog"}})
    assert validator.is_valid({"q": {"kind": "Cat"}})
    assert not validator.is_valid({"q": {"kind": "cow"}})


def test_an_answer_whose_schema_is_broken_still_has_a_tool(tmp_path: Path) -> None:
    content = {JSON: {"schema": {"type": "array", "items": {"$ref": "#/nowhere"}}}}
    reading = read(tmp_path, document({"/e": {"get": operation(responses={"200": {"content": content}})}}))
    assert only(reading)[0].output_schema == {"type": "array", "items": {}}
    assert [problem.code for problem in reading.problems] == ["unresolved_ref"]


def test_no_reference_dangles(tmp_path: Path) -> None:
    schemas = {
        "A": {"properties": {"b": {"$ref": "#/components/schemas/B"}}},
        "B": {"$ref": "#/components/schemas/C"},
        "C": {"type": "string"},
    }
    schema = converted(tmp_path, {"$ref": "#/components/schemas/A"}, schemas=schemas)
    text = json.dumps(schema)
    assert text.count("#/components") == 0
    assert set(schema["$defs"]) == {"A", "B", "C"}
