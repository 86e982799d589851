"""A proof of a tool: right bindings pass, and each kind of wrong one is caught with a small example."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.connectors.openapi.readings import document, only, operation, read
from toolgen.connectors.openapi.documents import Documents
from toolgen.connectors.openapi.proof.requests import prove_request
from toolgen.connectors.openapi.proof.spec_operation import Descriptions
from toolgen.connectors.proof.verdicts import FailedTool, ProvenTool, Unproven, Verdict
from toolgen.model.tool import HttpBinding, HttpBody, HttpPart, Tool

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
TEXTS = {"type": "array", "items": TEXT}
WHOLES = {"type": "array", "items": WHOLE}
POINT = {"type": "object", "properties": {"x": WHOLE, "y": WHOLE}, "additionalProperties": False}


def described(folder: Path, paths: dict[str, Any], version: str = "3.1.0", **more: Any) -> tuple[Tool, HttpBinding]:
    return only(read(folder, document(paths, version, **more)))


def prove(folder: Path, tool: Tool, *, examples: int = 20, **binding: Any) -> Verdict:
    """Proves the tool with some fields of its binding replaced, against the document that was read last."""
    if binding:
        tool = msgspec.structs.replace(tool, binding=msgspec.structs.replace(tool.binding, **binding))
    origin = Descriptions(Documents(folder / "doc.json")).operation(tool.origin)
    return prove_request(tool, origin, {}, examples=examples, seed="0")


def query(name: str = "q", schema: Mapping[str, Any] = TEXT, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, **more}


def body(schema: Any, media_type: str = "application/json", **more: Any) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {media_type: {"schema": schema, **more}}}}


@pytest.mark.parametrize(
    ("place", "style", "explode", "schema"),
    [
        *[("query", "form", explode, schema) for explode in (True, False) for schema in (TEXT, WHOLES, TEXTS, POINT)],
        *[("query", style, False, WHOLES) for style in ("spaceDelimited", "pipeDelimited")],
        ("query", "deepObject", True, POINT),
        *[
            ("path", style, explode, schema)
            for style in ("simple", "label", "matrix")
            for explode in (True, False)
            for schema in (WHOLE, WHOLES, POINT)
        ],
        *[("header", "simple", explode, schema) for explode in (True, False) for schema in (WHOLE, WHOLES, POINT)],
        *[("cookie", "form", explode, schema) for explode in (True, False) for schema in (TEXT, WHOLES)],
    ],
)
def test_every_style_of_every_place_is_proven(
    tmp_path: Path, place: str, style: str, explode: bool, schema: Any
) -> None:
    name = "X-Q" if place == "header" else "q"
    parameter = {"name": name, "in": place, "schema": schema, "style": style, "explode": explode}
    path = "/e/{q}" if place == "path" else "/e"
    tool, _ = described(tmp_path, {path: {"get": operation(parameters=[{**parameter, "required": True}])}})
    verdict = prove(tmp_path, tool)
    assert isinstance(verdict, ProvenTool), verdict
    assert verdict.examples > 0


PLACES: dict[str, tuple[str, dict[str, Any]]] = {
    "one beside the other": ("/p/{id}{format}", {"id": TEXT, "format": {"type": "string", "enum": [".json"]}}),
    "a dot between": (
        "/p/{at}.{format}",
        {"at": {"type": "number"}, "format": {"type": "string", "enum": ["js", "xml"]}},
    ),
    "two that hold the divider": ("/p/{from}-{to}", {"from": TEXT, "to": TEXT}),
}


@pytest.mark.parametrize("case", PLACES)
def test_several_variables_of_a_segment_are_judged_where_they_can_be_told_apart(tmp_path: Path, case: str) -> None:
    path, schemas = PLACES[case]
    parameters = [{"name": name, "in": "path", "required": True, "schema": one} for name, one in schemas.items()]
    tool, binding = described(tmp_path, {path: {"get": operation(parameters=parameters)}})
    assert isinstance(prove(tmp_path, tool), ProvenTool)
    renamed = tuple(
        msgspec.structs.replace(one, name=other.name)
        for one, other in zip(binding.parameters, reversed(binding.parameters), strict=True)
    )
    assert isinstance(prove(tmp_path, tool, parameters=renamed), FailedTool)


def test_what_is_percent_encoded_where_reserved_characters_may_stand_stays_so(tmp_path: Path) -> None:
    parameter = query(schema={"type": "string", "example": "%2F"}, allowReserved=True)
    tool, _ = described(tmp_path, {"/e": {"get": operation(parameters=[parameter])}})
    assert isinstance(verdict := prove(tmp_path, tool), ProvenTool), verdict


def test_names_that_start_with_an_underscore_and_without_are_two(tmp_path: Path) -> None:
    tool, _ = described(tmp_path, {"/e": {"get": operation(parameters=[query("_limit"), query("limit_")])}})
    assert isinstance(verdict := prove(tmp_path, tool), ProvenTool), verdict


def test_open_objects_of_a_query_that_share_a_name_may_be_refused(tmp_path: Path) -> None:
    open_ = {"type": "object", "additionalProperties": TEXT, "minProperties": 1}
    tool, _ = described(tmp_path, {"/e": {"get": operation(parameters=[query("a", open_), query("b", open_)])}})
    assert isinstance(verdict := prove(tmp_path, tool), Unproven), verdict


def test_a_form_that_may_be_null_may_be_refused(tmp_path: Path) -> None:
    form = {"type": ["object", "null"], "properties": {"a": TEXT}}
    tool, _ = described(tmp_path, {"/e": {"post": operation(**body(form, "multipart/form-data"))}})
    assert isinstance(verdict := prove(tmp_path, tool), ProvenTool), verdict


FILE = {"type": "string", "format": "binary"}
FILES = [
    {"type": "object", "properties": {"f": {"anyOf": [FILE, {"type": "array", "items": FILE}]}}},
    {"type": "object", "properties": {"f": {"anyOf": [FILE, TEXT]}}},
    {"type": "object", "properties": {"f": {"allOf": [FILE]}}},
    {"allOf": [{"type": "object", "properties": {"f": FILE}}, {"type": "object", "properties": {"a": TEXTS}}]},
    {"type": "object", "additionalProperties": FILE},
]


@pytest.mark.parametrize(("style", "explode"), [("form", False), ("cookie", True), ("cookie", False)])
@pytest.mark.parametrize("schema", [WHOLE, WHOLES, POINT])
def test_cookies_of_the_newest_version_are_proven(tmp_path: Path, style: str, explode: bool, schema: Any) -> None:
    one = {"name": "c", "in": "cookie", "required": True, "schema": schema, "style": style, "explode": explode}
    tool, _ = described(tmp_path, {"/e": {"get": operation(parameters=[one])}}, "3.2.0")
    verdict = prove(tmp_path, tool)
    assert isinstance(verdict, ProvenTool), verdict


@pytest.mark.parametrize(
    ("media_type", "schema", "encoding"),
    [
        ("application/json", {"type": "object", "properties": {"a": TEXTS, "n": {"type": ["null", "number"]}}}, None),
        ("application/json", WHOLES, None),
        ("application/merge-patch+json", {"type": "object", "additionalProperties": TEXT}, None),
        ("application/x-www-form-urlencoded", {"type": "object", "properties": {"a": TEXTS, "o": POINT}}, None),
        (
            "application/x-www-form-urlencoded",
            {"type": "object", "properties": {"a": WHOLES, "o": POINT}},
            {"a": {"style": "pipeDelimited", "explode": False}, "o": {"style": "deepObject", "explode": True}},
        ),
        (
            "multipart/form-data",
            {"type": "object", "properties": {"f": {"type": "string", "format": "binary"}, "t": TEXTS, "o": POINT}},
            None,
        ),
        (
            "multipart/form-data",
            {"type": "object", "properties": {"o": POINT, "a": WHOLES}},
            {"o": {"style": "deepObject", "explode": True}, "a": {"contentType": "application/json"}},
        ),
        *[("multipart/form-data", schema, None) for schema in FILES],
        ("multipart/form-data", {"type": "object", "properties": {"f": {}}}, {"f": {"contentType": "image/png"}}),
        (
            "multipart/form-data",
            {"type": "object", "properties": {"f": {"format": "binary"}, "a": WHOLES, "o": POINT}},
            {"o": {"style": "deepObject", "explode": True}, "a": {"style": "form", "explode": False}},
        ),
        ("application/octet-stream", {"type": "string", "format": "binary"}, None),
        ("application/json", {"type": ["array", "null"], "items": WHOLE}, None),
        ("text/plain", TEXT, None),
    ],
)
def test_every_kind_of_body_is_proven(tmp_path: Path, media_type: str, schema: Any, encoding: Any) -> None:
    more = {} if encoding is None else {"encoding": encoding}
    version = "3.0.3" if "format" in json.dumps(schema) else "3.1.0"
    tool, _ = described(tmp_path, {"/e": {"post": operation(**body(schema, media_type, **more))}}, version)
    verdict = prove(tmp_path, tool)
    assert isinstance(verdict, ProvenTool), verdict


@pytest.mark.parametrize("collection", ["csv", "ssv", "tsv", "pipes", "multi"])
@pytest.mark.parametrize("place", ["query", "header"])
def test_swagger_collections_are_proven(tmp_path: Path, collection: str, place: str) -> None:
    if (collection, place) == ("multi", "header"):
        collection = "csv"  # there is no multi in a header
    one = {"name": "q", "in": place, "type": "array", "items": WHOLE, "collectionFormat": collection}
    tool, _ = described(tmp_path, {"/e": {"get": operation(parameters=[one])}}, "2.0")
    verdict = prove(tmp_path, tool)
    assert isinstance(verdict, ProvenTool), verdict


def planted(tmp_path: Path) -> tuple[Tool, HttpBinding]:
    parameters = [
        query("limit", WHOLE),
        query("tags", WHOLES),
        query("other", WHOLE),
        {"name": "id", "in": "path", "required": True, "schema": TEXT},
    ]
    schema = {"type": "object", "properties": {"name": TEXT, "size": WHOLE}, "required": ["name"]}
    return described(tmp_path, {"/e/{id}": {"post": operation(parameters=parameters, **body(schema))}})


def changed(binding: HttpBinding, argument: str, **fields: Any) -> dict[str, Any]:
    return {
        "parameters": tuple(
            msgspec.structs.replace(one, **fields) if one.argument == argument else one for one in binding.parameters
        )
    }


def test_what_is_planted_below_is_right_before_it(tmp_path: Path) -> None:
    tool, _ = planted(tmp_path)
    assert isinstance(prove(tmp_path, tool), ProvenTool)


@pytest.mark.parametrize(
    ("argument", "fields"),
    [
        ("limit", {"name": "limt"}),
        ("limit", {"name": "other"}),
        ("limit", {"in_": "header"}),
        ("tags", {"explode": False}),
        ("tags", {"style": "pipeDelimited", "explode": False}),
        ("tags", {"content_type": "application/json"}),
        ("tags", {"name": "tags[]"}),
    ],
)
def test_a_parameter_that_goes_elsewhere_is_caught(tmp_path: Path, argument: str, fields: dict[str, Any]) -> None:
    tool, binding = planted(tmp_path)
    verdict = prove(tmp_path, tool, **changed(binding, argument, **fields))
    assert isinstance(verdict, FailedTool), verdict
    assert verdict.reason


def test_swapped_parameters_are_caught(tmp_path: Path) -> None:
    tool, binding = planted(tmp_path)
    names = {"limit": "other", "other": "limit"}
    swapped = tuple(msgspec.structs.replace(one, name=names.get(one.name, one.name)) for one in binding.parameters)
    assert isinstance(prove(tmp_path, tool, parameters=swapped), FailedTool)


def test_a_dropped_parameter_is_caught(tmp_path: Path) -> None:
    tool, binding = planted(tmp_path)
    kept = tuple(one for one in binding.parameters if one.argument != "limit")
    verdict = prove(tmp_path, tool, parameters=kept)
    assert isinstance(verdict, FailedTool)
    assert "'limit'" in verdict.reason


def test_an_argument_the_schema_lost_is_caught(tmp_path: Path) -> None:
    tool, binding = planted(tmp_path)
    kept = {name: one for name, one in tool.input_schema["properties"].items() if name != "limit"}
    poorer = msgspec.structs.replace(tool, input_schema={**tool.input_schema, "properties": kept})
    parameters = tuple(one for one in binding.parameters if one.argument != "limit")
    assert isinstance(prove(tmp_path, poorer, parameters=parameters), FailedTool)


@pytest.mark.parametrize(
    "wrong",
    [
        HttpBody(media_type="application/json", properties={"name": "nme", "size": "size"}, required=True),
        HttpBody(media_type="application/json", properties={"name": "size", "size": "name"}, required=True),
        HttpBody(media_type="application/x-www-form-urlencoded", properties={"name": "name", "size": "size"}),
        HttpBody(media_type="application/json", argument="name", required=True),
        HttpBody(media_type="application/json", properties={"name": "name"}, required=True),
        None,
    ],
)
def test_a_wrong_body_is_caught(tmp_path: Path, wrong: HttpBody | None) -> None:
    tool, _ = planted(tmp_path)
    assert isinstance(prove(tmp_path, tool, body=wrong), FailedTool)


@pytest.mark.parametrize(
    "fields", [{"method": "PUT"}, {"path": "/f/{id}"}, {"path": "/e/{id}/more"}, {"path": "/e/x{id}"}]
)
def test_a_request_to_somewhere_else_is_caught(tmp_path: Path, fields: dict[str, Any]) -> None:
    tool, _ = planted(tmp_path)
    assert isinstance(prove(tmp_path, tool, **fields), FailedTool)


def test_a_part_that_is_no_file_is_caught(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"f": {"type": "string", "format": "binary"}}, "required": ["f"]}
    tool, binding = described(tmp_path, {"/e": {"post": operation(**body(schema, "multipart/form-data"))}}, "3.0.3")
    assert isinstance(prove(tmp_path, tool), ProvenTool)
    assert binding.body is not None
    wrong = msgspec.structs.replace(binding.body, parts={"f": HttpPart()})
    assert isinstance(prove(tmp_path, tool, body=wrong), FailedTool)


def test_a_failure_shows_its_smallest_example(tmp_path: Path) -> None:
    tool, binding = planted(tmp_path)
    verdict = prove(tmp_path, tool, **changed(binding, "tags", explode=False))
    assert isinstance(verdict, FailedTool)
    assert set(verdict.arguments) == {"id", "name", "tags"}  # two of them because they are required
    assert verdict.arguments["tags"] == [0, 0]
    assert verdict.arguments["name"] == ""
    assert "tags=0,0" in verdict.sent


def test_what_the_standard_leaves_open_is_unproven_and_says_so(tmp_path: Path) -> None:
    nested = {"type": "array", "items": {"type": "array", "items": TEXT, "minItems": 1}, "minItems": 1}
    tool, _ = described(tmp_path, {"/e": {"get": operation(parameters=[query(schema=nested)])}})
    verdict = prove(tmp_path, tool)
    assert isinstance(verdict, Unproven)
    assert "style form" in verdict.reasons[0]


def test_null_in_a_list_is_refused_and_what_else_the_list_holds_is_proven(tmp_path: Path) -> None:
    items: Any = {"type": "array", "items": {"oneOf": [{"type": "null"}, TEXT]}}
    form = body({"type": "object", "properties": {"ids": items}}, "application/x-www-form-urlencoded")
    for method, said in (("get", {"parameters": [query(schema=items)]}), ("post", form)):
        tool, _ = described(tmp_path, {"/e": {method: operation(**said)}}, "3.1.0")
        assert isinstance(prove(tmp_path, tool), ProvenTool)


def test_arguments_that_no_example_had_are_tried_one_by_one(tmp_path: Path) -> None:
    """The first example has no optional argument."""
    written = [query(name, schema={**WHOLES, "minItems": 2}) for name in "abc"]
    tool, binding = described(tmp_path, {"/e": {"get": operation(parameters=written)}})
    assert isinstance(prove(tmp_path, tool, examples=1), ProvenTool)
    wrong = prove(tmp_path, tool, examples=1, **changed(binding, "b", explode=False))
    assert isinstance(wrong, FailedTool)
    assert wrong.arguments.keys() == {"b"}


def test_an_enum_without_values_says_nothing(tmp_path: Path) -> None:
    nothing = {"type": "string", "enum": [], "allOf": [{"type": "string", "maxLength": 5}]}
    tool, _ = described(tmp_path, {"/e": {"get": operation(parameters=[query(schema=nothing)])}})
    assert isinstance(prove(tmp_path, tool), ProvenTool)


def test_lists_in_a_deep_object_are_held_to_the_documented_convention(tmp_path: Path) -> None:
    nested = {"type": "object", "properties": {"a": {"type": "array", "items": TEXT, "minItems": 1}}, "required": ["a"]}
    deep = query(schema=nested, style="deepObject", explode=True)
    tool, binding = described(tmp_path, {"/e": {"get": operation(parameters=[deep])}})
    assert isinstance(prove(tmp_path, tool), ProvenTool)
    verdict = prove(tmp_path, tool, **changed(binding, binding.parameters[0].argument, style="form"))
    assert isinstance(verdict, Unproven)  # openapi-core reads no lists there, so that it cannot agree
    assert "is read as None" in verdict.reasons[0]


def test_the_same_seed_makes_the_same_report(tmp_path: Path) -> None:
    tool, binding = planted(tmp_path)
    fault = changed(binding, "tags", explode=False)
    assert prove(tmp_path, tool, **fault) == prove(tmp_path, tool, **fault)
