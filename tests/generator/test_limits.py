"""Descriptions beyond our limits: many files are read, and what a limit cuts off is no catalog that anybody would take for whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import toolgen
from toolgen.cli.main import cli
from toolgen.connectors.openapi import documents
from toolgen.core.errors import DescriptionError

_OPERATION: dict[str, Any] = {"get": {"summary": "Read it", "responses": {"200": {"description": "ok"}}}}


def description(root: Path, files: int) -> Path:
    """A description with one file for each of its paths."""
    (root / "paths").mkdir()
    for number in range(files):
        operation = {**_OPERATION["get"], "operationId": f"read{number}"}
        (root / "paths" / f"p{number}.json").write_text(json.dumps({"get": operation}), encoding="utf-8")
    paths = {f"/p{number}": {"$ref": f"paths/p{number}.json"} for number in range(files)}
    path = root / "api.json"
    document = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": paths}
    path.write_text(json.dumps({**document, "servers": [{"url": "https://a.example"}]}), encoding="utf-8")
    return path


def test_a_description_of_many_files_is_read_whole(tmp_path: Path) -> None:
    manifest = toolgen.build(description(tmp_path, 1_200))
    assert len(manifest.tools) == 1_200
    assert not [one for one in manifest.problems if one.level == "error"]


@pytest.mark.parametrize(
    ("limit", "value", "reason"),
    [
        ("_MAX_FILES", 21, "one file too many (more than 21)"),
        ("_MAX_TOTAL_SIZE", 3_000, "in a file too many"),
        ("_MAX_READING_S", -1.0, "reading has taken more than"),
    ],
)
def test_what_a_limit_cuts_off_fails_the_build_unless_a_part_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: float, reason: str
) -> None:
    path = description(tmp_path, 40)
    monkeypatch.setattr(documents, limit, value)
    with pytest.raises(DescriptionError, match="would have no tool for one reason") as caught:
        toolgen.build(path)
    assert reason in str(caught.value)
    manifest = toolgen.build(path, partial=True)
    assert len(manifest.tools) < 40
    assert {one.code for one in manifest.problems if one.level == "error"} == {"limit"}

    (tmp_path / "toolgen.yaml").write_text(json.dumps({"sources": {"api": {"openapi": "api.json"}}}), encoding="utf-8")
    config = ["--config", str(tmp_path / "toolgen.yaml")]
    failed = CliRunner().invoke(cli, ["build", *config])
    assert failed.exit_code == 1
    assert not (tmp_path / "generated").exists()
    assert CliRunner().invoke(cli, ["build", "--partial", *config]).exit_code == (0 if manifest.tools else 1)
    assert (
        CliRunner().invoke(cli, ["build", *config]).exit_code == 1
    )  # what is written is partial, and says nothing of it


def test_arguments_that_a_limit_cuts_off_cost_the_operation_its_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "limit.json").write_text('{"type": "integer"}', encoding="utf-8")
    body = {"type": "object", "properties": {"limit": {"$ref": "limit.json"}}}
    operation = {"operationId": "find", "responses": {"200": {"description": "ok"}}}
    operation["requestBody"] = {"content": {"application/json": {"schema": body}}}
    document = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/f": {"post": operation}}}
    path = tmp_path / "api.json"
    path.write_text(json.dumps({**document, "servers": [{"url": "https://a.example"}]}), encoding="utf-8")
    monkeypatch.setattr(documents, "_MAX_FILES", 1)
    assert not toolgen.build(path, partial=True).tools


def test_a_single_operation_of_many_is_left_out(tmp_path: Path) -> None:
    path = description(tmp_path, 600)
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(80):
        deep = {"type": "object", "required": ["a"], "properties": {"a": deep}}
    document = json.loads(path.read_text())
    body = {"content": {"application/json": {"schema": deep}}}
    document["paths"]["/deep"] = {"post": {"operationId": "deep", "requestBody": body, "responses": {}}}
    path.write_text(json.dumps(document))
    manifest = toolgen.build(path)
    assert len(manifest.tools) == 600
    assert [one.code for one in manifest.problems if one.level == "error"] == ["schema_too_deep"]
