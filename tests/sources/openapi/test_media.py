"""What a body is sent as when its media type is a range, misspelt, unknown or none: a request that can be sent, or a reported skip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.sources.openapi.readings import document, only, operation, read
from toolgen.builder.build import build
from toolgen.wiring.preview import preview

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
    ("application/x-www-form-urlencoded", TEXT, FILE, "application/x-www-form-urlencoded", "hi"),
    ("application/x-www-form-urlencoded", {"type": "array"}, FILE, "application/x-www-form-urlencoded", "hi"),
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
    ("multipart/form-data", TEXT),
    ("multipart/form-data", BINARY),
    ("multipart/mixed", {"type": "array", "items": BINARY}),
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
