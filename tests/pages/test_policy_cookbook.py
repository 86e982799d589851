"""Every policy of the cookbook is loaded, its tests are run, and its commands print what the page shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.forked_cli import forked_cli

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "policy-cookbook.md"
_END = "-- end of command --"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A part of the page: its policy, and commands with the first lines that they print."""

    title: str
    policy: str
    commands: tuple[tuple[str, tuple[str, ...]], ...]


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(block: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for one in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *printed = one.splitlines()
        yield command, tuple(printed)


def recipes(parts: list[str]) -> Iterator[Recipe]:
    for part in parts:
        for policy in blocks("yaml", part):
            shown = tuple(one for block in blocks("console", part) for one in commands(block))
            yield Recipe(title=part.partition("\n")[0], policy=policy, commands=shown)


_PAGES = sorted(PAGE.with_suffix("").glob("*.md"))
PROJECT = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1]
RECIPES = [
    recipe
    for page in _PAGES
    for recipe in recipes(re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:])
]


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def toolgen() -> Iterator[str]:
    with forked_cli() as function:
        yield function


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, toolgen: str) -> Path:
    """The project that the page begins with, built."""
    folder = tmp_path_factory.mktemp("cookbook")
    (folder / "specs").symlink_to(ROOT / "specs")
    (folder / "policies").mkdir()
    settings, principals = blocks("yaml", PROJECT)
    (folder / "toolgen.yaml").write_text(settings, encoding="utf-8")
    (folder / "policies" / "who.yaml").write_text(principals, encoding="utf-8")
    (folder / "own_tools.py").write_text(blocks("python", PROJECT)[0], encoding="utf-8")
    done = run(f"{toolgen}toolgen build", folder)
    assert done.returncode == 0, done.stdout
    return folder


def test_the_pages_have_at_least_fifteen_policies() -> None:
    assert len({recipe.title for recipe in RECIPES}) >= 15


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.title)
def test_a_policy_has_tests_of_both_kinds_and_refusals(recipe: Recipe) -> None:
    expected = {test["expect"] for test in yaml.safe_load(recipe.policy)["tests"]}
    assert expected != {"allow"} or "sql" in yaml.safe_load(recipe.policy)
    assert expected & {"allow", "ask"}
    assert recipe.commands, "show in a block of ```console what is refused"


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.title)
def test_a_policy_holds_and_prints_what_the_page_shows(recipe: Recipe, project: Path, toolgen: str) -> None:
    (project / "policies" / "recipe.yaml").write_text(recipe.policy, encoding="utf-8")
    asked = ["toolgen policy check", *(command for command, _ in recipe.commands)]
    checked, *printed = run(
        toolgen + "".join(f"{one}\necho {shlex.quote(_END)}\n" for one in asked), project
    ).stdout.split(f"{_END}\n")[:-1]
    rules, tests = (len(yaml.safe_load(recipe.policy)[key]) for key in ("rules", "tests"))
    said = [
        line for line in checked.splitlines() if not re.fullmatch(r"(?:rule|limit|toolset) \S+ covers \d+ tools?", line)
    ]
    assert said == [f"{rules} rules, {tests} tests passed, 0 failed"], "no test fails, and there is no advice"
    for (command, shown), output in zip(recipe.commands, printed, strict=True):
        assert shown, f"{command} prints {output}"
        assert output.splitlines()[: len(shown)] == [*shown], command
