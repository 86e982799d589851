"""The promises that mutated descriptions are held to: each notices when it is broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from bench.promises import lost, reading, schema_faults, uncallable_tools

BROKEN: dict[str, Any] = {
    "a type that is none": {"type": "text"},
    "a keyword of another kind": {"required": "a"},
    "a reference to nothing": {"properties": {"a": {"$ref": "#/$defs/A"}}},
    "one below a property that is called like a keyword": {"properties": {"default": {"$ref": "#/$defs/A"}}},
    "a reference elsewhere": {"$ref": "https://h.test/a"},
    "a definition nobody needs": {"$defs": {"A": {}}},
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_schema_that_does_not_stand_alone_is_noticed(case: str) -> None:
    assert len(list(schema_faults(BROKEN[case]))) == 1


@pytest.mark.parametrize(
    "schema",
    [None, {}, {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {}}}, {"enum": [{"$ref": "#/nowhere"}]}],
)
def test_one_that_does_is_not(schema: Any) -> None:
    assert list(schema_faults(schema)) == []


JSON = {"schema": {"type": "object", "properties": {"a": {"type": "string"}}}}
WHOLE: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "t", "version": "1"},
    "servers": [{"url": "http://h.test"}],
    "paths": {
        "/x": {
            "post": {
                "operationId": "doIt",
                "parameters": [{"name": "q", "in": "query", "schema": {"type": "string"}}],
                "requestBody": {"content": {"application/json": JSON}},
                "responses": {"200": {"description": "", "content": {"application/json": JSON}}},
            }
        }
    },
}
SILENT: dict[str, tuple[dict[str, Any], str]] = {
    "a parameter": ({"parameters": ()}, "'q'"),
    "a body": ({"body": None}, "its body"),
    "an answer": ({}, "the answer's schema"),
}


@pytest.mark.parametrize("case", SILENT)
def test_what_a_tool_lacks_without_a_word_is_noticed(case: str, tmp_path: Path) -> None:
    path = tmp_path / "doc.json"
    path.write_text(json.dumps(WHOLE))
    found = reading(path)
    assert list(lost(path, found)) == []
    changed, said = SILENT[case]
    (tool,) = found.tools
    binding = msgspec.structs.replace(tool.binding, **changed)
    output = None if case == "an answer" else tool.output_schema
    poorer = replace(found, tools=(msgspec.structs.replace(tool, binding=binding, output_schema=output),))
    assert list(lost(path, poorer)) == [f"{tool.name}: lost without a word: {said}"]


def test_a_tool_that_could_never_be_called_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "doc.json"
    one = {"name": "X-Forwarded-For", "in": "header", "required": True, "schema": {"type": "string"}}
    path.write_text(json.dumps({**WHOLE, "paths": {"/x": {"get": {"parameters": [one], "responses": {}}}}}))
    (said,) = uncallable_tools(reading(path))
    assert "never be called" in said
