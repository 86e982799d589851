"""Schemas that no engine can use: no traceback, and no failure of a tool that does what can be done with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.exhaustive import spread
from tests.messages import line_names
from toolgen.connectors.openapi.proof import prover as proving
from toolgen.connectors.source import SourceConfig
from toolgen.quality.verify import FailedTool, ProvenTool, Unproven, verify_source

ODD: dict[str, dict[str, Any]] = {
    **{
        pattern: {"type": "string", "pattern": pattern}
        for pattern in (
            *(
                r"^\p{L}+$",
                "(?<name>a)",
                "[a-",
                "^*",
                r"\Z[[:alpha:]]\cA",
                "/^abc$/i",
                "(?i)abc",
                "a(?i)b",
                r"^[\w-.]+$",
                "a{2,1}",
            ),
            *("(?<=a+)b", "a++", "^[0-9]{1,99999999999}$"),
        )
    },
    "a pattern that is a number": {"type": "string", "pattern": 7},
    **{
        f"type {kind!r}": {"type": kind}
        for kind in ("int", "float", "String", "file", "any", "date", 5, None, [], ["string", "foo"])
    },
    "an odd type within": {"type": "object", "properties": {"a": {"type": "date"}}},
    "odd items": {"type": "array", "items": {"type": "uuid"}},
    "an odd name pattern": {"type": "object", "patternProperties": {"[a-": {"type": "string"}}},
    "required text": {"type": "object", "required": "x"},
    "a list of properties": {"type": "object", "properties": ["a"]},
    "an enum that is text": {"enum": "abc"},
    "bounds that are text": {"type": "string", "minLength": "5", "maximum": "3"},
    "a format that is a number": {"type": "string", "format": 7},
    "a multiple of nothing": {"type": "number", "multipleOf": 0},
    "a reference to such": {"$ref": "#/components/schemas/Bad"},
}


def document(version: str, place: str, schema: dict[str, Any]) -> dict[str, Any]:
    old = version == "2.0"
    schema = json.loads(
        json.dumps(schema).replace("#/components/schemas/", "#/definitions/") if old else json.dumps(schema)
    )
    operation: dict[str, Any] = {"operationId": "x", "responses": {"200": {"description": "ok"}}}
    whole = {"type": "object", "properties": {"v": schema}, "required": ["v"]}
    if place != "body":
        operation["parameters"] = [
            {"name": "v", "in": place, "required": True, **(schema if old else {"schema": schema})}
        ]
    elif old:
        operation["parameters"] = [{"in": "body", "name": "body", "required": True, "schema": whole}]
    else:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": whole}}}
    written = {
        "info": {"title": "t", "version": "1"},
        "paths": {"/a/{v}" if place == "path" else "/a": {"post": operation}},
    }
    bad = {"Bad": {"type": "strin"}}
    if old:
        return {"swagger": "2.0", "host": "h.test", "definitions": bad, **written}
    return {"openapi": version, "servers": [{"url": "http://h.test"}], "components": {"schemas": bad}, **written}


@pytest.mark.parametrize("place", spread(["query", "body", "header", "path"], 2))
@pytest.mark.parametrize("version", ["2.0", "3.0.3", "3.1.0"])
def test_no_schema_ends_or_fails_the_proof_of_its_tool(tmp_path: Path, version: str, place: str) -> None:
    path = tmp_path / "odd.json"
    for name, schema in ODD.items():
        path.write_text(json.dumps(document(version, place, schema)), encoding="utf-8")
        for report in verify_source(SourceConfig(name="s", kind="openapi", location=str(path)), examples=4).tools:
            assert not isinstance(report.verdict, FailedTool), (name, report.verdict)
            assert "could not be judged" not in str(report.verdict), (name, report.verdict)


def test_what_ends_one_proof_costs_no_other_its_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = document("3.1.0", "query", {"type": "string"})
    written["paths"]["/b"] = {"get": {"operationId": "y", "responses": {}}}
    path = tmp_path / "two.json"
    path.write_text(json.dumps(written), encoding="utf-8")
    prove = proving.HttpProver.__call__

    def breaking(self: proving.HttpProver, tool: Any) -> Any:
        if tool.name == "s__x":
            raise ZeroDivisionError("a secret")
        return prove(self, tool)

    monkeypatch.setattr(proving.HttpProver, "__call__", breaking)
    first, second = (
        one.verdict for one in verify_source(SourceConfig(name="s", kind="openapi", location=str(path))).tools
    )
    assert isinstance(first, Unproven)
    assert line_names(first.reasons[0], "not be judged: ZeroDivisionError at")
    assert "secret" not in first.reasons[0]
    assert isinstance(second, ProvenTool)
