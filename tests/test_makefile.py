"""What every change must pass, in which order, and what of it leaves something behind on the machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import LONG, WAITING

pytestmark = pytest.mark.exhaustive  # a tool of the repository, and no part of what users install

ROOT = Path(__file__).parent.parent
CHECKS = [
    "ruff check",
    "ruff format --check",
    "mypy",
    "mypy --config-file tests/mypy.ini",
    "-m tests.typed_examples",
    "build --check",
    "policy check",
    "-m tests.names",
]


def recipe(target: str) -> str:
    """What make would run."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    command = ["make", "--dry-run", "--always-make", "--no-print-directory", target]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_a_change_is_checked_before_it_is_tested() -> None:
    said = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.findall(r"^\s*make (\w+)", said, re.MULTILINE) == ["dev", "browser", "check", "test", "conformance"]
    assert said.index("make check") < said.index('wait "$installed"') < said.index("make test")
    assert "set -euo pipefail" in said


def test_the_checks_are_all_there_and_run_no_test() -> None:
    run = recipe("check")
    assert [check for check in CHECKS if check not in run] == []
    assert "pytest" not in run


@pytest.mark.parametrize("target", ["setup", "check", "test", "test-all", "console-test"])
def test_only_the_target_that_says_so_installs_on_the_machine(target: str) -> None:
    assert "apt-get" not in recipe(target)
    assert "apt-get" in recipe("browser")


@pytest.mark.parametrize("target", ["test", "console-test"])
def test_where_there_is_no_browser_the_tests_say_what_to_run(target: str) -> None:
    assert "`make browser\\` installs it" in recipe(target)


def test_everything_is_the_suite_and_then_all_cases_of_its_sweeps() -> None:
    suite, general, sweeps, all_general = [line for line in recipe("test-all").splitlines() if "-m pytest" in line]
    assert "TOOLGEN_EXHAUSTIVE" not in suite
    assert "TOOLGEN_WITHOUT_PLANS" not in suite
    assert general.startswith("TOOLGEN_WITHOUT_PLANS=1 ")
    assert all_general.startswith("TOOLGEN_WITHOUT_PLANS=1 ")
    assert sweeps.startswith("TOOLGEN_EXHAUSTIVE=1 ")
    assert '-m "sweep or exhaustive"' in sweeps


def test_the_longest_files_are_there_and_begin() -> None:
    long = [*WAITING, *LONG]
    assert sorted(long) == sorted({path.stem for path in (ROOT / "tests").rglob("test_*.py")} & set(long))
    assert "--dist loadfile --no-loadscope-reorder" in recipe("test")


def test_the_processes_of_tests_find_the_bytecode_of_those_before_them() -> None:
    assert "export PYTHONDONTWRITEBYTECODE :=\n" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_who_uses_toolgen_installs_no_tool_of_its_development() -> None:
    run = recipe("demo")
    assert "-r requirements.lock" in run
    assert "requirements-dev.lock" not in run
    assert "-r requirements-dev.lock" in recipe("test")
    pins = {
        name: set(re.findall(r"^([a-z0-9-]+==\S+)", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE))
        for name in ("requirements.lock", "requirements-dev.lock")
    }
    assert pins["requirements.lock"] < pins["requirements-dev.lock"]
    assert len(pins["requirements.lock"]) < 45
