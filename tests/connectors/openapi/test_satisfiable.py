"""Arguments that no value fits by the letter of a description: repaired where the author's meaning is plain, and told where it is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import toolgen
from toolgen.model.manifest import Manifest
from toolgen.policy.arguments import Validator

CLOSED = {
    "type": "object",
    "properties": {"label": {"type": "string"}},
    "required": ["label"],
    "additionalProperties": False,
}
PURRS = {"type": "object", "properties": {"purrs": {"type": "boolean"}}, "required": ["purrs"]}
ROOM, SHELF = ({"type": "object", "properties": {name: {"type": "string"}}} for name in ("room", "shelf"))


def built(tmp_path: Path, schema: dict[str, Any], version: str = "3.1.0", **schemas: Any) -> Manifest:
    """A description of one operation with this schema of the argument `x`, which its body has."""
    body = {"type": "object", "required": ["x"], "properties": {"x": schema, "y": {"type": "string"}}}
    operation = {
        "operationId": "send",
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {"200": {"description": "ok"}},
    }
    document = {
        "openapi": version,
        "info": {"title": "t", "version": "1"},
        "servers": [{"url": "https://a.example"}],
        "paths": {"/s": {"post": operation}},
        "components": {"schemas": schemas},
    }
    path = tmp_path / "api.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return toolgen.build(path)


def accepted(manifest: Manifest, value: Any) -> bool:
    (tool,) = manifest.tools.values()
    return Validator(tool.input_schema, formats=tool.checks_formats).accepts({"x": value})


CASES: list[tuple[dict[str, Any], list[Any], list[Any]]] = [
    ({"type": "string", "enum": [1, 2]}, ["1", "2"], [1, "3"]),
    ({"type": "integer", "enum": ["1", "2"]}, [1, 2], ["1", 3]),
    ({"type": "number", "enum": ["1.5", "x"]}, [1.5], ["x", 2]),
    ({"type": "boolean", "enum": ["true"]}, [True], [False, "true"]),
    ({"type": "string", "enum": [True, "maybe"]}, ["true", "maybe"], ["yes"]),
    ({"type": "string", "enum": ["a", "a", "b"]}, ["a", "b"], ["c"]),
    ({"type": "integer", "enum": ["a"]}, ["a"], [7]),
    ({"type": ["string", "null"], "enum": [1, None]}, ["1", None], [1]),
    ({"type": "array", "enum": ["a", "b"], "items": {"type": "string"}}, [["a"], ["a", "b"], []], [["c"], "a"]),
    ({"type": "array", "enum": [["a"], ["b"]]}, [["a"]], [["c"]]),
    ({"type": "string", "const": 5}, ["5"], [5, "6"]),
    ({"type": "integer", "minimum": 9, "maximum": 3}, [5, 12], ["x"]),
    ({"type": "string", "minLength": 9, "maxLength": 3}, ["abcd"], [1]),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, [1, 1.5], ["a"]),
    ({"oneOf": [{"type": "string", "format": "date"}, {"type": "string"}]}, ["2026-01-15", "soon"], [1]),
    ({"oneOf": [ROOM, SHELF]}, [{"room": "4b"}, {"shelf": "a"}, {}], [{"room": 1, "shelf": 1}]),
    ({"oneOf": [{"$ref": "#/components/schemas/Room"}, {"$ref": "#/components/schemas/Shelf"}]}, [{"room": "4b"}], ["a"]),
    (
        {"oneOf": [{"enum": ["a", "b"], "type": "string"}, {"enum": ["b", "c"], "type": "string"}]},
        ["a", "c"],
        ["b", "d"],  # a service may want one of two exclusive readings: each branch has a value of its own
    ),
    ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, [{"a": 1}, {"b": 1}], [{"a": 1, "b": 1}, {}]),
    (
        {"oneOf": [{**ROOM, "required": ["room"]}, {**SHELF, "required": ["shelf"]}]},
        [{"room": "a"}, {"shelf": "a"}],
        [{}, {"room": "a", "shelf": "a"}],
    ),
    ({"allOf": [CLOSED, PURRS]}, [{"label": "Tom", "purrs": True}], [{"label": "Tom"}, {"label": "a", "purrs": True, "z": 1}]),
    (
        {"allOf": [{"$ref": "#/components/schemas/Closed"}, PURRS]},
        [{"label": "Tom", "purrs": True}],
        [{"purrs": True}, {"label": "a", "purrs": True, "z": 1}],
    ),
    (
        {"allOf": [{"allOf": [{"$ref": "#/components/schemas/Closed"}]}, PURRS]},
        [{"label": "Tom", "purrs": True}],
        [{"label": "a", "purrs": True, "z": 1}],
    ),
    (
        {"allOf": [{"$ref": "#/components/schemas/Room"}], "properties": {"bed": {"type": "integer"}}, "additionalProperties": False},
        [{"room": "a", "bed": 1}, {"room": "a"}],
        [{"room": "a", "z": 1}, {"bed": "x"}],
    ),
    ({"type": "integer", "minimum": 3, "maximum": 4, "multipleOf": 5}, [1, 7], ["x"]),
    ({"type": "number", "minimum": 0.3, "maximum": 0.3, "multipleOf": 0.1}, [0.3], [0.4]),
    ({"type": "array", "items": {"type": "boolean"}, "minItems": 3, "uniqueItems": True}, [[True], [True, True, True]], [[1]]),
    ({"type": "array", "items": {"enum": ["a"]}, "minItems": 1, "uniqueItems": True}, [["a"]], [["a", "a"], []]),
    ({"type": "string", "pattern": "^[0-9]{3}$", "maxLength": 2}, ["123"], ["12", "1234"]),
    ({"type": "string", "pattern": "^[0-9]{3}$", "minLength": 4}, ["123"], ["1234"]),
    ({"type": "string", "pattern": "^(a|[0-9]{3}$)", "minLength": 4}, ["abcd"], ["123"]),
    ({"type": "string", "pattern": "[0-9]{3}", "maxLength": 3}, ["123"], ["1234"]),
    ({"type": "string", "pattern": "/^a+$/"}, ["aa"], ["b", "/a/"]),
    ({"type": "string", "pattern": "/^a+$/i"}, ["aa", "AA"], [1]),
    ({"type": "string", "pattern": "/a/"}, ["/a/"], ["a"]),
    ({"type": "string", "pattern": "^/a$"}, ["/a"], ["a"]),
    ({"type": "string", "pattern": "^x", "enum": ["a", "xb"]}, ["a", "xb"], ["xc"]),
    ({"type": "string", "format": "uuid", "enum": ["no-uuid"]}, ["no-uuid"], ["b"]),
    ({"type": "string", "format": "date", "enum": ["today", "2026-01-31"]}, ["today", "2026-01-31"], ["2026-02-01"]),
    ({"type": "integer", "maximum": 3, "enum": [1, 5]}, [1, 5], [2]),
    (
        {"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string"}}, "additionalProperties": False},
        [{"a": "x"}, {"a": "x", "b": 1}],
        [{"b": 1}, {"a": "x", "c": 1}],
    ),
    ({"allOf": [CLOSED, {"description": "a label"}]}, [{"label": "a"}], [{"label": "a", "z": 1}]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "good", "bad", "version"),
    [
        (schema, good, bad, version)
        for schema, good, bad in CASES
        for version in ("3.1.0", "3.0.3")
        if version == "3.1.0" or not (isinstance(schema.get("type"), list) or "const" in schema)  # which 3.0 has not
    ],
)
def test_what_the_author_meant_is_taken_and_nothing_else(
    tmp_path: Path, schema: dict[str, Any], good: list[Any], bad: list[Any], version: str
) -> None:
    manifest = built(tmp_path, schema, version, Closed=CLOSED, Room=ROOM, Shelf=SHELF)
    assert [one for one in good if not accepted(manifest, one)] == []
    assert [one for one in bad if accepted(manifest, one)] == []
    assert not {one.code for one in manifest.problems} & {"uncallable", "unfulfillable"}


@pytest.mark.parametrize(
    ("schema", "version"),
    [
        ({"type": "integer", "minimum": 5, "exclusiveMaximum": 5}, "3.1.0"),
        ({"type": "integer", "exclusiveMinimum": 5, "exclusiveMaximum": 6}, "3.1.0"),
        ({"type": "integer", "minimum": 5, "maximum": 5, "exclusiveMinimum": True}, "3.0.3"),
        ({"type": "integer", "minimum": 5, "maximum": 6, "exclusiveMinimum": True, "exclusiveMaximum": True}, "3.0.3"),
    ],
)
def test_exclusive_bounds_without_a_number_between_them_are_left_out(
    tmp_path: Path, schema: dict[str, Any], version: str
) -> None:
    manifest = built(tmp_path, schema, version)
    assert accepted(manifest, 5)
    assert [one.code for one in manifest.problems] == ["repaired_schema"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "number", "exclusiveMinimum": 5, "exclusiveMaximum": 6},
        {"type": "integer", "exclusiveMinimum": 5, "exclusiveMaximum": 7},
        {"type": "integer", "minimum": 5, "maximum": 5, "multipleOf": 5},
        {"type": "string", "pattern": "^[0-9]*$", "minLength": 4, "maxLength": 4},
        {"type": "string", "pattern": "^(a|b)$", "minLength": 1},
        {"type": "string", "format": "date", "enum": ["2026-01-31"]},
        {"type": "object", "required": ["a"], "additionalProperties": False, "properties": {"a": {}}},
        {"type": "object", "required": ["a"], "properties": {}},
    ],
)
def test_what_some_value_fits_is_not_repaired(tmp_path: Path, schema: dict[str, Any]) -> None:
    assert not built(tmp_path, schema).problems


def test_a_definition_that_is_closed_stays_closed_where_it_stands_alone(tmp_path: Path) -> None:
    both: dict[str, Any] = {
        "type": "object",
        "properties": {"cat": {"allOf": [{"$ref": "#/components/schemas/Closed"}, PURRS]}},
    }
    both["properties"]["label"] = {"$ref": "#/components/schemas/Closed"}
    manifest = built(tmp_path, both, Closed=CLOSED)
    assert accepted(manifest, {"cat": {"label": "Tom", "purrs": True}, "label": {"label": "a"}})
    assert not accepted(manifest, {"label": {"label": "a", "purrs": True}})


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"type": "string"}, {"type": "integer"}]},
        {"allOf": [{"$ref": "#/components/schemas/Room"}, {"type": "integer"}]},
        {"type": "object", "required": ["a"], "properties": {"a": {"not": {}}}},
        {"type": "array", "minItems": 1, "items": {"allOf": [{"type": "string"}, {"type": "null"}]}},
    ],
)
def test_what_no_value_fits_is_told(tmp_path: Path, schema: dict[str, Any]) -> None:
    manifest = built(tmp_path, schema, Room=ROOM)
    assert [(one.code, "'x'" in one.message) for one in manifest.problems] == [("uncallable", True)]
    optional = {"type": "object", "properties": {"x": schema}}
    body = built(tmp_path, {"type": "object", "properties": {"z": {"type": "string"}}}, Room=ROOM)
    assert not body.problems
    path = tmp_path / "api.json"
    document = json.loads(path.read_text())
    content = document["paths"]["/s"]["post"]["requestBody"]["content"]["application/json"]
    content["schema"] = optional
    path.write_text(json.dumps(document))
    (problem,) = toolgen.build(path).problems
    assert (problem.code, problem.level, "/properties/x" in problem.message) == ("unfulfillable", "warning", True)


WORDS = {"description": "How it is."}
HARD = {"type": "string", "pattern": "^(?=.*[A-Z])(?=.*[0-9])(?!.*(.)\\1)[A-Za-z0-9]{12}$"}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 5),
        ({"oneOf": [HARD, {**HARD, "description": "Again."}]}, "Abc1defghijk"),
        ({"oneOf": [{"$ref": "#/components/schemas/Hard"}] * 2}, "Abc1defghijk"),
    ],
)
def test_a_choice_that_overlaps_is_taken_also_of_an_argument_with_words_of_its_own(
    tmp_path: Path, schema: Any, value: Any
) -> None:
    named = [{"name": f"p{at}", "in": "query", "schema": schema, **words} for at, words in enumerate(({}, WORDS))]
    body = {**WORDS, "content": {"application/json": {"schema": schema}}}
    operation = {"operationId": "set", "parameters": named, "requestBody": body, "responses": {"200": WORDS}}
    components = {"schemas": {"Hard": HARD}}
    document = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/r": {"post": operation}}}
    path = tmp_path / "api.json"
    path.write_text(json.dumps({**document, "components": components, "servers": [{"url": "https://a.example"}]}))
    (tool,) = toolgen.build(path).tools.values()
    assert tool.input_schema["properties"].keys() == {"p0", "p1", "body"}
    for name, one in tool.input_schema["properties"].items():
        assert not Validator(tool.input_schema).faults({name: value})
        assert "oneOf" not in one


def test_answers_are_listed_as_they_are_described(tmp_path: Path) -> None:
    path = tmp_path / "api.json"
    schema = {"type": "object", "properties": {"a": {"oneOf": [{"type": "integer"}, {"type": "number"}]}}}
    operation = {"operationId": "read", "responses": {"200": {"description": "ok"}}}
    operation["responses"]["200"]["content"] = {"application/json": {"schema": schema}}  # type: ignore[index]
    document = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/r": {"get": operation}}}
    path.write_text(json.dumps({**document, "servers": [{"url": "https://a.example"}]}), encoding="utf-8")
    (tool,) = toolgen.build(path).tools.values()
    assert tool.output_schema is not None
    assert "oneOf" in tool.output_schema["properties"]["a"]
