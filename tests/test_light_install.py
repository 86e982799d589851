"""`pip install toolgen` without extras: its size, what works in it, and what is said of what is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
import venv
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.exhaustive import spread
from tests.messages import line_names

ROOT = Path(__file__).parent.parent
MIB = 1_048_576
DESCRIPTION = {
    "openapi": "3.1.0",
    "info": {"title": "Shelf", "version": "1"},
    "servers": [{"url": "http://127.0.0.1:9"}],
    "paths": {
        "/books/{id}": {
            "get": {
                "operationId": "getBook",
                "summary": "One book",
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": {"200": {"description": "the book"}},
            }
        }
    },
}


def closure(name: str) -> dict[str, metadata.Distribution]:
    """What pip installs for a distribution without extras, itself left out."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [(name, frozenset[str]())]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        one, extras = waiting.pop()
        one = canonicalize_name(one)
        if (one, extras) in seen:
            continue
        seen.add((one, extras))
        distribution = metadata.distribution(one)
        found[one] = distribution
        for line in distribution.requires or ():
            wanted = Requirement(line)
            marked = wanted.marker
            if marked is None or any(marked.evaluate({"extra": extra}) for extra in {"", *extras}):
                waiting.append((wanted.name, frozenset(wanted.extras)))
    del found[name]
    return found


def files_of(distribution: metadata.Distribution) -> list[tuple[Path, Path]]:
    """Where each file is, and where it belongs in site-packages. Scripts are left out."""
    files = [Path(str(file)) for file in distribution.files or ()]
    return [(Path(str(distribution.locate_file(file))), file) for file in files if file.parts[0] != ".."]


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has the package and what it requires: nothing from extras."""
    folder = tmp_path_factory.mktemp("light")
    venv.create(folder / "venv", with_pip=False)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    for distribution in closure("toolgen").values():
        for there, here in files_of(distribution):
            if there.exists():  # bytecode may not have been written
                (packages / here).parent.mkdir(parents=True, exist_ok=True)
                (packages / here).symlink_to(there)
    (packages / "toolgen").symlink_to(ROOT / "toolgen")
    for there, here in files_of(metadata.distribution("toolgen")):
        if here.name == "METADATA":
            (packages / here).parent.mkdir()
            (packages / here).symlink_to(there)
    return folder / "venv" / "bin" / "python"


def ran(light: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(light), "-m", "toolgen", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "COLUMNS": "200"},
    )


@pytest.fixture(scope="module")
def built(light: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    (folder / "shelf.json").write_text(json.dumps(DESCRIPTION))
    for command in (("init", "shelf.json"), ("build",)):
        done = ran(light, folder, *command)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    """One that both commands made, for this test alone."""
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_an_installation_without_extras_takes_at_most_120_mb() -> None:
    distributions = closure("toolgen")
    assert not {"sqlglot", "sqlglotc", "cel-expr-python", "psycopg", "duckdb"} & set(distributions)
    files = {
        name: [there for there, _ in files_of(one) if there.suffix != ".pyc"] for name, one in distributions.items()
    }
    sizes = {name: sum(there.stat().st_size for there in those) for name, those in files.items()}
    ours = sum(
        file.stat().st_size for file in (ROOT / "toolgen").rglob("*") if file.suffix != ".pyc" and file.is_file()
    )
    # pip writes bytecode beside what it installs: as much again as the Python files, at most.
    python = sum(there.stat().st_size for those in files.values() for there in those if there.suffix == ".py")
    assert sum(sizes.values()) + 2 * ours + python < 120 * MIB, dict(sorted(sizes.items(), key=lambda one: one[1])[-9:])


COMMANDS = (
    "--help",
    "tools",
    "lint --fail-on error",
    "policy check",
    "policy explain shelf__get_book id=1",
    "call shelf__get_book --dry-run id=1",
    "config show",
    "doctor --json",
    "keys list",
)


@pytest.mark.parametrize("command", spread(COMMANDS, 3))
def test_what_needs_no_extra_works_without_any(light: Path, project: Path, command: str) -> None:
    done = ran(light, project, *command.split())
    assert done.returncode == 0, done.stdout + done.stderr


def test_doctor_tries_what_there_is(light: Path, project: Path) -> None:
    told = json.loads(ran(light, project, "doctor", "--json").stdout)
    assert told["ok"]
    assert len(told["trials"]) > 20
    assert not {one["name"] for one in told["trials"]} & {"SQL", "SQL rows", "bound argument"}


def test_a_call_is_refused_or_made_and_recorded_without_extras(light: Path, project: Path) -> None:
    done = ran(light, project, "call", "shelf__get_book", "id=1", "--json")
    assert '"audit_seq"' in done.stdout, done.stdout + done.stderr
    assert ran(light, project, "audit", "verify").returncode == 0


def test_a_project_without_databases_says_so_before_an_extra_is_asked_for(light: Path, project: Path) -> None:
    done = ran(light, project, "sql", "check", "--source", "shelf", "SELECT 1")
    assert (done.returncode, "no database 'shelf'" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("written", "command", "extra"),
    [
        ("sources: {shop: {sql: 'sqlite:///shop.db'}}\n", ("build",), "sql"),
        ("sources: {shop: {sql: 'postgresql://a@127.0.0.1:9/b'}}\n", ("build",), "postgres"),
        ("sources: {shop: {sql: 'mariadb://a@127.0.0.1:9/b'}}\n", ("build",), "mysql"),
        ("sources: {shop: {sql: 'duckdb:///shop.db'}}\n", ("build",), "duckdb"),
    ],
)
def test_what_is_missing_is_said_with_the_command_that_installs_it(
    light: Path, project: Path, written: str, command: tuple[str, ...], extra: str
) -> None:
    (project / "shop.db").touch()
    (project / "toolgen.yaml").write_text(written)
    done = ran(light, project, *command)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f'pip install "toolgen[{extra}]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_the_demo_plays_what_needs_no_database_and_says_what_it_left_out(light: Path, tmp_path: Path) -> None:
    done = ran(light, tmp_path, "demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert line_names(done.stdout, "left out: ", 'pip install "toolgen[sql]"')
    assert "over GraphQL" in done.stdout
    assert "shop__" not in done.stdout
    assert "entries, intact" in done.stdout


def test_a_condition_in_a_policy_says_what_evaluates_it(light: Path, project: Path) -> None:
    rule = "rules:\n- {id: late, to: [agent], tools: ['*'], verdict: deny, when: 'now.getHours() > 20'}\n"
    (project / "policies" / "late.yaml").write_text(rule)
    done = ran(light, project, "policy", "check")
    assert done.returncode == 1, done.stdout + done.stderr
    assert 'pip install "toolgen[cel]"' in done.stderr


def test_drivers_bring_what_reads_sql_and_all_brings_what_is_asked_for_by_need() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    brought = {
        extra: {more for line in lines if (one := Requirement(line)).name == "toolgen" for more in one.extras}
        for extra, lines in extras.items()
    }
    for driver in ("clickhouse", "mssql", "postgres", "mysql", "duckdb"):
        assert brought[driver] == {"sql"}
    # By their own names only: a GPL library, frameworks that one has anyway, weights that come without their package or take 120 MB,
    # pictures, an engine of 800 MB, a driver that no server was tried with, and another engine for policies.
    apart = {
        "clickhouse",
        "mssql",
        "pglast",
        "cedar",
        "langgraph",
        "openai-agents",
        "pydantic-ai",
        "minilm",
        "classifier",
        "plot",
    }
    assert brought["all"] == set(extras) - apart - {"all"}
