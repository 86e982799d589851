"""What `toolgen verify` proves by a documented convention, and bounds that no double says: own descriptions in place of large ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run, runner

LISTS = {"type": "array", "items": {"type": "string"}}
NESTED = {
    "type": "object",
    "properties": {"created": {"type": "object", "properties": {"gte": {"type": "integer"}}}, "tags": LISTS},
}
LARGE = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}


@pytest.fixture(name="verified")
def _verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Any:
    monkeypatch.chdir(tmp_path)
    call: Run = runner(capfdbinary)

    def verified(schema: dict[str, Any], **more: Any) -> Any:
        parameter = {"name": "p", "in": "query", "schema": schema, **more}
        body = {
            "content": {
                "application/json": {
                    "schema": {"type": "object", "properties": {"n": {"anyOf": [schema, {"type": "null"}]}}}
                }
            }
        }
        operations = {"get": {"operationId": "read", "parameters": [parameter], "responses": {}}}
        if not more:
            operations["post"] = {"operationId": "send", "requestBody": body, "responses": {}}
        document = {
            "openapi": "3.1.0",
            "info": {"title": "t", "version": "1"},
            "servers": [{"url": "http://127.0.0.1:9"}],
            "paths": {"/x": operations},
        }
        Path("t.json").write_text(json.dumps(document), encoding="utf-8")
        return call("verify", "t.json", "--json").json()["sources"][0]["counts"]

    return verified


@pytest.mark.parametrize("schema", [LISTS, NESTED], ids=["a list", "an object with a list and an object"])
def test_lists_in_a_deep_object_are_proven(verified: Any, schema: dict[str, Any]) -> None:
    counts = verified(schema, style="deepObject", explode=True)
    assert counts == {"proven": 1}


@pytest.mark.parametrize(
    "schema", [LARGE, {"type": "integer", "maximum": 2**54 - 1}, {"type": "integer", "exclusiveMinimum": 2**64}]
)
def test_bounds_beyond_doubles_are_proven(verified: Any, schema: dict[str, Any]) -> None:
    counts = verified(schema)
    assert counts == {"proven": 2}
