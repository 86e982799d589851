"""What one judge alone has against a tool is said, and is no failure; what another judge sees too is one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.connectors.openapi.readings import document, only, operation, read
from tests.messages import line_names
from toolgen.connectors.http.request_builder import bind
from toolgen.connectors.openapi.proof import requests
from toolgen.connectors.openapi.proof.judge import RequestJudge, RequestJudgement
from toolgen.connectors.openapi.proof.prover import prove_http_tools
from toolgen.connectors.source import SourceConfig
from toolgen.quality.verify import FailedTool, ProvenTool, Unproven, Verdict

ITEM = {
    "type": "object",
    "required": ["state"],
    "properties": {
        "state": {"type": "string", "enum": ["new", "old"]},
        "size": {"type": "integer", "minimum": 1},
        "name": {"type": "string", "minLength": 2},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "box": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    },
}


def proved(folder: Path, at: str = "", put: Any = None, *, version: str = "3.1.0") -> Verdict:
    """The verdict on a tool whose schema of an item was changed in one place."""
    operations = {
        "/i": {
            "post": operation(
                parameters=[{"name": "q", "in": "query", "schema": {"type": "string"}}],
                requestBody={
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Item"}}},
                },
            )
        }
    }
    tool, _ = only(read(folder, document(operations, version, components={"schemas": {"Item": ITEM}})))
    schema = json.loads(json.dumps(tool.input_schema))
    if at:
        *steps, last = at.split("/")
        node = schema["properties"]
        for step in steps:
            node = node[step]
        node[last] = put
    config = SourceConfig(name="s", kind="openapi", location=str(folder / "doc.json"))
    return prove_http_tools(config, {}, 6, "0")(msgspec.structs.replace(tool, input_schema=schema))


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize(
    ("at", "put"),
    [
        ("state", {"enum": ["new", "old"]}),  # the type is in the values
        ("state", {"type": "string", "anyOf": [{"const": "new"}, {"const": "old"}]}),
        ("tags/minItems", 0),
        ("box", {"type": ["string", "integer"]}),
        ("box/anyOf", [{"type": "integer"}, {"type": "string"}, {"type": "string", "minLength": 3}]),
    ],
)
def test_other_words_for_the_same_values_are_no_failure(tmp_path: Path, version: str, at: str, put: Any) -> None:
    verdict = proved(tmp_path, at, put, version=version)
    assert not isinstance(verdict, FailedTool), verdict


@pytest.mark.parametrize(
    ("at", "put", "says"),
    [
        ("state/enum", ["new", "old", "lost"], "enum"),
        ("state/anyOf", [{"const": "new"}], "anyOf"),
        ("size/exclusiveMinimum", 1, "exclusiveMinimum"),
        ("name/maxLength", 4, "maxLength"),
        ("name/format", "uuid", "format"),
        ("box", {"type": ["string", "number"]}, "type"),
        ("box/anyOf", [{"type": "integer"}], "anyOf"),
    ],
)
def test_words_for_other_values_are_a_failure(tmp_path: Path, at: str, put: Any, says: str) -> None:
    verdict = proved(tmp_path, at, put)
    assert isinstance(verdict, FailedTool), verdict
    assert says in verdict.reason


def test_what_is_disputed_is_said(tmp_path: Path) -> None:
    verdict = proved(tmp_path, "tags/minItems", 0)
    assert isinstance(verdict, Unproven)
    assert "only one of" in verdict.reasons[0]
    assert "`minItems: 0`" in verdict.reasons[0]


def test_a_complaint_of_our_own_reader_alone_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "same_parameter", lambda *_: "nonsense")
    verdict = proved(tmp_path)
    assert isinstance(verdict, Unproven)
    assert line_names(verdict.reasons[0], "nonsense, ", "openapi-core reads")


def test_a_complaint_of_openapi_core_alone_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = RequestJudge.read

    def refusing(self: RequestJudge, received: Any) -> RequestJudgement:
        return RequestJudgement(values=ask(self, received).values, complaints={("body", ""): "a false alarm"})

    assert isinstance(proved(tmp_path), ProvenTool)
    monkeypatch.setattr(RequestJudge, "read", refusing)
    verdict = proved(tmp_path)
    assert isinstance(verdict, Unproven)
    assert line_names(verdict.reasons[0], "openapi-core", ": a false alarm")


@pytest.mark.parametrize("style", ["matrix", "label"])
def test_a_lost_value_that_openapi_core_cannot_read_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, style: str
) -> None:
    parameter = {"name": "q", "in": "path", "required": True, "style": style, "schema": {"type": "string"}}
    tool, _ = only(read(tmp_path, document({"/i/{q}": {"get": operation(parameters=[parameter])}}, "3.1.0")))
    prove = prove_http_tools(SourceConfig(name="s", kind="openapi", location=str(tmp_path / "doc.json")), {}, 6, "0")
    assert isinstance(prove(tool), ProvenTool)

    def losing(binding: Any, arguments: Any, schema: Any) -> Any:
        return bind(binding, {"q": "lost"}, schema)

    monkeypatch.setattr(requests, "bind", losing)
    assert isinstance(prove(tool), FailedTool)


@pytest.mark.parametrize("pattern", ["^.{1,2097152}", "^[a-z]{,2}$"])
def test_a_pattern_that_the_second_judge_cannot_compile_is_no_failure(tmp_path: Path, pattern: str) -> None:
    said = {"type": "string", "pattern": pattern}
    parameter = {"name": "q", "in": "query", "required": True, "schema": said}
    config = SourceConfig(name="t", kind="openapi", location=str(tmp_path / "doc.json"))
    tool, _ = only(read(tmp_path, document({"/i": {"get": operation(parameters=[parameter])}})))
    assert not isinstance(verdict := prove_http_tools(config, {}, 20, "0")(tool), FailedTool), verdict
