"""Prompts and resources of files: front matter, folders, and attacks on their paths."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import toolgen
from tests.messages import line_names
from toolgen.cli.main import cli
from toolgen.core.errors import ConfigError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.context_policy import Reader

PROMPT = """---
title: Answer a ticket
description: For the support team.
arguments:
  ticket: {description: Its number.}
  tone: {required: false, values: [short, kind]}
---
Answer {{ticket}}. Be {{ tone }}.
"""
POLICY = """
principals: {bot: {roles: [bot]}}
rules:
  - {id: some, to: [bot], prompts: ["*"], resources: ["resource://handbook/guide/*", "resource://handbook/logo*"], verdict: allow}
"""


@pytest.fixture(name="project")
def _project(tmp_path: Path) -> Path:
    for folder in ("prompts", "policies", "handbook/guide", "handbook/.hidden"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "prompts" / "answer-ticket.md").write_text(PROMPT, encoding="utf-8")
    (tmp_path / "policies" / "policy.yaml").write_text(POLICY, encoding="utf-8")
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    (tmp_path / "handbook" / "guide" / "a b.md").write_text("# Guide", encoding="utf-8")
    (tmp_path / "handbook" / "guide" / "second.md").write_text("second", encoding="utf-8")
    (tmp_path / "handbook" / "salaries.txt").write_text("salaries", encoding="utf-8")
    (tmp_path / "handbook" / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00")
    (tmp_path / "handbook" / ".hidden" / "x.md").write_text("hidden", encoding="utf-8")
    (tmp_path / "handbook" / "guide" / "link.md").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "handbook" / "guide" / "folder").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "handbook" / "guide" / "pipe.md")
    settings = {
        "sources": {"handbook": {"context": {"prompts": "prompts/*.md", "resources": "handbook"}}},
        "audit": {"dir": "audit"},
        "policies": "policies/",
    }
    path = tmp_path / "toolgen.yaml"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


async def test_prompts_and_resources_of_files_are_served(project: Path) -> None:
    async with Gateway.load(project) as gateway:
        bot = Reader(principal=gateway.principal("bot"))
        assert list(gateway.manifest.resources) == [
            "resource://handbook/guide/a%20b.md",
            "resource://handbook/guide/second.md",
            "resource://handbook/logo.png",
            "resource://handbook/salaries.txt",
        ]
        found: Any = await gateway.context.get("handbook__answer-ticket", {"ticket": "{{tone}}", "tone": "short"}, bot)
        assert found.messages == ({"role": "user", "content": "Answer {{tone}}. Be short."},)
        for arguments in ({}, {"ticket": "1", "tone": "rude"}, {"ticket": "1", "more": "x"}):
            refused: Any = await gateway.context.get("handbook__answer-ticket", arguments, bot)
            assert refused.code == "validation"
        (guide,) = await gateway.context.read("resource://handbook/guide/a%20b.md", bot)  # type: ignore[misc]
        assert (guide.text, guide.media_type) == ("# Guide", "text/markdown")
        (logo,) = await gateway.context.read("resource://handbook/logo.png", bot)  # type: ignore[misc]
        assert (logo.text, logo.media_type) == (None, "image/png")
        assert gateway.manifest.resources["resource://handbook/logo.png"].media_type == "image/png"


async def test_bytes_of_a_file_whose_name_has_no_type_are_not_called_text(project: Path) -> None:
    (project.parent / "handbook" / "guide" / "table.unknown").write_bytes(b"\x00\x01\xff")
    async with Gateway.load(project) as gateway:
        bot = Reader(principal=gateway.principal("bot"))
        (table,) = await gateway.context.read("resource://handbook/guide/table.unknown", bot)  # type: ignore[misc]
        assert (table.text, table.media_type) == (None, "application/octet-stream")


ATTACKS = (
    *("../secret.txt", "guide/../../secret.txt", "guide/%2e%2e/%2e%2e/secret.txt", "guide/..%2f..%2fsecret.txt"),
    *(
        "guide/..\\..\\secret.txt",
        "guide/..%5c..%5csecret.txt",
        "guide/link.md",
        "guide/folder/secret.txt",
        "guide/pipe.md",
    ),
    *(
        "guide/a%20b.md%00.txt",
        "guide//second.md",
        "guide/./second.md",
        "guide/second.md/",
        "guide/second.md?x",
        ".hidden/x.md",
    ),
    *("%2Fetc%2Fpasswd", "/etc/passwd", "salaries.txt", "guide/%252e%252e/salaries.txt", "GUIDE/second.md"),
)


@pytest.mark.parametrize("path", ATTACKS)
async def test_no_uri_leads_out_of_the_folder(path: str, project: Path) -> None:
    async with Gateway.load(project) as gateway:
        bot = Reader(principal=gateway.principal("bot"))
        found: Any = await gateway.context.read(f"resource://handbook/{path}", bot)
        assert found.code == "not_found"
        assert path not in found.message


@pytest.mark.parametrize("swapped", ["file", "folder"])
async def test_a_file_that_became_a_link_since_is_not_read(swapped: str, project: Path) -> None:
    root = project.parent
    async with Gateway.load(project) as gateway:
        bot = Reader(principal=gateway.principal("bot"))
        if swapped == "file":
            (root / "handbook" / "guide" / "second.md").unlink()
            (root / "handbook" / "guide" / "second.md").symlink_to(root / "secret.txt")
        else:
            (root / "handbook" / "guide").rename(root / "elsewhere")
            (root / "handbook" / "guide").symlink_to(root / "elsewhere")
        found: Any = await gateway.context.read("resource://handbook/guide/second.md", bot)
        assert found.code == "upstream_error"
        assert "secret" not in str(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Answer {{ticket}}.", "not under arguments"),
        ("---\narguments: {a: {}}\nmore: 1\n---\nx", "more"),
        ("---\narguments: {'a b': {}}\n---\nx", "no name of an argument"),
        ("---\ntitle: [\n---\nx", "answer-ticket.md"),
    ],
)
def test_a_prompt_file_that_is_wrong_is_a_problem(text: str, message: str, project: Path) -> None:
    (project.parent / "prompts" / "answer-ticket.md").write_text(text, encoding="utf-8")
    sources = {"handbook": {"context": {"prompts": "prompts/*.md"}}}
    made = toolgen.build(sources, root=project.parent)
    (problem,) = made.problems
    assert problem.code == "bad_prompt"
    assert message in problem.message


@pytest.mark.parametrize("given", [{}, {"prompts": "../*.md"}, {"resources": "/etc"}, {"resources": "a/../../b"}])
def test_places_outside_of_the_project_are_refused(given: dict[str, str], project: Path) -> None:
    with pytest.raises(ConfigError, match=r"prompts|resources"):
        toolgen.build({"handbook": {"context": given}}, root=project.parent)


def test_a_build_tells_how_many_prompts_and_resources_a_source_has(project: Path) -> None:
    done = CliRunner().invoke(cli, ["build", "--config", str(project)])
    assert done.exit_code == 0, done.output
    assert line_names(done.output, "handbook ", " 5 prompts")
