"""`toolgen diff`: files, folders and git revisions, words and JSON, and exit codes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.cli.commands import Run
from tests.messages import line_names
from tests.projects import make_project
from toolgen.cli.diff import print_difference
from toolgen.generator.emit.diff import BindingChange, ManifestDiff, ToolDifference, compare
from toolgen.model.manifest import Manifest, load
from toolgen.model.tool import Effect


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
    assert line_names(compatible.out, "compatible  pets__get_pet: ", "title", "“Fetch a pet”", "“Get a pet”")
    assert compatible.out.splitlines()[-1] == "0 breaking, 2 compatible"
    rebuild(toolgen, '"integer"', '"string"')
    breaking = toolgen("diff", "old", "generated")
    assert breaking.code == 1
    assert (
        "breaking    2 tools: argument `petId` is now string (before: integer) (pets__delete_pet, pets__get_pet)\n"
        in breaking.out
    )
    form = toolgen("diff", "old", "generated", "--json")
    assert (form.code, form.json()["breaking"], form.json()["compatible"]) == (1, 2, 2)


def changed(tools: int, old: Manifest, *, words: str) -> Manifest:
    """A manifest with so many tools, whose titles and input changed."""
    (tool,) = list(old.tools.values())[:1]
    made = {
        f"pets__t{number:03}": replace(tool, name=f"pets__t{number:03}", digest=words, title=words, effect=Effect.READ)
        for number in range(tools)
    }
    return replace(old, tools=made)


def test_equal_changes_are_one_line_and_at_most_forty_lines_are_shown(
    project: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    manifest = load(Path("old/manifest.json").read_bytes(), where="old")
    print_difference(compare(changed(54, manifest, words="a"), changed(54, manifest, words="b")))
    first, counts = capfdbinary.readouterr().out.decode().splitlines()
    assert first.startswith("compatible  54 tools: ")
    assert line_names(first, "title", "“b”", "“a”", " (pets__t000, pets__t001, pets__t002 and 51 more)")
    assert counts == "0 breaking, 54 compatible"
    before, after = changed(54, manifest, words="a"), changed(54, manifest, words="b")
    different = {name: replace(tool, title=f"{name} anew") for name, tool in after.tools.items()}
    different["pets__t050"] = replace(different["pets__t050"], effect=Effect.DESTRUCTIVE)
    difference = compare(before, replace(after, tools=different))
    print_difference(difference)
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert line_names(lines[0], "breaking    pets__t050: ", "effect")
    assert (len(lines), lines[-2].split("; ")[0]) == (40, "… and 17 lines more")
    print_difference(difference, whole=True)
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert (len(lines), lines[0].split(":")[0]) == (56, "breaking    pets__t050")


def test_the_same_property_in_several_places_is_one_change(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    def change(path: str) -> BindingChange:
        return BindingChange(level="breaking", code="output.type", message=f"type `{path}`")

    tools = tuple(
        ToolDifference(name=name, status="changed", changes=(change(path),))
        for name, path in (("a", "owner.type"), ("b", "[].owner.type"), ("c", "type"), ("d", "a.other"))
    )
    print_difference(ManifestDiff(sources={}, tools=tools))
    assert capfdbinary.readouterr().out.decode().splitlines() == [
        "breaking    2 tools: type `…type` (a, b)",
        "breaking    c: type `type`",
        "breaking    d: type `a.other`",
        "4 breaking, 0 compatible",
    ]


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
        (
            "HEAD:nowhere",
            "HEAD:nowhere: is not a manifest in git (if generated/ is not under version control, copy it before `toolgen build`, "
            "or use `git diff toolgen.lock`)",
        ),
        ("--output=x:generated", "--output=x:generated: is not a manifest in git"),
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
    assert line_names(ended.err, "manifest.json", "changed after")


def test_misuse_exits_2(project: Path, toolgen: Run) -> None:
    assert toolgen("diff", "old").code == 2
