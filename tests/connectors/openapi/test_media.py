"""What a body is sent as when its media type is a range, misspelt, unknown or none: a request that can be sent, or a reported skip."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.openapi.readings import document, only, operation, read
from toolgen.connectors.http.request_builder import bind
from toolgen.connectors.openapi.proof.prover import prove_http_tools
from toolgen.connectors.source import SourceConfig
from toolgen.gateway.calls.preview import preview
from toolgen.generator.build import build
from toolgen.model.tool import Tool
from toolgen.quality.verify import FailedTool

OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}}
BINARY = {"type": "string", "format": "binary"}
TEXT = {"type": "string"}
FILE = {"body": {"base64": "aGk="}}
PNG = {"body": {"base64": "aGk=", "media_type": "image/png"}}


def posting(media_type: str, schema: Any, required: bool = True) -> dict[str, Any]:
    body = {"required": required, "content": {media_type: {"schema": schema}}}
    return document({"/a": {"post": operation(requestBody=body)}})


CASES: list[tuple[str, Any, dict[str, Any], str, str | None]] = [
    ("*/*", OBJECT, {"a": 1}, "application/json", '{"a":1}'),
    ("*/*", BINARY, PNG, "image/png", "hi"),
    ("*/*", BINARY, FILE, "application/octet-stream", "hi"),
    ("application/*", OBJECT, {"a": 1}, "application/json", '{"a":1}'),
    ("application/*", TEXT, {"body": {"base64": "aGk=", "media_type": "application/x-hi"}}, "application/x-hi", "hi"),
    ("image/*", TEXT, PNG, "image/png", "hi"),
    ("text/*", TEXT, {"body": "hi"}, "text/plain", "hi"),
    ("application/msgpack", OBJECT, FILE, "application/msgpack", "hi"),
    ("application/x-unknown", {}, FILE, "application/x-unknown", "hi"),
    ("application/vnd.x.y", {"type": "array"}, FILE, "application/vnd.x.y", "hi"),
    ("chemical/x-pdb", TEXT, {"body": "hi"}, "chemical/x-pdb", "hi"),
    ("application/x-www-form-urlencoded", TEXT, {"body": {"a": "h i"}}, "application/x-www-form-urlencoded", "a=h+i"),
    ("application/x-www-form-urlencoded", {"type": "array"}, {"body": {"a": "&"}}, "application/x-www-form-urlencoded", "a=%26"),
    ("application/json, text/json", OBJECT, {"a": 1}, "application/json", '{"a":1}'),
    ("application/json charset=utf-8", OBJECT, {"a": 1}, "application/json", '{"a":1}'),
    ("application/json;", OBJECT, {"a": 1}, "application/json", '{"a":1}'),
]  # fmt: skip


@pytest.mark.parametrize(("media_type", "schema", "arguments", "sent", "body"), CASES)
def test_what_can_be_sent_is_sent(
    tmp_path: Path, media_type: str, schema: Any, arguments: dict[str, Any], sent: str, body: str | None
) -> None:
    only(read(tmp_path, posting(media_type, schema)))
    manifest = build(tmp_path / "doc.json")
    (name,) = manifest.tools
    shown = preview(manifest, name, arguments)
    assert dict(shown["headers"])["Content-Type"] == sent
    assert shown["body"] == body


def test_a_multipart_range_is_a_form(tmp_path: Path) -> None:
    _, binding = only(read(tmp_path, posting("multipart/*", OBJECT)))
    assert binding.body is not None
    assert binding.body.media_type == "multipart/form-data"


BROKEN: list[tuple[str, Any]] = [
    ("json", OBJECT),
    ("", OBJECT),
    ("application/", OBJECT),
    ("a/b\r\nX-Evil: 1", OBJECT),
]


@pytest.mark.parametrize(("media_type", "schema"), BROKEN)
def test_what_cannot_be_sent_is_a_skip_where_it_must_be_and_left_out_where_it_need_not(
    tmp_path: Path, media_type: str, schema: Any
) -> None:
    needed = read(tmp_path, posting(media_type, schema))
    assert needed.tools == ()
    assert needed.operations == 1
    assert [(one.level, one.code, one.origin) for one in needed.problems] == [
        ("error", "bad_media_type", "#/paths/~1a/post/requestBody")
    ]
    optional = read(tmp_path, posting(media_type, schema, required=False))
    _, binding = only(optional)
    assert binding.body is None
    assert [(one.level, one.code) for one in optional.problems] == [("warning", "bad_media_type")]


def test_a_media_type_that_can_be_sent_is_preferred_to_one_that_cannot(tmp_path: Path) -> None:
    written = posting("json", OBJECT)
    written["paths"]["/a"]["post"]["requestBody"]["content"]["application/xml"] = {"schema": TEXT}
    _, binding = only(read(tmp_path, written))
    assert binding.body is not None
    assert binding.body.media_type == "application/xml"


EMPTY: list[Any] = [
    {},
    TEXT,
    BINARY,
    {"type": "object"},
    {"type": "array", "items": BINARY},
    {"allOf": [{"type": "object"}]},
]


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("schema", EMPTY)
def test_a_multipart_body_without_parts_is_one_file_and_never_nothing(
    tmp_path: Path, schema: Any, required: bool
) -> None:
    reading = read(tmp_path, posting("multipart/form-data", schema, required=required))
    tool, binding = only(reading)
    assert tool.input_schema["required"] == ["file"]
    assert list(tool.input_schema["properties"]["file"]["properties"]) == ["uri", "base64", "filename", "media_type"]
    content = base64.b64encode(b"abc").decode()
    request = bind(binding, {"file": {"base64": content, "filename": "a.txt"}}, tool.input_schema)
    assert request.body is not None
    assert b'name="file"; filename="a.txt"' in request.body
    assert [(one.level, one.code) for one in reading.problems] == [("info", "no_parts")]
    assert proved(tmp_path, tool)


@pytest.mark.parametrize("schema", EMPTY)
def test_another_type_that_is_offered_comes_before_that(tmp_path: Path, schema: Any) -> None:
    written = posting("multipart/form-data", schema)
    written["paths"]["/a"]["post"]["requestBody"]["content"]["application/xml"] = {"schema": TEXT}
    tool, binding = only(read(tmp_path, written))
    assert binding.body is not None
    assert (binding.body.media_type, binding.body.argument) == ("application/xml", "body")
    assert proved(tmp_path, tool)


@pytest.mark.parametrize("required", [True, False])
def test_parts_without_names_are_a_skip(tmp_path: Path, required: bool) -> None:
    reading = read(tmp_path, posting("multipart/mixed", {"type": "array", "items": BINARY}, required=required))
    assert (reading.tools, [(one.level, one.code) for one in reading.problems]) == ((), [("error", "bad_media_type")])


def test_parts_that_only_an_encoding_names_are_parts(tmp_path: Path) -> None:
    written = posting("multipart/form-data", {"type": "object"})
    media = written["paths"]["/a"]["post"]["requestBody"]["content"]["multipart/form-data"]
    media["encoding"] = {"a": {"contentType": "text/plain"}}
    _, binding = only(read(tmp_path, written))
    assert binding.body is not None
    assert binding.body.argument == "body"


NEEDING: list[Any] = [
    {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}},
    {"allOf": [{"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}]},
]


@pytest.mark.parametrize("media_type", ["application/json", "application/x-www-form-urlencoded", "multipart/form-data"])
@pytest.mark.parametrize("schema", NEEDING)
@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_a_body_that_requires_something_is_required(tmp_path: Path, method: str, schema: Any, media_type: str) -> None:
    content = {"required": False, "content": {media_type: {"schema": schema}}}
    reading = read(tmp_path, document({"/a": {method: operation(requestBody=content)}}))
    tool, _ = only(reading)
    names = ["a"] if "properties" in schema else ["body"]
    if method == "delete":
        assert "required" not in tool.input_schema
    else:
        assert tool.input_schema["required"] == names
        assert [(one.level, one.code) for one in reading.problems] == [("info", "body_required")]
    assert proved(tmp_path, tool)


@pytest.mark.parametrize("media_type", ["application/json", "application/x-www-form-urlencoded", "multipart/form-data"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_a_body_of_nothing_is_no_argument(tmp_path: Path, method: str, media_type: str) -> None:
    """As in 236 of Stripe's operations; where it is required, an empty one is sent."""
    schema = {"type": "object", "properties": {}}
    for required in (False, True):
        content = {"required": required, "content": {media_type: {"schema": schema, "encoding": {}}}}
        tool, binding = only(read(tmp_path, document({"/a": {method: operation(requestBody=content)}})))
        if media_type == "multipart/form-data" and required:
            assert list(tool.input_schema["properties"]) == ["file"]  # a form of no parts cannot be sent
            continue
        assert tool.input_schema == {"type": "object", "properties": {}}
        sent = bind(binding, {}, tool.input_schema).body
        assert sent == ((b"{}" if media_type == "application/json" else b"") if required else None)
        assert proved(tmp_path, tool)


def proved(folder: Path, tool: Tool) -> bool:
    config = SourceConfig(name="t", kind="openapi", location=str(folder / "doc.json"))
    verdict = prove_http_tools(config, {}, 6, "0")(tool)
    assert not isinstance(verdict, FailedTool), verdict
    return True


@pytest.mark.parametrize("schema", [TEXT, {"type": "array"}])
def test_a_form_that_is_described_as_one_text_has_no_field_that_changes_the_method(tmp_path: Path, schema: Any) -> None:
    only(read(tmp_path, posting("application/x-www-form-urlencoded", schema)))
    manifest = build(tmp_path / "doc.json")
    (name,) = manifest.tools
    shown = preview(manifest, name, {"body": {"_method": "DELETE"}})
    assert "headers" not in shown
    assert shown["error"]["code"] == "validation"


def test_a_list_with_an_empty_properties_keyword_is_a_body(tmp_path: Path) -> None:
    tool, _ = only(read(tmp_path, posting("application/json", {"type": "array", "properties": {}, "items": OBJECT})))
    assert tool.input_schema["required"] == ["body"]


@pytest.mark.parametrize("media_type", ["application/json", "text/xml", "application/x-www-form-urlencoded"])
def test_an_optional_object_without_properties_is_no_body(tmp_path: Path, media_type: str) -> None:
    _, binding = only(read(tmp_path, posting(media_type, {"type": "object", "properties": {}}, required=False)))
    assert binding.body is None


@pytest.mark.parametrize("path", ["/send/#env/v1/pay", "/a#{name}", "/a/{id}#/x", "/a?{name}=1"])
def test_a_path_that_could_not_be_sent_as_it_is_meant_is_no_tool(tmp_path: Path, path: str) -> None:
    reading = read(tmp_path, document({path: {"get": operation()}}))
    assert (reading.tools, [problem.code for problem in reading.problems]) == ((), ["bad_path"])
