"""A reference wherever the specification expects an object is followed, as bundlers follow it; none of them empties a tool."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.openapi.readings import document, only, read
from tests.exhaustive import spread
from toolgen.connectors.openapi.proof.prover import prove_http_tools
from toolgen.connectors.source import SourceConfig, SourceReading
from toolgen.quality.verify import FailedTool, ProvenTool

JSON = "application/json"
ITEM = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string", "enum": ["a", "b"]}, "size": {"allOf": [{"type": "integer"}]}},
}
THREE = document(
    {
        "/items/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "servers": [{"url": "http://{host}", "variables": {"host": {"default": "h.test"}}}],
            "post": {
                "operationId": "changeItem",
                "summary": "Changes an item.",
                "tags": ["items"],
                "security": [{"key": []}],
                "parameters": [
                    {"name": "q", "in": "query", "required": True, "schema": {"type": "integer"}},
                    {"name": "f", "in": "query", "content": {JSON: {"schema": ITEM}}},
                ],
                "requestBody": {
                    "required": True,
                    "content": {
                        "multipart/form-data": {
                            "schema": {**ITEM, "properties": {**ITEM["properties"], "x": {"type": "object"}}},
                            "encoding": {"x": {"contentType": JSON, "headers": {"X-A": {"schema": {"const": "b"}}}}},
                        }
                    },
                },
                "responses": {"200": {"description": "ok", "content": {JSON: {"schema": ITEM}}}},
            },
        }
    },
    components={"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
)
TWO = document(
    {
        "/items/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "type": "string"}],
            "post": {
                "operationId": "changeItem",
                "consumes": [JSON],
                "schemes": ["http"],
                "parameters": [
                    {"name": "q", "in": "query", "required": True, "type": "array", "items": {"type": "integer"}},
                    {"name": "body", "in": "body", "required": True, "schema": ITEM},
                ],
                "responses": {"200": {"description": "ok", "schema": ITEM}},
            },
        }
    },
    version="2.0",
)
# Values, and what is not followed where it stands: a scheme's requirement names schemes, and an enum's members are values.
DATA = {"enum", "const", "default", "example", "required", "tags", "consumes", "schemes", "security"}


def places(node: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where a document holds an object or a list that could as well be a reference."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        if isinstance(value, (dict, list)) and key not in DATA:
            yield (*at, key)
            yield from places(value, (*at, key))


def referring(written: dict[str, Any], at: tuple[str | int, ...], ref: str) -> tuple[dict[str, Any], Any]:
    """The document with a reference in that place, and what stood there."""
    built = copy.deepcopy(written)
    node: Any = built
    for step in at[:-1]:
        node = node[step]
    held, node[at[-1]] = node[at[-1]], {"$ref": ref}
    return built, held


def below(document: dict[str, Any]) -> list[tuple[str | int, ...]]:
    return [("paths",), *(("paths", *at) for at in places(document["paths"]))]


def shown(reading: SourceReading) -> Any:
    tool, _ = only(reading)
    form = tool.to_dict()
    return {key: form[key] for key in ("name", "origin", "title", "effect")} | {
        "binding": form["binding"],
        # What is shared has a name of its own; what is said is compared by `toolgen verify` below.
        "arguments": sorted(tool.input_schema["properties"]),
        "required": sorted(tool.input_schema["required"]),
        "answers": tool.output_schema is not None,
    }


CASES = [(written, at) for written in (THREE, TWO) for at in below(written)]


@pytest.mark.parametrize("where", ["inside", "file"])
@pytest.mark.parametrize(
    ("written", "at"), spread(CASES, 3), ids=[f"{one['info']['version']} {'/'.join(map(str, at))}" for one, at in CASES]
)
def test_a_reference_in_place_of_an_object_changes_nothing(
    written: dict[str, Any], at: tuple[str | int, ...], where: str, tmp_path: Path
) -> None:
    expected = shown(read(tmp_path, written))
    built, held = referring(written, at, "#/x-held/one" if where == "inside" else "parts/held.json#/one")
    if where == "inside":
        built["x-held"] = {"one": {"$ref": "#/x-held/two"}, "two": held}
    else:
        (tmp_path / "parts").mkdir()
        (tmp_path / "parts" / "held.json").write_text(json.dumps({"one": held}))
    reading = read(tmp_path, built)
    assert reading.problems == ()
    assert shown(reading) == expected
    config = SourceConfig(name="t", kind="openapi", location=str(tmp_path / "doc.json"))
    prove = prove_http_tools(config, reading.info.security_schemes, examples=4, seed="0")
    assert isinstance(prove(reading.tools[0]), ProvenTool)


def dangling(written: dict[str, Any], at: tuple[str | int, ...], folder: Path) -> SourceReading:
    return read(folder, referring(written, at, "#/nowhere")[0])


@pytest.mark.parametrize(
    ("written", "at"),
    [(one, at) for one, at in CASES if "responses" not in at[:-1] and "schema" not in at],
    ids=lambda value: "/".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_one_that_leads_nowhere_is_an_error_and_no_tool(
    written: dict[str, Any], at: tuple[str | int, ...], tmp_path: Path
) -> None:
    reading = dangling(written, at, tmp_path)
    (problem,) = [problem for problem in reading.problems if problem.level == "error"]
    assert (reading.tools, reading.operations, problem.code) == ((), 1, "unresolved_ref")
    assert problem.origin.startswith("#/paths")


@pytest.mark.parametrize("written", [THREE, TWO], ids=["3.1", "2.0"])
def test_an_answer_that_leads_nowhere_costs_its_schema_and_is_told(written: dict[str, Any], tmp_path: Path) -> None:
    reading = dangling(written, ("paths", "/items/{id}", "post", "responses", "200"), tmp_path)
    assert reading.tools[0].output_schema is None
    (problem,) = reading.problems
    assert (problem.level, problem.code) == ("warning", "unresolved_ref")


@pytest.mark.parametrize("key", ["servers", "security", "components", "info", "paths"])
def test_a_field_of_the_document_may_be_a_reference(key: str, tmp_path: Path) -> None:
    expected = shown(read(tmp_path, THREE))
    built, held = referring({**THREE, "security": [{"key": []}]}, (key,), "held.json#")
    (tmp_path / "held.json").write_text(json.dumps(held))
    assert shown(read(tmp_path, built)) == expected


def test_a_property_may_be_called_ref(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"$ref": {"type": "string"}, "a": {"type": "integer"}}}
    content = {"requestBody": {"required": True, "content": {JSON: {"schema": schema}}}}
    tool, _ = only(read(tmp_path, document({"/x": {"post": {"responses": {"200": {"description": ""}}, **content}}})))
    assert [*tool.input_schema["properties"].values()] == [{"type": "string"}, {"type": "integer"}]


def test_what_stands_beside_a_reference_to_an_operation_counts(tmp_path: Path) -> None:
    written = document(
        {"/x": {"get": {"$ref": "#/x-held", "summary": "Finds things by name."}}},
        **{"x-held": {"summary": "Finds.", "operationId": "findThings", "responses": {"200": {"description": ""}}}},
    )
    tool, _ = only(read(tmp_path, written))
    assert (tool.name, tool.title) == ("t__find_things", "Finds things by name")


LOST = {"$ref": "#/components/schemas/Lost"}
NESTED = {"type": "object", "required": ["lost"], "properties": {"lost": LOST}}
SCHEMAS = {"Nested": NESTED, "Again": {"$ref": "#/components/schemas/Lost"}}
OPEN: dict[str, dict[str, Any]] = {
    "a property": LOST,
    "its items": {"type": "array", "items": LOST},
    "a part of it": {"allOf": [LOST, {"type": "object"}]},
    "one that leads to nothing": {"$ref": "#/components/schemas/Again"},
    "one that requires what leads to nothing": {"$ref": "#/components/schemas/Nested"},
    "the same as it stands": NESTED,
    "items of that": {"type": "array", "items": {"$ref": "#/components/schemas/Nested"}},
}


def holding(schema: Any, required: bool, place: str) -> dict[str, Any]:
    one: dict[str, Any] = {"name": "a", "in": "query", "required": required, "schema": schema}
    more: dict[str, Any] = {"parameters": [one]}
    if place != "parameter":
        inner = {"type": "object", "properties": {"a": schema, "b": {"type": "integer"}}, "required": ["a"] * required}
        if place == "nested":
            inner = {"type": "object", "required": ["in"], "properties": {"in": inner}}
        more = {"requestBody": {"required": True, "content": {JSON: {"schema": inner}}}}
    return document(
        {"/x": {"post": {"responses": {"200": {"description": ""}}, **more}}}, components={"schemas": SCHEMAS}
    )


@pytest.mark.parametrize("place", ["parameter", "property", "nested"])
@pytest.mark.parametrize("case", OPEN)
def test_a_dangling_reference_in_what_may_be_left_out_leaves_it_open(case: str, place: str, tmp_path: Path) -> None:
    reading = read(tmp_path, holding(OPEN[case], False, place))
    tool, _ = only(reading)
    assert {(problem.level, problem.code) for problem in reading.problems} == {("warning", "unresolved_ref")}
    assert tool.name
    config = SourceConfig(name="t", kind="openapi", location=str(tmp_path / "doc.json"))
    verdict = prove_http_tools(config, {}, 4, "0")(tool)
    assert not isinstance(verdict, FailedTool), verdict
    required = read(tmp_path, holding(OPEN[case], True, place))
    assert required.tools == ()
    assert [problem.code for problem in required.problems if problem.level == "error"] == ["unresolved_ref"]


def sharing(**parameter: Any) -> dict[str, Any]:
    """A description of two operations that have one parameter in common."""
    get = {"responses": {"200": {"description": ""}}, "parameters": [{"$ref": "#/components/parameters/State"}]}
    one = {"name": "state", "in": "query", **parameter}
    return document({"/a": {"get": get}, "/b": {"get": get}}, components={"parameters": {"State": one}})


def test_a_parameter_that_operations_have_in_common_is_converted_once(tmp_path: Path) -> None:
    reading = read(tmp_path, sharing(schema={"type": "string", "enum": ["open", "closed"]}))
    one, other = (tool.input_schema["properties"]["state"] for tool in reading.tools)
    assert one is other == {"type": "string", "enum": ["open", "closed"]}


def test_what_is_wrong_with_a_common_parameter_is_told_of_each_operation(tmp_path: Path) -> None:
    reading = read(tmp_path, sharing(schema={"type": "strinng"}))
    assert [(one.code, one.origin) for one in reading.problems] == [
        ("unknown_type", "#/paths/~1a/get"),
        ("unknown_type", "#/paths/~1b/get"),
    ]
