"""Each recipe of docs/how-to/recipes.md is short, and its commands, run in its project, print what the page shows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forked_cli import forked_cli
from tests.pages.test_policy_cookbook import blocks, commands, run
from tests.redis_server import RedisServer

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "recipes.md"
_, PROJECT, *RECIPES = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
MOST_WORDS = 220
_END = "-- end of command --"


def title(recipe: str) -> str:
    return recipe.partition("\n")[0]


def write_files(recipe: str, folder: Path) -> None:
    """The files of a recipe; the first line of each says where it goes."""
    for text in blocks("yaml", recipe):
        name = text.partition("\n")[0].removeprefix("# ")
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in re.split(r"\s*…\s*", line))


@pytest.fixture(scope="module")
def toolgen() -> Iterator[str]:
    with forked_cli() as function:
        yield function


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, toolgen: str) -> Path:
    """The project that the recipes begin with, built."""
    folder = tmp_path_factory.mktemp("recipes") / "project"
    folder.mkdir()
    shutil.copytree(ROOT / "specs", folder / "specs")
    write_files(PROJECT, folder)
    done = run(f"{toolgen}toolgen build", folder)
    assert done.returncode == 0, done.stdout
    return folder


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.mark.parametrize("recipe", RECIPES, ids=title)
def test_a_recipe_is_short_and_complete(recipe: str) -> None:
    prose = re.sub(r"^```.*?^```$", "", recipe, flags=re.MULTILINE | re.DOTALL)
    assert "**Goal.**" in prose
    assert "**It works** when" in prose or "**It works**\nwhen" in prose
    assert "](" in prose, "link the page with details"
    assert blocks("console", recipe)
    assert len(prose.split()) <= MOST_WORDS


@pytest.mark.parametrize("recipe", RECIPES, ids=title)
def test_a_recipe_prints_what_the_page_shows(
    recipe: str, project: Path, tmp_path: Path, toolgen: str, redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORDERS_KEY", "key-0123456789")
    folder = tmp_path / "project"
    shutil.copytree(project, folder)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    text = recipe.replace("127.0.0.1:6379", f"127.0.0.1:{redis.port}")
    text = text.replace("127.0.0.1:8080", f"127.0.0.1:{port}").replace("--port 8080", f"--port {port}")
    write_files(text, folder)
    shown = [one for block in blocks("console", text) for one in commands(block)]
    asked = "".join(f"{command}\necho; echo {shlex.quote(_END)}\n" for command, _ in shown)
    # A background process of a recipe has to be the command itself, to be stopped by its id.
    function = "" if " & " in asked else toolgen
    output = run(f"{function}toolgen build >build.log 2>&1\n{asked}", folder).stdout
    printed = output.split(f"\n{_END}\n")[:-1]
    for (command, lines), out in zip(shown, printed, strict=True):
        if os.environ.get("SHOW_RECIPES"):
            print(f"$ {command}\n{out}")
        found = [line.rstrip() for line in out.splitlines() if line.strip()]
        for line in lines:
            assert any(re.fullmatch(pattern(line.strip()), one.strip()) for one in found), f"{command}: {line!r}\n{out}"


def test_the_example_of_the_policy_page_holds(project: Path, tmp_path: Path, toolgen: str) -> None:
    example, *_ = blocks("yaml", (ROOT / "docs" / "reference" / "policy.md").read_text(encoding="utf-8"))
    folder = tmp_path / "project"
    shutil.copytree(project, folder)
    (folder / "policies" / "who.yaml").write_text(example, encoding="utf-8")
    done = run(f"{toolgen}toolgen policy check", folder)
    assert "2 rules, 1 tests passed, 0 failed" in done.stdout
