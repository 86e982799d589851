"""Folders that an MCP client over stdio opens: files in them may be named by their paths, and no others."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import uuid
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, types

from toolgen.cli import main as command_line
from toolgen.core.files import open_inside

FUNCTION = """
import hashlib
from toolgen import tool

@tool(effect="write")
def keep(data: bytes) -> str:
    '''Keeps bytes.'''
    return hashlib.sha256(data).hexdigest()
"""
POLICY: dict[str, Any] = {
    "principals": {"bot": {"api_key": "sha256:" + "1" * 64, "roles": ["all"]}},
    "rules": [{"id": "all", "to": ["all"], "tools": ["*"], "effects": ["read", "write"], "verdict": "allow"}],
}
BODY = b"what the file holds"


def write_project(root: Path) -> None:
    module = f"roots_{uuid.uuid4().hex}"
    (root / f"{module}.py").write_text(FUNCTION, encoding="utf-8")
    (root / "policies").mkdir()
    (root / "policies" / "p.yaml").write_text(json.dumps(POLICY), encoding="utf-8")
    path = root / "toolgen.yaml"
    path.write_text(json.dumps({"sources": {"own": {"python": module}}}), encoding="utf-8")
    with suppress(SystemExit):
        command_line(["build", "--config", str(path)])


async def keep(root: Path, paths: list[str], folders: list[str] | None) -> list[str]:
    """What the tool says for each path, with a client that lists these folders; None for one that lists none."""

    async def listed(_context: Any) -> types.ListRootsResult:
        return types.ListRootsResult.model_validate({"roots": [{"uri": one} for one in folders or ()]})

    server = StdioServerParameters(
        command=sys.executable, args=["-m", "toolgen", "serve", "--stdio", "--as", "bot"], cwd=root
    )
    callback = None if folders is None else listed
    async with asyncio.timeout(60), Client(server, mode="legacy", list_roots_callback=callback) as client:
        results = [await client.call_tool("own__keep", {"data": {"path": path}}) for path in paths]
    return [block.text for result in results for block in result.content[:1] if isinstance(block, types.TextContent)]


async def test_a_client_opens_its_folders_and_no_others(tmp_path: Path) -> None:
    write_project(tmp_path)
    opened, closed = tmp_path / "the opened", tmp_path / "closed"
    for folder in (opened, closed):
        folder.mkdir()
        (folder / "a.txt").write_bytes(BODY)
    (opened / "link.txt").symlink_to(closed / "a.txt")
    paths = [str(opened / "a.txt"), "a.txt", str(closed / "a.txt"), str(opened / "link.txt"), "../closed/a.txt"]
    uris = [opened.as_uri(), "file://elsewhere/tmp"]
    found = await keep(tmp_path, paths, uris)
    digest = sha256(BODY).hexdigest()
    assert found[:2] == [digest, digest]
    assert all(one.startswith("validation: ") for one in found[2:]), found
    for none in (None, [], ["file://elsewhere" + str(opened)]):
        (refused,) = await keep(tmp_path, paths[:1], none)
        assert refused.startswith("validation: "), refused


def test_no_step_below_a_folder_is_a_link(tmp_path: Path) -> None:
    """As where somebody puts a link in the place of a folder or a file after the path was looked at."""
    inner, outer = tmp_path / "root" / "inner", tmp_path / "outer"
    inner.mkdir(parents=True)
    outer.mkdir()
    for folder in (inner, outer):
        (folder / "a.txt").write_bytes(BODY)
    root = tmp_path / "root"
    with open_inside(root, Path("inner/a.txt")) as (descriptor, size):
        assert os.read(descriptor, 100) == BODY
        assert size == len(BODY)
    (root / "folder").symlink_to(outer)
    (inner / "file").symlink_to(outer / "a.txt")
    os.mkfifo(inner / "pipe")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("folder/a.txt", "inner/file", "inner/none", "inner", "inner/pipe", "none/a.txt"):
        with pytest.raises(OSError), open_inside(root, Path(path)):  # noqa: PT011 - whatever the system calls it
            pass
    assert len(os.listdir("/proc/self/fd")) == before
