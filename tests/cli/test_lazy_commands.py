"""Commands are imported when they are asked for: what a listing says of them, and what each of them leaves alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

from tests.audit.logs import write
from tests.cli.commands import runner
from tests.messages import line_names
from tests.projects import PETS, make_project
from toolgen.cli.lazy import LazyCommand
from toolgen.cli.main import cli

HEAVY = {
    *(
        "cel_expr_python",
        "cryptography",
        "gql",
        "graphql",
        "hpack",
        "httpx",
        "jinja2",
        "jsonschema_rs",
        "rich",
    ),
    *("sqlglot", "starlette", "uvicorn", "yaml"),
}
NEEDED_BY_SETTINGS = {"cryptography", "jsonschema_rs", "yaml"}
PROJECT = "sources:\n  shop: {sql: 'sqlite:///shop.db'}\n"


def lazy_commands(group: click.Group) -> Iterator[LazyCommand]:
    for command in group.commands.values():
        if isinstance(command, LazyCommand):
            yield command
            loaded = command.load()
            if isinstance(loaded, click.Group):
                yield from lazy_commands(loaded)


def imported_by(*arguments: str, folder: Path) -> set[str]:
    """The modules that a command leaves in a fresh interpreter."""
    program = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from toolgen.cli.main import main\n"
        f"main({list(arguments)!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


def parts(modules: set[str]) -> set[str]:
    return {name.split(".")[0] for name in modules}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "toolgen.yaml").write_text(PROJECT)
    write(tmp_path / "var" / "audit", calls=1)
    return tmp_path


def test_a_listing_says_of_a_command_what_it_says_itself() -> None:
    commands = list(lazy_commands(cli))
    assert len(commands) > len(cli.commands)
    for command in commands:
        loaded = command.load()
        assert (loaded.hidden, loaded.deprecated) == (command.hidden, command.deprecated)
        for width in range(20, 300):
            assert command.get_short_help_str(width) == loaded.get_short_help_str(width)


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_help_imports_no_command(arguments: tuple[str, ...], tmp_path: Path) -> None:
    modules = imported_by(*arguments, folder=tmp_path)
    assert {name for name in modules if name.startswith("toolgen")} == {
        "toolgen",
        "toolgen.cli",
        "toolgen.cli.lazy",
        "toolgen.cli.main",
        "toolgen.core",
        "toolgen.core.core_dumps",
        "toolgen.core.errors",
        "toolgen.core.garbage",
    }
    assert parts(modules) & {*HEAVY, "asyncio", "msgspec", "ssl"} == set()


def test_a_build_imports_what_its_sources_need(tmp_path: Path) -> None:
    (tmp_path / "pets.json").write_text(json.dumps(PETS), encoding="utf-8")
    modules = imported_by("build", "pets.json", folder=tmp_path)
    assert "toolgen.connectors.openapi.read" in modules
    assert parts(modules) & {"asyncio", "ssl", "graphql", "sqlglot", "yaml"} == set()  # its description is JSON
    assert {
        f"toolgen.connectors.{kind}" for kind in ("functions.read", "mcp.read", "device.read", "sql.reading")
    } & modules == set()


@pytest.mark.parametrize("name", ["list", "show", "tail", "verify", "stats"])
def test_reading_the_audit_log_imports_no_gateway(name: str, project: Path) -> None:
    for arguments in (("audit", name, "--help"), ("audit", name, *(["1"] if name == "show" else []))):
        modules = imported_by(*arguments, folder=project)
        assert parts(modules) & (HEAVY - NEEDED_BY_SETTINGS) == set()
        assert {
            part
            for part in (
                "build",
                "frontends.console",
                "frontends.python.gateway",
                "pipeline.order",
                "connectors.sql.guard",
                "connectors.openapi.read",
            )
            if f"toolgen.{part}" in modules
        } == set()


def test_a_command_nobody_knows_is_misuse(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    done = runner(capfdbinary)("bulid")
    assert done.code == 2
    assert line_names(done.err, "command 'bulid'", "'build'")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("toolgen ", "accounts approvals audit backup"),
        ("toolgen au", "audit"),
        ("toolgen comp", "completion"),
        ("toolgen audit s", "show stats"),
        ("toolgen audit verify --ke", "--key"),
        ("toolgen resume --rea", ""),
        ("toolgen pause --rea", "--reason"),
    ],
)
def test_a_shell_completes_commands_and_options(words: str, offered: str) -> None:
    *given, incomplete = words.split(" ")[1:]
    items = BashComplete(cli, {}, "toolgen", "_TOOLGEN_COMPLETE").get_completions(given, incomplete)
    values = [item.value for item in items]
    assert values[:4] == offered.split()
    assert all(item.help for item in items)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("toolgen call pets__", ["pets__delete_pet", "pets__get_pet"]),
        ("toolgen call --config elsewhere.yaml pets__", []),
        ("toolgen policy explain shop__q", ["shop__query"]),
        ("toolgen call x --as ", ["ann", "bot", "reviewer"]),
        ("toolgen install cursor --as b", ["bot"]),
    ],
)
def test_a_shell_completes_tools_and_principals_of_the_project(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
    words: str,
    offered: list[str],
) -> None:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert runner(capfdbinary)("build").code == 0
    *given, incomplete = words.split(" ")[1:]
    items = BashComplete(cli, {}, "toolgen", "_TOOLGEN_COMPLETE").get_completions(given, incomplete)
    assert [item.value for item in items] == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell_completes(shell: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    done = runner(capfdbinary)("completion", shell)
    assert done.code == 0
    assert "_TOOLGEN_COMPLETE" in done.out


def test_completing_a_command_imports_none(tmp_path: Path) -> None:
    program = "from toolgen.cli.main import main\ntry:\n    main()\nfinally:\n    import sys; print(*sys.modules, file=sys.stderr)"
    environment = {"_TOOLGEN_COMPLETE": "bash_complete", "COMP_WORDS": "toolgen au", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == "plain,audit\n"
    modules = set(done.stderr.splitlines()[-1].split())
    assert "toolgen.cli.audit" not in modules
    assert parts(modules) & HEAVY == set()


def with_json(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    """The words of every command that has `--json`."""
    for name, command in group.commands.items():
        loaded = command.load() if isinstance(command, LazyCommand) else command
        if isinstance(loaded, click.Group):
            yield from with_json(loaded, *path, name)
        elif any(option.name == "as_json" for option in loaded.params):
            yield (*path, name)


def test_misuse_is_told_in_json_where_json_is_asked_for(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    toolgen, commands = runner(capfdbinary), list(with_json(cli))
    assert len(commands) > 20
    for words in commands:
        ended = toolgen(*words, "--json", "--invented")
        assert (ended.code, ended.json()["error"]["code"]) == (2, "usage"), words
        assert "--invented" in ended.json()["error"]["message"], words
        assert "Error: " in ended.err, words
        plain = toolgen(*words, "--invented")
        assert (plain.code, plain.out) == (2, ""), words


@pytest.mark.parametrize("words", [("invented", "--json"), ("policy", "invented", "--json"), ("--json", "tools")])
def test_misuse_of_a_group_is_told_in_json_too(
    capfdbinary: pytest.CaptureFixture[bytes], words: tuple[str, ...]
) -> None:
    ended = runner(capfdbinary)(*words)
    assert (ended.code, ended.json()["error"]["code"]) == (2, "usage")


@pytest.mark.parametrize("words", [("mock", "--json"), ("tools", "--as", "bot", "--", "--json", "more")])
def test_misuse_is_no_json_where_json_is_no_option(
    capfdbinary: pytest.CaptureFixture[bytes], words: tuple[str, ...]
) -> None:
    ended = runner(capfdbinary)(*words)
    assert (ended.code, ended.out) == (2, "")
