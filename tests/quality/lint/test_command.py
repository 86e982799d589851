"""`toolgen lint`: its forms, its exit codes and its baseline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.connectors.openapi.readings import document
from toolgen.cli.lint import command
from toolgen.quality.lint.check import lines

PATHS = {
    "/a/{id}": {
        "delete": {
            "operationId": "dropA",
            "summary": "Drops one of the As for good",
            "responses": {"200": {"description": ""}},
        },
        "get": {"summary": "\x1b[31mshown", "responses": {"200": {"description": ""}}},
    }
}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    written = document(PATHS)
    (tmp_path / "api.json").write_text(json.dumps(written, indent=1), encoding="utf-8")
    (tmp_path / "toolgen.yaml").write_text("sources:\n  api: {openapi: api.json}\n", encoding="utf-8")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def findings(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("--json", *arguments).stdout)["findings"]
    return found


def test_a_source_a_file_and_the_whole_project_are_looked_at_alike() -> None:
    assert findings() == findings("api") == findings("api.json") != []


def test_text_names_the_line_and_shows_control_characters() -> None:
    result = run()
    assert result.exit_code == 1
    assert "api.json:" in result.stdout
    assert "\x1b" not in result.stdout


def test_sarif_has_the_shape_that_code_hosts_take() -> None:
    report = json.loads(run("--sarif").stdout)
    assert report["version"] == "2.1.0"
    assert report["$schema"].endswith("sarif-schema-2.1.0.json")
    (only,) = report["runs"]
    rules = only["tool"]["driver"]["rules"]
    assert only["tool"]["driver"]["name"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    assert only["results"]
    for rule in rules:
        assert rule["shortDescription"]["text"]
        assert rule["help"]["text"]
        assert rule["defaultConfiguration"]["level"] in {"error", "warning", "note"}
    for result in only["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in {"error", "warning", "note"}
        assert result["message"]["text"]
        (location,) = result["locations"]
        assert location["logicalLocations"][0]["fullyQualifiedName"]
        physical = location.get("physicalLocation")
        assert physical is None or physical["artifactLocation"]["uri"] == "api.json"
        assert physical is None or physical.get("region", {"startLine": 1})["startLine"] >= 1
        assert "baselineState" not in result


def test_only_what_is_not_in_the_baseline_fails(project: Path) -> None:
    written = run("--baseline", "lint.json", "--write-baseline")
    assert (written.exit_code, run("--baseline", "lint.json", "--fail-on", "info").exit_code) == (0, 0)
    changed = {**PATHS, "/b": {"post": {"operationId": "purgeB", "responses": {"200": {"description": ""}}}}}
    moved = document(changed)
    (project / "api.json").write_text(json.dumps(moved, indent=4), encoding="utf-8")
    assert {finding["origin"] for finding in findings("--baseline", "lint.json")} == {"#/paths/~1b/post"}
    assert run("--baseline", "lint.json").exit_code == 1
    states = [
        one["baselineState"]
        for one in json.loads(run("--sarif", "--baseline", "lint.json").stdout)["runs"][0]["results"]
    ]
    assert set(states) == {"new", "unchanged"}


@pytest.mark.parametrize(("level", "code"), [("error", 0), ("warning", 1), ("info", 1)])
def test_fail_on_says_what_fails(project: Path, level: str, code: int) -> None:
    clean = {"/a/{id}": {"delete": PATHS["/a/{id}"]["delete"]}}
    (project / "api.json").write_text(json.dumps(document(clean)), encoding="utf-8")
    assert run("--fail-on", level).exit_code == code


@pytest.mark.parametrize(
    "arguments", [("--json", "--sarif"), ("--write-baseline",), ("--fail-on", "never")], ids=" ".join
)
def test_misuse_is_said_to_be_that(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


@pytest.mark.parametrize("text", ["", "[]", '{"format": 2, "findings": []}', '{"format": 1}', "nonsense"])
def test_a_baseline_that_is_none_is_refused(project: Path, text: str) -> None:
    (project / "lint.json").write_text(text, encoding="utf-8")
    result = run("--baseline", "lint.json")
    assert "lint.json" in str(result.exception)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.json", '{\n "a": {\n  "b/c": [1,\n   {"d": 2}]\n }\n}', {"#": 1, "#/a": 2, "#/a/b~1c": 3, "#/a/b~1c/1": 4, "#/a/b~1c/1/d": 4}),
        ("a.json", '{"\\u00e4\\"": "{[,:\\"",\n"b": 1}', {'#/ä"': 1, "#/b": 2}),
        ("a.yaml", "a:\n  b/c:\n  - 1\n  - d: 2\n", {"#/a": 1, "#/a/b~1c": 2, "#/a/b~1c/1": 4, "#/a/b~1c/1/d": 4}),
        ("a.yaml", "a: &x {b: 1}\nc: *x\nd: !t\n  e: 1\n", {"#/a/b": 1, "#/c": 2, "#/d/e": 4}),
        ("a.yaml", "a: [\n", {}),
        ("a.json", '{"a": ]}}{', {"#/a": 1}),
    ],
)  # fmt: skip
def test_lines_are_those_that_an_editor_shows(tmp_path: Path, name: str, text: str, expected: dict[str, int]) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert lines(path, [*expected, "#/nowhere"]) == expected
