"""`toolgen verify`: its table, its JSON, its exit codes, over the project's own sources and over files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.connectors.openapi.readings import document, operation
from tests.messages import line_names
from tests.projects import make_project
from toolgen.cli import main

SPECS = Path(__file__).parents[2] / "specs"


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    code = ended.value.code
    return code if isinstance(code, int) else 0


def test_the_projects_own_sources_are_proven(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run("verify", "--json", "--config", str(SPECS.parent / "toolgen.yaml")) == 0
    report = json.loads(capfdbinary.readouterr().out)
    assert report["ok"]
    counts = {one["source"]: one["counts"] for one in report["sources"]}
    assert set(counts) == {"orders", "catalog", "shop"}
    assert set(counts["orders"]) == {"proven"}
    assert counts["catalog"].pop("not_applicable") == 1  # `describe_types`, which sends nothing
    assert set(counts["catalog"]) == {"proven"}
    assert set(counts["shop"]) == {"not_applicable"}


def test_the_table_has_a_line_for_each_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run("verify", "--examples", "5") == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].split() == ["source", "tools", "proven", "failed", "unproven", "not", "applicable"]
    assert [line.split()[0] for line in lines[1:]] == ["pets", "shop"]


def test_what_is_unproven_is_named_with_its_reason(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    nested = {"type": "array", "items": {"type": "array", "items": {"type": "string"}, "minItems": 1}, "minItems": 1}
    one = {"name": "q", "in": "query", "required": True, "schema": nested}
    path = tmp_path / "doc.json"
    path.write_text(json.dumps(document({"/e": {"get": operation(parameters=[one])}})), encoding="utf-8")
    assert run("verify", str(path)) == 0
    assert line_names(capfd.readouterr().out, "unproven: doc__do_it: q: ", "style form")


def test_a_failed_tool_is_shown_with_its_smallest_example_and_ends_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    one = {"name": "ids", "in": "query", "schema": schema, "explode": False}
    path = tmp_path / "doc.json"
    path.write_text(json.dumps(document({"/e": {"get": operation(parameters=[one])}})), encoding="utf-8")
    monkeypatch.setattr("toolgen.connectors.http.parameter_styles._DELIMITERS", {"form": ";"})
    assert run("verify", str(path)) == 1
    shown = capfd.readouterr().out
    assert "doc__do_it (#/paths/~1e/get)" in shown
    assert "arguments  {'ids': [0, 0]}" in shown
    assert "sent       GET /e?ids=0;0" in shown


def test_a_source_that_does_not_exist_is_one_clear_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run("verify", "pet") == 1
    assert line_names(capfd.readouterr().err, "source 'pet'", "did you mean 'pets'?")


@pytest.mark.parametrize("arguments", [("--examples", "0"), ("--examples", "many"), ("--nonsense",)])
def test_misuse_ends_with_2(arguments: tuple[str, ...]) -> None:
    assert run("verify", *arguments) == 2
