"""Required parameters that are configured credentials: filled by the gateway, together, whatever `security` says of the operation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import toolgen
from toolgen.core.errors import ConfigError

SCHEMES = {
    "k": {"type": "apiKey", "in": "query", "name": "key"},
    "t": {"type": "apiKey", "in": "query", "name": "token"},
    "other": {"type": "apiKey", "in": "header", "name": "X-Other"},
    "bearer": {"type": "http", "scheme": "bearer"},
}
PARAMETERS = {
    name: {"name": name, "in": place, "required": True, "schema": {"type": "string"}}
    for name, place in {"key": "query", "token": "query", "X-Other": "header"}.items()
}


def sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: dict[str, Any], *configured: str
) -> tuple[Any, list[str]]:
    """What a call without arguments would send, as URL and names of headers, and the names of the tool's arguments."""
    whole = {"operationId": "read", "responses": {"200": {"description": "ok"}}, **operation}
    document = {
        "openapi": "3.0.3",
        "info": {"title": "t", "version": "1"},
        "servers": [{"url": "https://a.example"}],
        "components": {"securitySchemes": SCHEMES},
        "paths": {"/r": {"get": whole}},
    }
    (tmp_path / "api.json").write_text(json.dumps(document), encoding="utf-8")
    auth = {name: f"${{env:TEST_{name.upper()}}}" for name in configured}
    for name in configured:
        monkeypatch.setenv(f"TEST_{name.upper()}", name)
    manifest = toolgen.build({"s": {"openapi": "api.json", "auth": auth}}, root=tmp_path)
    (tool,) = manifest.tools.values()
    shown = toolgen.preview(manifest, tool.name, {})
    return shown, list(tool.input_schema.get("properties", {}))


def test_alternatives_that_are_both_required_parameters_are_sent_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = {"security": [{"k": []}, {"t": []}], "parameters": [PARAMETERS["key"], PARAMETERS["token"]]}
    shown, arguments = sent(tmp_path, monkeypatch, operation, "k", "t")
    assert shown["url"] == "https://a.example/r?key=***&token=***"
    assert arguments == []


def test_alternatives_without_parameters_stay_alternatives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown, _ = sent(tmp_path, monkeypatch, {"security": [{"k": []}, {"t": []}]}, "k", "t")
    assert shown["url"] == "https://a.example/r?key=***"


@pytest.mark.parametrize("security", [{}, {"security": []}])
def test_an_operation_without_security_is_filled_with_what_it_requires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, security: dict[str, Any]
) -> None:
    operation = {**security, "parameters": [PARAMETERS["key"], PARAMETERS["X-Other"]]}
    shown, arguments = sent(tmp_path, monkeypatch, operation, "k", "other")
    assert shown["url"] == "https://a.example/r?key=***"
    assert ["X-Other", "***"] in [list(one) for one in shown["headers"]]
    assert arguments == []


def test_what_is_not_configured_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, arguments = sent(tmp_path, monkeypatch, {"parameters": [PARAMETERS["key"], PARAMETERS["token"]]}, "k")
    assert arguments == ["token"]


@pytest.mark.parametrize("name", ["bearer", "other"])
def test_a_scheme_of_the_description_may_be_configured_where_no_operation_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    shown, _ = sent(tmp_path, monkeypatch, {"security": [{"k": []}]}, "k", name)
    assert shown["url"] == "https://a.example/r?key=***"
    assert not {"Authorization", "X-Other"} & {one[0] for one in shown["headers"]}


def test_a_way_to_show_a_credential_that_no_tool_is_called_with_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="basic"):
        sent(tmp_path, monkeypatch, {"security": [{"k": []}]}, "k", "basic")
