"""Reference pages made from the program are fresh and whole; commands end with the codes that they list."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import click
import pytest

from docs.generate import PAGES, commands, meanings, pages, rendered_metrics
from tests.audit.logs import write
from tests.cli.commands import runner
from tests.projects import make_project
from toolgen.audit.entry import FIELDS
from toolgen.cli.main import EXIT_CODES
from toolgen.config.keys import FileKind, described
from toolgen.core.error_codes import KnownCode
from toolgen.frontends.rest.openapi_document import openapi_json
from toolgen.frontends.rest.tools import STATUS_OF_CODE
from toolgen.gateway.metrics.prometheus import DETAILS

ROOT = Path(__file__).parents[2]
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in pages()}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_program_says(name: str) -> None:
    assert TEXTS[name] == PAGES[name](), "run make reference"


def test_every_key_is_on_its_page() -> None:
    for kind, page in zip(get_args(FileKind), ("toolgen-yaml.md", "policy-keys.md"), strict=True):
        sections = {part.split("\n", 1)[0]: part for part in TEXTS[page].split("\n## ")[1:]}
        for structure, own in described(kind).items():
            section = sections["The file" if structure == "File" else structure]
            for key in own:
                assert f"\n| `{key.name}` | " in section, (page, structure, key.name)
                assert key.text.split(" ")[0] in section


def test_every_command_and_option_is_on_its_page() -> None:
    known = dict(commands())
    assert len(known) > 40
    for words, command in known.items():
        section = TEXTS["cli.md"].partition(f"\n## {words}\n")[2].partition("\n## ")[0]
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.opts[0] in section, (words, option.opts)


def test_every_code_field_metric_and_route_is_on_its_page() -> None:
    said = meanings()
    assert said["errors"].keys() == STATUS_OF_CODE.keys()
    assert {*get_args(KnownCode)} == {*said["errors"], *said["requests"]}
    assert said["record"].keys() == set(FIELDS)
    for code, status in STATUS_OF_CODE.items():
        assert f"| `{code}` | {status} |" in TEXTS["errors.md"]
    assert all(f"| `{name}` |" in TEXTS["record.md"] for name in FIELDS)
    labels = set(re.findall(r'[{,](\w+)="', rendered_metrics(DETAILS))) - {"le"}
    assert said["labels"].keys() == labels
    for name in re.findall(r"^# TYPE (\S+)", rendered_metrics(DETAILS), re.MULTILINE):
        assert f"| `{name}` |" in TEXTS["metrics.md"]
    for path, methods in json.loads(openapi_json())["paths"].items():
        for method in methods:
            assert f"## {method.upper()} {path}\n" in TEXTS["rest-routes.md"]


def test_codes_that_the_sources_raise_are_listed() -> None:
    written = set()
    for path in (ROOT / "toolgen").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        written |= set(re.findall(r'Error\(\s*code="([a-z_]+)"', text))
        written |= set(re.findall(r'Rejected\(\s*\d{3},\s*"([a-z_]+)"', text))
    assert written <= STATUS_OF_CODE.keys() | meanings()["requests"].keys()
    assert len(written) > 20


def test_exit_codes_are_the_only_ones(tmp_path: Path) -> None:
    """What a command's module could end with, by its text."""
    for path in sorted((ROOT / "toolgen" / "cli").rglob("*.py")):
        for given in re.findall(r"(?:sys\.exit|SystemExit)\(([^()]*(?:\([^()]*\)[^()]*)*)\)", path.read_text("utf-8")):
            assert set(map(int, re.findall(r"(?<![\w.])\d+", given))) <= EXIT_CODES.keys(), path


EVERY = dict(commands())
# What ends well in a project, or needs no project at all.
GOOD = (
    ("tools", "--as", "bot"),
    ("policy", "check"),
    ("config", "schema"),
    ("config", "show"),
    ("audit", "list"),
    ("audit", "stats"),
    ("keys", "list"),
    ("pause",),
    ("completion", "bash"),
    ("build",),
    ("build", "--check"),
)


@pytest.mark.parametrize("words", EVERY)
def test_misuse_of_every_command_is_2(
    words: str, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = words.split(" ")[1:]
    done = runner(capfdbinary)(*path, "--no-such-option")
    assert (done.code, "Usage: " in done.err) == (2, True)
    assert runner(capfdbinary)(*path, "--help").code == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words", [words for words, one in EVERY.items() if any(o.name == "config_path" for o in one.params)]
)
def test_a_command_without_its_project_fails_with_1(
    words: str, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its arguments are: each is given text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLGEN_KEY", "")
    command = EVERY[words]
    given = [
        "1" if isinstance(one.type, click.types.IntParamType) else _word(one) for one in command.params if _needed(one)
    ]
    options = [
        part for one in command.params if isinstance(one, click.Option) and one.required for part in (one.opts[0], "1")
    ]
    given = {
        "toolgen keys revoke": ["x"],
        "toolgen sign-ins revoke": ["x"],
        "toolgen sql check": ["SELECT 1"],
        "toolgen grant": ["--list"],
        "toolgen registry export": ["com.example/tools"],
    }.get(words, given)
    done = runner(capfdbinary)(*words.split(" ")[1:], *options, *given, "--config", "missing.yaml")
    assert done.code == 1, done
    assert "missing.yaml" in done.err, done
    assert "Traceback" not in done.err


def _needed(one: click.Parameter) -> bool:
    return isinstance(one, click.Argument) and one.required


def _word(one: click.Parameter) -> str:
    return str(one.type.choices[0]) if isinstance(one.type, click.Choice) else "x"


def test_commands_that_find_nothing_wrong_end_with_0(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(make_project(tmp_path).parent)
    monkeypatch.setenv("TEST_PETS_KEY", "x")
    write(tmp_path / "var" / "audit", calls=1)
    toolgen = runner(capfdbinary)
    for words in GOOD:
        done = toolgen(*words)
        assert done.code == 0, (words, done)
