"""Tools that would refuse every call are never built, and a preview answers whatever it is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import toolgen
from tests.connectors.openapi.readings import document, operation
from toolgen.model.manifest import Manifest

JSON = "application/json"
LOOP = {"$ref": "#/components/schemas/A"}
# Each multiplies, or leads back to itself without descending into the value, so that checking one value would never end.
ENDLESS: dict[str, dict[str, Any]] = {
    "allOf": {"A": {"allOf": [LOOP]}},
    "anyOf": {"A": {"anyOf": [LOOP, {"type": "string"}]}},
    "oneOf": {"A": {"oneOf": [LOOP, {"type": "string"}]}},
    "not": {"A": {"not": LOOP}},
    "if": {"A": {"if": LOOP, "then": {"type": "string"}}},
    "a reference": {"A": {"$ref": "#/components/schemas/B"}, "B": {"anyOf": [LOOP]}},
    "a discriminator": {"A": {"oneOf": [LOOP], "discriminator": {"propertyName": "k"}}},
    "alternatives that multiply": {
        "A": {"$ref": "#/components/schemas/L0"},
        **{f"L{n}": {"oneOf": [{"$ref": f"#/components/schemas/L{n + 1}"}] * 2} for n in range(40)},
        "L40": {"type": "string"},
    },
}


def built(folder: Path, schema: Any, schemas: dict[str, Any]) -> Manifest:
    body = {"required": True, "content": {JSON: {"schema": schema}}}
    paths = {"/bad": {"post": operation(requestBody=body)}, "/good": {"get": operation(operationId="getGood")}}
    path = folder / "doc.json"
    path.write_text(json.dumps(document(paths, components={"schemas": schemas})), encoding="utf-8")
    return toolgen.build({"t": {"openapi": str(path)}})


@pytest.mark.parametrize("case", ENDLESS)
def test_a_schema_that_nothing_could_be_held_against_is_a_reported_skip(tmp_path: Path, case: str) -> None:
    manifest = built(tmp_path, LOOP, ENDLESS[case])
    assert list(manifest.tools) == ["t__get_good"]
    (problem,) = (one for one in manifest.problems if one.level == "error")
    assert (problem.origin, "tool" in problem.message) == ("#/paths/~1bad/post", True)


def test_names_that_no_pattern_matches_are_left_open(tmp_path: Path) -> None:
    schema = {"type": "object", "patternProperties": {"(": {"type": "string"}, "^x": {"type": "integer"}}}
    manifest = built(tmp_path, schema, {})
    assert [problem.code for problem in manifest.problems] == ["bad_pattern"]
    sent = toolgen.preview(manifest, "t__do_it", {"body": {"(": 1, "x1": 2}})
    assert sent["body"] == '{"(":1,"x1":2}'
    assert toolgen.preview(manifest, "t__do_it", {"body": {"x1": "a"}})["error"]["code"] == "validation"


def test_names_that_were_left_to_a_broken_pattern_are_not_refused(tmp_path: Path) -> None:
    schema = {"type": "object", "patternProperties": {"(": {}}, "additionalProperties": False}
    assert toolgen.preview(built(tmp_path, schema, {}), "t__do_it", {"body": {"a": 1}})["body"] == '{"a":1}'


def deep() -> Any:
    value: Any = 1
    for _ in range(5000):
        value = [value]
    return value


STRANGE: dict[str, Any] = {
    "a value nested without end": {"q": deep()},
    "a text that is none": {"q": "\ud800"},
    "a number that is none": {"q": float("nan")},
    "an object of no kind": {"q": object()},
    "keys that are no texts": {1: 2},
    "no object": [1],
}


@pytest.mark.parametrize("case", STRANGE)
def test_a_preview_answers_whatever_it_is_given(tmp_path: Path, case: str) -> None:
    written = document({"/e": {"get": operation(parameters=[{"name": "q", "in": "query", "schema": {}}])}})
    path = tmp_path / "doc.json"
    path.write_text(json.dumps(written), encoding="utf-8")
    answer = toolgen.preview(toolgen.build(path), "doc__do_it", STRANGE[case])
    assert "url" in answer or answer["status"] == "refused"


def test_a_preview_of_a_tool_that_no_build_would_write_is_an_envelope(tmp_path: Path) -> None:
    manifest = built(tmp_path, {"type": "string"}, {})
    tool = manifest.tools["t__do_it"]
    broken = msgspec.structs.replace(tool, input_schema={"type": "object", "patternProperties": {"(": {}}})
    manifest = replace(manifest, tools={**manifest.tools, tool.name: broken})
    answer = toolgen.preview(manifest, tool.name, {"body": "x"})
    assert (answer["status"], answer["error"]["code"]) == ("refused", "internal")
