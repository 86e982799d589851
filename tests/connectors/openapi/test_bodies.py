"""What an agent is asked for where a form may take a file, and how far a form's schema is looked through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.connectors.openapi.readings import document, only, operation, read

BINARY = {"type": "string", "format": "binary"}
FILE = ["uri", "base64", "filename", "media_type"]


def posted(schema: Any, media_type: str = "multipart/form-data", **media: Any) -> dict[str, Any]:
    content = {media_type: {"schema": schema, **media}}
    return operation(requestBody={"required": True, "content": content})


def property_of(folder: Path, schema: Any, **media: Any) -> dict[str, Any]:
    whole = document({"/e": {"post": posted({"type": "object", "properties": {"f": schema}}, **media)}})
    tool, _ = only(read(folder, whole))
    found: dict[str, Any] = tool.input_schema["properties"]["f"]
    return found


def test_a_file_is_an_object_with_base64_in_whatever_branch_it_stands(tmp_path: Path) -> None:
    text = {"type": "string", "maxLength": 5}
    built = property_of(tmp_path, {"oneOf": [BINARY, {"type": "array", "items": BINARY}, text, {"type": "null"}]})
    one, several, other, nothing = built["anyOf"]  # a file's object may match what the file does not, so not `oneOf`
    assert list(one["properties"]) == FILE
    assert list(several["items"]["properties"]) == FILE
    assert (other, nothing) == (text, {"type": "null"})


@pytest.mark.parametrize("kind", ["image/png", "application/octet-stream", "application/pdf, image/*"])
def test_a_property_of_no_type_is_a_file_where_its_content_type_is_no_text(tmp_path: Path, kind: str) -> None:
    built = property_of(tmp_path, {"title": "Photo"}, encoding={"f": {"contentType": kind}})
    assert list(built["properties"]) == FILE


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/xml", "application/vnd.a+json", ""])
def test_a_property_of_no_type_is_anything_where_its_content_type_is_text(tmp_path: Path, kind: str) -> None:
    assert "properties" not in property_of(tmp_path, {}, encoding={"f": {"contentType": kind}})


def test_no_other_form_has_a_way_to_send_a_file(tmp_path: Path) -> None:
    assert property_of(tmp_path, BINARY, media_type="application/x-www-form-urlencoded")["type"] == "string"


def test_a_schema_used_by_json_too_keeps_its_text(tmp_path: Path) -> None:
    shared = {"$ref": "#/components/schemas/Upload"}
    paths = {
        "/form": {"post": {**posted({"allOf": [shared]}), "operationId": "sendForm"}},
        "/json": {"post": {**posted({"allOf": [shared]}, "application/json"), "operationId": "sendJson"}},
    }
    upload = {"type": "object", "properties": {"f": BINARY}}
    reading = read(tmp_path, document(paths, components={"schemas": {"Upload": upload}}))
    form, json = (tool.input_schema for tool in sorted(reading.tools, key=lambda one: one.origin))
    assert list(form["properties"]["body"]["allOf"][0]["properties"]["f"]["properties"]) == FILE
    assert json["$defs"]["Upload"]["properties"]["f"]["type"] == "string"


def test_a_form_whose_branches_multiply_is_skipped_and_reported(tmp_path: Path) -> None:
    schemas: dict[str, Any] = {"L0": {"type": "object", "properties": {"f": BINARY}}}
    for level in range(1, 31):
        below = {"$ref": f"#/components/schemas/L{level - 1}"}
        schemas[f"L{level}"] = {"allOf": [below, below]}
    whole = document({"/e": {"post": posted({"$ref": "#/components/schemas/L30"})}}, components={"schemas": schemas})
    reading = read(tmp_path, whole)
    assert reading.tools == ()
    assert [problem.code for problem in reading.problems if problem.level == "error"] == ["schema_too_deep"]
