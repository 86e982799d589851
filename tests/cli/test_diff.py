"""`toolgen diff`: files, folders and git revisions, words and JSON, and exit codes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import Run, runner
from tests.projects import make_project


@pytest.fixture(name="toolgen")
def _toolgen(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    return runner(capfdbinary)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolgen: Run) -> Path:
    """A built project whose generated/ is in old/ as well."""
    root = tmp_path / "project"
    make_project(root)
    monkeypatch.chdir(root)
    assert toolgen("build").code == 0
    shutil.copytree("generated", "old")
    return root


def rebuild(toolgen: Run, old: str, new: str) -> None:
    path = Path("specs/pets.json")
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    assert toolgen("build", "--rename").code == 0


def test_nothing_changed_is_said_and_exits_0(project: Path, toolgen: Run) -> None:
    same = toolgen("diff", "old", "generated/manifest.json")
    assert (same.code, same.out, same.err) == (0, "no tool changed\n", "")


def test_a_compatible_change_exits_0_and_a_breaking_one_1(project: Path, toolgen: Run) -> None:
    rebuild(toolgen, "Get a pet", "Fetch a pet")
    compatible = toolgen("diff", "old", "generated")
    assert compatible.code == 0
    assert "compatible  pets__get_pet: its title is now “Fetch a pet” (before: “Get a pet”)\n" in compatible.out
    assert compatible.out.splitlines()[-1] == "0 breaking, 2 compatible"
    rebuild(toolgen, '"integer"', '"string"')
    breaking = toolgen("diff", "old", "generated")
    assert breaking.code == 1
    assert "breaking    pets__get_pet: argument `petId` is now string (before: integer)\n" in breaking.out
    form = toolgen("diff", "old", "generated", "--json")
    assert (form.code, form.json()["breaking"], form.json()["compatible"]) == (1, 2, 2)


def test_a_revision_of_git_is_a_manifest_too(project: Path, toolgen: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"]
    for arguments in (["init", "-q"], ["add", "generated"], ["commit", "-q", "-m", "built"]):
        subprocess.run([*git, *arguments], check=True)
    rebuild(toolgen, "deletePet", "removePet")
    for old in ("HEAD:generated", "HEAD:generated/", "HEAD:generated/manifest.json"):
        found = toolgen("diff", old, "generated")
        assert found.code == 1
        assert "breaking    pets__remove_pet: was called pets__delete_pet" in found.out
    monkeypatch.chdir("specs")
    assert toolgen("diff", "HEAD:../generated", "../old").code == 0


@pytest.mark.parametrize(
    ("old", "message"),
    [
        ("none", "none: there is no such file (name a manifest.json, a generated/ folder or REVISION:generated)"),
        ("specs", "specs/manifest.json: there is no such file"),
        ("specs/pets.json", "specs/pets.json: is not a manifest"),
        ("HEAD:nowhere", "HEAD:nowhere: is no manifest that git knows"),
        ("--output=x:generated", "--output=x:generated: is no manifest that git knows"),
    ],
)
def test_what_is_no_manifest_is_one_sentence(project: Path, toolgen: Run, old: str, message: str) -> None:
    ended = toolgen("diff", "--", old, "generated")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"toolgen: {message}")
    assert not Path("x:generated").exists()


def test_an_edited_manifest_is_not_compared(project: Path, toolgen: Run) -> None:
    path = Path("old/manifest.json")
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["tools"][0]["effect"] = "read"
    path.write_text(json.dumps(manifest), encoding="utf-8")
    ended = toolgen("diff", "old", "generated")
    assert ended.code == 1
    assert "was changed after the build" in ended.err


def test_misuse_exits_2(project: Path, toolgen: Run) -> None:
    assert toolgen("diff", "old").code == 2
