"""A kind of system is a folder and a line: CSV files, added to a copy of the package, from `toolgen init` to a call."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.edited_package import Edit, EditedPackage

ROOT = Path(__file__).parents[2]
KIND = ROOT / "tests" / "fixtures" / "kinds" / "csv"
REGISTRY = "connectors/registry.py"
LINES = (
    Edit(
        REGISTRY,
        "from toolgen.connectors.device.connector",
        "from toolgen.connectors.csv.connector import CsvConnector\n",
    ),
    Edit(REGISTRY, "            DeviceConnector(),", "            CsvConnector(),\n"),
)
POLICY = """
principals:
  agent: {roles: [reader]}
rules:
  - {id: reads, to: [reader], tools: ['cities__*'], verdict: allow}
  - {id: no-mayors, to: [reader], tools: [cities__get], arguments: {properties: {name: {const: Oslo}}}, verdict: deny}
"""
CITIES = "name;country\nBern;CH\nOslo;NO\nBergen;NO\n"
CALLS = """
import asyncio, json
from toolgen import Gateway

async def main():
    async with Gateway.load("toolgen.yaml") as gateway:
        told = {}
        for name, tool, arguments in (
            ("cities__list {}", "cities__list", {}),
            ("cities__filter NO", "cities__filter", {"column": "country", "value": "NO"}),
            ("cities__get Bern", "cities__get", {"name": "Bern"}),
            ("cities__get Rome", "cities__get", {"name": "Rome"}),
            ("cities__get Oslo", "cities__get", {"name": "Oslo"}),
            ("cities__filter mayor", "cities__filter", {"column": "mayor", "value": ""}),
        ):
            told[name] = (await gateway.call(tool, arguments, principal="agent")).to_dict()
        print(json.dumps(told))

asyncio.run(main())
"""
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs Python in a project, with a package that has the folder and the line."""
    edited = EditedPackage(tmp_path_factory.mktemp("csv"), LINES)
    shutil.copytree(KIND, edited.package / "toolgen" / "connectors" / "csv")
    edited.write({"cities.csv": CITIES, "toolgen.yaml": "sources:\n  cities: {csv: cities.csv, separator: ';'}\n"})
    edited.toolgen("build")
    edited.write({"policies/policy.yaml": POLICY})
    return edited.run


def test_a_gateway_answers_calls_of_its_tools(run: Run) -> None:
    told = json.loads(run("-c", CALLS).stdout)
    assert told["cities__list {}"]["data"]["rows"] == [
        {"name": "Bern", "country": "CH"},
        {"name": "Oslo", "country": "NO"},
        {"name": "Bergen", "country": "NO"},
    ]
    assert [row["name"] for row in told["cities__filter NO"]["data"]["rows"]] == ["Oslo", "Bergen"]
    assert told["cities__get Bern"]["data"] == {"name": "Bern", "country": "CH"}
    assert told["cities__get Rome"]["error"]["code"] == "upstream_error"
    assert told["cities__get Oslo"]["error"]["code"] == "forbidden"
    assert told["cities__filter mayor"]["error"]["code"] == "validation"


def test_settings_of_the_kind_are_checked(run: Run, tmp_path: Path) -> None:
    for written, reason in (
        ("{csv: cities.csv, separator: ab}", "separator: takes one character"),
        ("{openapi: x.json, separator: ';'}", "separator: belongs to csv sources"),
        ("{csv: cities.csv, overlay: x.yaml}", "overlay: belongs to openapi sources"),
        ("{csv: cities.csv, separators: ';'}", "did you mean 'separator'"),
        ("{csv: cities.csv, auth: {x: '${env:X}'}}", "auth: does not belong to csv sources"),
        ("{csv: 'https://example.com/a.csv'}", "csv: takes a file"),
    ):
        file = tmp_path / "toolgen.yaml"
        file.write_text(f"sources:\n  cities: {written}\n", encoding="utf-8")
        assert reason in run("-m", "toolgen", "build", "--config", str(file), fails=True).stderr


def test_the_keys_are_in_the_schema_of_the_settings(run: Run) -> None:
    schema = json.loads(run("-m", "toolgen", "config", "schema").stdout)
    source = schema["$defs"]["Source"]
    assert source["properties"]["separator"]["description"].endswith(" Of csv sources.")
    assert any(one["required"] == ["csv"] for one in source["oneOf"])
    assert "cities.separator" in run("-m", "toolgen", "config", "show").stdout


def test_a_new_project_recognizes_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "towns.csv").write_text("name,country\nBern,CH\n", encoding="utf-8")
    made = run("-m", "toolgen", "init", str(tmp_path / "towns.csv"), "--dir", str(tmp_path / "made"))
    assert "csv: specs/towns.csv" in (tmp_path / "made" / "toolgen.yaml").read_text(encoding="utf-8"), made.stdout


@pytest.mark.parametrize(
    "command",
    [
        ("build", "--check"),
        ("lint",),
        ("verify",),
        ("doctor",),
        ("tools",),
        ("policy", "check"),
        ("policy", "explain", "cities__get", "--as", "agent", "--args", '{"name": "Bern"}'),
        ("call", "cities__list", "--as", "agent"),
    ],
    ids=lambda command: "-".join(command[:2]),
)
def test_commands_take_the_kind(run: Run, command: tuple[str, ...]) -> None:
    done = run("-m", "toolgen", *command)
    assert "Traceback" not in done.stderr
