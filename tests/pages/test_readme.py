"""The commands of README and docs/ do what is said of them, run as a reader would run them."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.exhaustive import EXHAUSTIVE
from tests.forked_cli import forked_cli

ROOT = Path(__file__).parents[2]
KINDS = ("tutorials", "how-to", "reference", "explanation")
PAGES = {
    page: page.read_text(encoding="utf-8")
    for page in (
        ROOT / "README.md",
        *(page for kind in KINDS for page in sorted((ROOT / "docs" / kind).rglob("*.md"))),
        *sorted((ROOT / "docs" / "internals").glob("*.md")),
        ROOT / "docs" / "README.md",
    )
}
README = PAGES[ROOT / "README.md"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def commands() -> str:
    """Every shell line, README's first, without those that call make: those are this very suite, and tests/examples/test_demo.py."""
    blocks = [block for page in PAGES.values() for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL)]
    lines = [line for block in blocks for line in block.splitlines()]
    return "\n".join(line for line in lines if not line.startswith("make "))


@pytest.mark.sweep
def test_the_commands_work_one_after_the_other(tmp_path: Path) -> None:
    """In the exhaustive run each command is started anew, as a reader starts it."""
    for name in ("specs", "examples", "toolgen"):
        (tmp_path / name).symlink_to(ROOT / name)
    script = commands().replace("8801", str(free_port()))
    assert "toolgen init" in script
    with contextlib.nullcontext("") if EXHAUSTIVE else forked_cli() as function:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", function + script],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"X-API-Key",\n      "***"' in done.stdout
    assert '"status": "open"' in done.stdout
    assert "refused, as it should be" in done.stdout
    assert "refused: unknown_tool" in done.stderr
    assert "4 entries in 1 stream(s): intact" in done.stdout
    assert '"Hello, Ann"' in done.stdout


@pytest.mark.parametrize("target", re.findall(r"`make (.*?)`", README))
def test_the_targets_it_names_are_in_the_makefile(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for name in target.split(" | "):
        assert re.search(rf"^{name}:", makefile, re.MULTILINE), name


def test_the_index_names_every_page() -> None:
    """Pages of a folder are named by the page of its name."""
    docs = ROOT / "docs"
    for page in PAGES:
        if page.is_relative_to(docs) and page.parent != docs:
            overview = page.parent.with_suffix(".md")
            index = overview if overview in PAGES else docs / "README.md"
            assert f"({page.relative_to(index.parent).as_posix()})" in PAGES[index], page


def test_readme_is_read_in_two_minutes() -> None:
    assert len(README.splitlines()) <= 120


def test_the_policy_it_shows_is_one(tmp_path: Path) -> None:
    block = re.search(r"```yaml\n(.*?)```", README, re.DOTALL)
    assert block
    for name in ("specs", "generated"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "toolgen.yaml").write_text((ROOT / "toolgen.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "policies").mkdir()
    keys = iter("0123456789")
    policy = re.sub("sha256:…", lambda _: "sha256:" + next(keys) * 64, block[1])
    (tmp_path / "policies" / "readme.yaml").write_text(policy, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "toolgen", "policy", "check"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "advice:" not in done.stderr


def test_the_map_is_one_page() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split()) <= 900


@pytest.mark.parametrize("page", [ROOT / "ARCHITECTURE.md", *PAGES], ids=lambda page: page.name)
def test_the_modules_a_page_names_are_there(page: Path) -> None:
    """As paths, or by the end of one where the sentence says which folder it is in; so are the folders of the map."""
    files = [path for folder in ("toolgen", "tests", "bench", "examples") for path in (ROOT / folder).rglob("*.py")]
    text = page.read_text(encoding="utf-8")
    for named in re.findall(r"`([a-z_0-9/]+\.py)`", text):
        assert named.endswith("/x.py") or any(path.as_posix().endswith(f"/{named}") for path in files), named
    for named in re.findall(r"`([a-z_0-9/]+/)`", text) if page.name == "ARCHITECTURE.md" else ():
        assert any((ROOT / root / named).is_dir() for root in (".", "toolgen")) or named == "build/", named


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.relative_to(ROOT).parts[1:2] and page.relative_to(ROOT).parts[1] in KINDS],
    ids=lambda page: page.name,
)
def test_every_page_has_an_example_that_is_run(page: Path) -> None:
    # tests/pages/test_recipes.py runs the blocks of the recipes, and `make frameworks` the example files.
    blocks = r"^```console$" if page.name == "recipes.md" else r"^(```sh$|<!-- example: )"
    assert re.search(blocks, PAGES[page], re.MULTILINE), "add a block of ```sh: all of them are run"
