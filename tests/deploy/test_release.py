"""Release: the workflow that builds, tests, signs and publishes, the pinned packages of the image, and what a version stands in."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

import toolgen
from tests.deploy.test_deployment import ROOT, instructions, ran, tool

WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
IMAGE_EXTRAS = ("cel", "redis", "postgres", "mysql", "sign-in")


def workflow() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    return found


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return found["project"]


def locked(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)==([^ ;\\]+)", path.read_text(encoding="utf-8"), re.MULTILINE))


def test_the_workflow_is_one() -> None:
    ran(tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", str(WORKFLOW))


def test_nothing_is_published_before_it_was_tested_and_signed() -> None:
    jobs = workflow()["jobs"]
    before: dict[str, set[str]] = {}
    for name, job in jobs.items():
        needs = job.get("needs", [])
        direct = {needs} if isinstance(needs, str) else set(needs)
        before[name] = direct.union(*(before[one] for one in direct))
    assert before["publish"] == {"build", "test", "musl", "sign"}
    assert {"ubuntu", "macos", "windows"} <= {one.partition("-")[0] for one in jobs["test"]["strategy"]["matrix"]["os"]}
    assert jobs["test"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]


def test_no_job_may_do_more_than_it_needs_and_no_secret_is_kept() -> None:
    found = workflow()
    assert found["permissions"] == {}
    may = {name: job["permissions"] for name, job in found["jobs"].items()}
    assert {name for name, one in may.items() if one.get("id-token") == "write"} == {"sign", "publish"}
    assert {name for name, one in may.items() if one.get("contents") == "write"} == {"announce"}
    assert found["jobs"]["publish"]["environment"] == "release"
    assert "secrets." not in WORKFLOW.read_text(encoding="utf-8")


def test_what_the_workflow_runs_is_pinned_by_hashes() -> None:
    installs = [line.strip() for line in WORKFLOW.read_text(encoding="utf-8").splitlines() if "pip install" in line]
    allowed = ("--require-hashes", "--no-index", "--only-binary :all: dist/*.whl")
    assert installs
    assert all(any(option in line for option in allowed) for line in installs), installs
    tools = locked(ROOT / "requirements-dev.lock")
    assert {"build", "cyclonedx-bom", "hatchling"} <= set(tools)


def test_the_image_installs_what_is_pinned_and_compiles_nothing() -> None:
    installs = [
        part for name, text in instructions() if name == "RUN" for part in text.split("&&") if "pip install" in part
    ]
    assert installs
    assert all(
        "--no-index" in part or ("--require-hashes" in part and "--only-binary :all:" in part) for part in installs
    ), installs
    pins, tested = locked(ROOT / "deploy" / "requirements.lock"), locked(ROOT / "requirements-dev.lock")
    assert pins.items() <= tested.items()
    asked = [
        *project()["dependencies"],
        *(one for extra in IMAGE_EXTRAS for one in project()["optional-dependencies"][extra]),
    ]
    names = {re.split(r"[\[<>=;]", one)[0].strip().lower() for one in asked} - {"toolgen"}
    assert names <= set(pins)
    text = (ROOT / "deploy" / "requirements.lock").read_text(encoding="utf-8")
    assert all("--hash=sha256:" in text.partition(f"\n{name}==")[2][:400] for name in list(pins)[1:])


def test_a_version_is_the_same_wherever_it_stands() -> None:
    assert project()["version"] == toolgen.__version__
    for path in (
        "deploy/Containerfile",
        "deploy/compose/compose.yaml",
        "deploy/kubernetes/kustomization.yaml",
        "docs/how-to/deploy.md",
    ):
        text = (ROOT / path).read_text(encoding="utf-8")
        found = set(re.findall(r"(?:toolgen:|newTag: )(\d[\w.]*)", text))
        assert found == {toolgen.__version__}, path


def test_the_changelog_says_what_breaks_first_and_is_short() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (section,) = re.findall(
        rf"^## {re.escape(toolgen.__version__)} - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    assert len(section.splitlines()) <= 150
    assert re.findall(r"^### (.*)$", section, re.MULTILINE)[0] == "Breaking changes"


def test_the_page_on_upgrades_names_the_version() -> None:
    assert f"| {toolgen.__version__} |" in (ROOT / "docs" / "how-to" / "upgrade.md").read_text(encoding="utf-8")
