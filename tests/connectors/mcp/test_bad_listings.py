"""A server whose list of tools cannot be had costs a build its own tools; the other sources are pinned and served."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run
from tests.services.bridged import ROOT, call, manifest, write_project
from toolgen.connectors.pins import LOCK

pytestmark = pytest.mark.usefixtures("in_tmp_path")

SHORT = {"connect": "1s", "first_byte": "3s", "total": "3s"}


def unruly(folder: Path, listing: str) -> list[str]:
    """The command of a server that lists its tools so."""
    folder.mkdir()
    say(folder, listing)
    return [sys.executable, "-B", str(ROOT / "tests" / "services" / "mcp_unruly.py"), str(folder / "state.json")]


def say(folder: Path, listing: str) -> None:
    (folder / "state.json").write_text(json.dumps({"listing": listing}), encoding="utf-8")


def project(root: Path, listing: str) -> Path:
    path = write_project(root, mcp={"command": unruly(root / "good", "whole")})
    told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    told["sources"]["bad"] = {"mcp": {"command": unruly(root / "bad", listing)}, "timeouts": SHORT}
    path.write_text(json.dumps(told), encoding="utf-8")
    return path


def pinned(root: Path) -> set[str]:
    return set(json.loads((root / LOCK).read_text(encoding="utf-8"))["descriptions"])


@pytest.mark.parametrize(
    ("listing", "says"),
    [
        ("unreadable", "not MCP"),
        ("broken", "no list today"),
        ("hang", "its list of tools did not come in time: the limit for both is 3 seconds"),
        (
            "no handshake",
            "its answer to the handshake (`initialize`) did not come in time: the limit for both is 3 seconds",
        ),
    ],
)
async def test_a_list_that_cannot_be_had_costs_its_own_source_alone(
    listing: str, says: str, tmp_path: Path, toolgen: Run
) -> None:
    path = project(tmp_path, listing)
    done = toolgen("build")
    assert done.code == 1
    assert "sources.bad.mcp" in done.err
    assert says in done.err
    assert pinned(tmp_path) == {"far"}
    assert {tool["source"] for tool in manifest(tmp_path)["tools"].values()} == {"far"}
    assert (await call(path, "fine")).status == "ok"
    say(tmp_path / "bad", "whole")
    assert toolgen("build").code == 0
    assert pinned(tmp_path) == {"bad", "far"}
    assert {tool["source"] for tool in manifest(tmp_path)["tools"].values()} == {"bad", "far"}


def test_a_pinned_server_whose_list_cannot_be_had_is_built_from_its_pin(tmp_path: Path, toolgen: Run) -> None:
    project(tmp_path, "whole")
    assert toolgen("build").code == 0
    say(tmp_path / "bad", "broken")
    done = toolgen("build")
    assert done.code == 0
    assert "pinned copy" in done.err
    assert {tool["source"] for tool in manifest(tmp_path)["tools"].values()} == {"bad", "far"}
