"""Composed schemas: nothing dangles whatever properties are called, no branch contradicts itself, no direction demands what it hides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.connectors.openapi.readings import document, only, operation, read
from toolgen.connectors.openapi.proof.prover import prove_http_tools
from toolgen.connectors.openapi.read import read_openapi
from toolgen.connectors.source import SourceConfig
from toolgen.quality.verify import FailedTool

JSON = "application/json"


def sent(folder: Path, schema: Any, version: str = "3.1.0", **schemas: Any) -> jsonschema.Draft202012Validator:
    """A validator of what may be sent for a query parameter `q` with this schema."""
    parameter = {"name": "q", "in": "query", "required": True, "schema": schema}
    written = document({"/e": {"get": operation(parameters=[parameter])}}, version, components={"schemas": schemas})
    tool, _ = only(read(folder, written))
    jsonschema.Draft202012Validator.check_schema(dict(tool.input_schema))
    return jsonschema.Draft202012Validator(dict(tool.input_schema))


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


# Words that are keywords elsewhere, and no more than names below `parameters` and `properties`.
NAMES = ["default", "examples", "const", "enum", "$defs", "$ref", "properties", "items"]


@pytest.mark.parametrize("name", NAMES)
def test_a_parameter_or_property_may_be_called_like_a_keyword(tmp_path: Path, name: str) -> None:
    leaf = {"type": "object", "properties": {name: ref("Leaf")}}
    written = document(
        {
            "/e": {
                "post": operation(
                    parameters=[{"name": name, "in": "query", "schema": ref("Leaf")}],
                    requestBody={"content": {JSON: {"schema": {"type": "object", "properties": {"in": leaf}}}}},
                    responses={"200": {"description": "", "content": {JSON: {"schema": leaf}}}},
                )
            }
        },
        components={"schemas": {"Leaf": {"type": "integer"}}},
    )
    tool, _ = only(read(tmp_path, written))
    validator = jsonschema.Draft202012Validator(dict(tool.input_schema))
    assert validator.is_valid({name: 1, "in": {name: 2}})
    assert not validator.is_valid({"in": {name: "x"}})
    assert tool.output_schema is not None
    assert jsonschema.Draft202012Validator(dict(tool.output_schema)).is_valid({name: 1})


def test_two_schemas_never_share_a_name(tmp_path: Path) -> None:
    parameters = [
        {"name": "a", "in": "query", "schema": ref("X")},
        {"name": "b", "in": "query", "schema": {"$ref": "#/definitions/X"}},
    ]
    written = document(
        {"/e": {"get": operation(parameters=parameters)}},
        components={"schemas": {"X": {"type": "integer"}}},
        definitions={"X": {"type": "boolean"}},
    )
    tool, _ = only(read(tmp_path, written))
    validator = jsonschema.Draft202012Validator(dict(tool.input_schema))
    assert validator.is_valid({"a": 1, "b": True})
    assert not validator.is_valid({"b": 1})


KIND: dict[str, dict[str, Any]] = {
    "an enumeration of its own": {"type": "object", "required": ["k"], "properties": {"k": {"enum": ["dog"]}}},
    "a constant of its own": {"type": "object", "required": ["k"], "properties": {"k": {"const": "dog"}}},
    "one that it refers to": {"type": "object", "required": ["k"], "properties": {"k": ref("Kind")}},
    "one that it is composed of": {"allOf": [ref("Base"), {"properties": {"k": {"enum": ["dog", "cat"]}}}]},
}
PIECES = {"Kind": {"enum": ["dog"]}, "Base": {"type": "object", "required": ["k"], "properties": {"k": ref("Kind")}}}


@pytest.mark.parametrize("case", KIND)
def test_a_branch_that_chooses_itself_is_not_contradicted(tmp_path: Path, case: str) -> None:
    cat = {"type": "object", "required": ["k"], "properties": {"k": {"const": "cat"}}}
    schema = {"oneOf": [ref("Dog"), ref("Cat")], "discriminator": {"propertyName": "k"}}
    validator = sent(tmp_path, schema, Dog=KIND[case], Cat=cat, **PIECES)
    assert validator.is_valid({"q": {"k": "dog"}})
    assert validator.is_valid({"q": {"k": "cat"}})
    assert not validator.is_valid({"q": {"k": "Dog"}})


def test_a_mapping_narrows_what_all_branches_share(tmp_path: Path) -> None:
    pet = {"type": "object", "required": ["k"], "properties": {"k": {"enum": ["dog", "cat", "cow"]}}}
    mapping = {"dog": ref("Dog")["$ref"], "puppy": "Dog", "cat": "Cat"}
    schema = {"oneOf": [ref("Dog"), ref("Cat")], "discriminator": {"propertyName": "k", "mapping": mapping}}
    validator = sent(tmp_path, schema, Pet=pet, Dog={"allOf": [ref("Pet")]}, Cat={"allOf": [ref("Pet")]})
    assert [value for value in ("dog", "puppy", "cat", "cow") if validator.is_valid({"q": {"k": value}})] == [
        "dog",
        "cat",
    ]


def test_a_discriminator_that_is_no_text_chooses_nothing(tmp_path: Path) -> None:
    one, two = (
        {"type": "object", "required": ["k"], "properties": {"k": {"type": "integer", "enum": [n]}}} for n in (1, 2)
    )
    schema = {
        "oneOf": [ref("One"), ref("Two")],
        "discriminator": {"propertyName": "k", "mapping": {"1": "One", "2": "Two"}},
    }
    validator = sent(tmp_path, schema, One=one, Two=two)
    assert validator.is_valid({"q": {"k": 1}})
    assert not validator.is_valid({"q": {"k": 3}})


def test_composition_in_a_circle_ends_where_a_discriminator_looks_through_it(tmp_path: Path) -> None:
    pet = {"type": "object", "properties": {"friend": {"oneOf": [ref("Dog")], "discriminator": {"propertyName": "k"}}}}
    dog = {"allOf": [ref("Pet"), {"properties": {"k": {"type": "string"}}}]}
    assert sent(tmp_path, ref("Pet"), Pet=pet, Dog=dog).is_valid({"q": {"friend": {"k": "Dog"}}})


def test_the_default_branch_takes_what_no_other_does(tmp_path: Path) -> None:
    free = {"type": "object", "properties": {"k": {"type": "string"}}}
    discriminator = {"propertyName": "k", "mapping": {"dog": "Dog"}, "defaultMapping": "Other"}
    schema = {"oneOf": [ref("Dog"), ref("Other")], "discriminator": discriminator}
    validator = sent(tmp_path, schema, "3.2.0", Dog={**free, "required": ["bark"]}, Other=free)
    assert validator.is_valid({"q": {}})
    assert validator.is_valid({"q": {"k": "cow"}})
    assert validator.is_valid({"q": {"k": "dog", "bark": 1}})
    assert not validator.is_valid({"q": {"k": "dog"}})


BASE = {"type": "object", "properties": {"id": {"type": "integer", "readOnly": True}, "a": {"type": "integer"}}}
NEEDS = {"required": ["id", "a"]}
DEMANDING: dict[str, Any] = {
    "another branch": {"allOf": [ref("Base"), NEEDS]},
    "another branch that is shared": {"allOf": [ref("Base"), ref("Needs")]},
    "a branch of a branch": {"allOf": [{"allOf": [ref("Base")]}, {"allOf": [ref("Needs")]}]},
    "the composition itself": {"allOf": [ref("Base")], "required": ["id", "a"]},
    "a reference beside it": {**ref("Base"), "required": ["id", "a"]},
    "every alternative": {"anyOf": [ref("Base"), {"properties": {"id": ref("Id")}}], **NEEDS},
}
HIDING: dict[str, Any] = {
    "a composed property": {"type": "object", "properties": {"id": {"allOf": [ref("Id")]}, "a": {}}, **NEEDS},
    "a property that is two references away": {"type": "object", "properties": {"id": ref("Again"), "a": {}}, **NEEDS},
    "a composition of such an object": {"allOf": [ref("Whole"), {"properties": {"b": {}}}]},
    "a reference to one": ref("Whole"),
}


@pytest.mark.parametrize("case", DEMANDING)
def test_what_is_read_only_is_sent_where_a_request_requires_it(tmp_path: Path, case: str) -> None:
    """As PagerDuty's references to what exists do; the schema that calls it read-only does not require it itself.

    What is sent itself may not exist yet, so that there it may be given, and need not be.
    """
    schemas = {"Base": BASE, "Needs": NEEDS, "Id": {"type": "integer", "readOnly": True}}
    whole = sent(tmp_path, DEMANDING[case], **schemas)
    assert whole.is_valid({"q": {"id": 1, "a": 1}})
    assert not whole.is_valid({"q": {"id": "x", "a": 1}})
    assert whole.is_valid({"q": {"a": 1}})
    validator = sent(tmp_path, {"type": "object", "properties": {"x": DEMANDING[case]}}, **schemas)
    assert validator.is_valid({"q": {"x": {"id": 1, "a": 1}}})
    assert not validator.is_valid({"q": {"x": {"id": "x", "a": 1}}})
    assert not validator.is_valid({"q": {"x": {"a": 1}}})
    config = SourceConfig(name="t", kind="openapi", location=str(tmp_path / "doc.json"))
    reading = read_openapi(config)
    verdict = prove_http_tools(config, {}, 6, "0")(reading.tools[0])
    assert not isinstance(verdict, FailedTool), verdict


@pytest.mark.parametrize("case", HIDING)
def test_what_is_read_only_is_not_demanded_where_it_is_described(tmp_path: Path, case: str) -> None:
    schemas = {"Base": BASE, "Whole": BASE | NEEDS, "Id": {"type": "integer", "readOnly": True}, "Again": ref("Id")}
    validator = sent(tmp_path, HIDING[case], **schemas)
    assert validator.is_valid({"q": {"a": 1}})
    assert not validator.is_valid({"q": {}})


def test_a_shared_requirement_still_holds_where_nothing_is_hidden(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"x": ref("Whole"), "y": ref("Needs")}}
    validator = sent(tmp_path, schema, Whole=BASE | NEEDS, Needs=NEEDS)
    assert validator.is_valid({"q": {"x": {"a": 1}, "y": {"id": 1, "a": 1}}})
    assert not validator.is_valid({"q": {"y": {"a": 1}}})


def test_what_an_alternative_may_send_can_be_required(tmp_path: Path) -> None:
    schema = {"oneOf": [ref("Base"), {"required": ["b"], "properties": {"id": {}}}], "required": ["id"]}
    assert not sent(tmp_path, schema, Base=BASE).is_valid({"q": {"b": 1}})


def test_what_is_write_only_is_never_promised_of_an_answer(tmp_path: Path) -> None:
    base = {"type": "object", "properties": {"key": {"type": "string", "writeOnly": True}}}
    content = {JSON: {"schema": {"allOf": [ref("Base"), {"required": ["key"]}]}}}
    written = document(
        {"/e": {"get": operation(responses={"200": {"description": "", "content": content}})}},
        components={"schemas": {"Base": base}},
    )
    tool, _ = only(read(tmp_path, written))
    assert tool.output_schema is not None
    assert jsonschema.Draft202012Validator(dict(tool.output_schema)).is_valid({})


@pytest.mark.parametrize("schema", [{"enum": [10**300, 1]}, {"const": -(10**300)}, {"enum": "x"}])
def test_values_that_cannot_be_carried_are_reported(tmp_path: Path, schema: Any) -> None:
    parameter = {"name": "q", "in": "query", "schema": schema}
    reading = read(tmp_path, document({"/e": {"get": operation(parameters=[parameter])}}))
    assert reading.tools[0].input_schema["properties"]["q"] == {}
    assert [problem.code for problem in reading.problems] == ["bad_keyword"]
