"""A wheel as a user has it: what it carries, and what a type checker knows of it."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling")
pytest.importorskip("mypy")

ROOT = Path(__file__).parent.parent
PROGRAM = '''
import asyncio
from typing import Literal

import toolgen

@toolgen.tool(effect="read")
async def convert(amount: float, to: Literal["EUR", "USD"], ctx: toolgen.ToolContext) -> dict[str, float]:
    """Converts an amount."""
    if amount < 0:
        raise toolgen.ToolError("amount is negative", suggestion="give a positive one")
    return {to: amount}

async def main() -> str:
    async with toolgen.Gateway.load("toolgen.yaml") as gateway:
        result = await gateway.call("shop__query", {"sql": "select 1"}, principal="bot")
    return result.status

manifest = toolgen.build("petstore.yaml")
hits = toolgen.ToolIndex(manifest).search("a pet by its id", limit=3)
sent = toolgen.preview(manifest, hits[0].id, {"petId": 1})
print(sent, asyncio.run(main()), manifest.tools["petstore__get_pet_by_id"].input_schema, toolgen.__version__)
'''
REVEALED = """
reveal_type(toolgen.build("petstore.yaml"))
reveal_type(convert)
reveal_type(hits)
reveal_type(toolgen.Gateway.load("toolgen.yaml"))
toolgen.Gatewai
"""

REVEALS = [  # without the modules
    "Manifest",
    "def (amount: float, to: Literal['EUR'] | Literal['USD'], ctx: ToolContext) -> Coroutine[Any, Any, dict[str, float]]",
    "list[Hit]",
    "Gateway",
]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has the wheel, and everything else from the one the tests run in."""
    folder = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    venv.create(folder / "venv", with_pip=False)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wheel.extractall(packages)  # all that installing a wheel of Python files is
    # Its own .pth files are not read, so that the checkout stays out.
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "venv" / "bin" / "python"


def test_a_wheel_has_its_types_and_pages(installed: Path) -> None:
    (package,) = installed.parent.parent.glob("lib/python*/site-packages/toolgen")
    there = {path.relative_to(ROOT) for path in (ROOT / "toolgen").rglob("*") if path.is_file()}
    missing = {path for path in there if path.suffix != ".pyc" and not (package.parent / path).is_file()}
    assert missing == set()
    assert (package / "py.typed").is_file()


def test_the_demo_runs_from_a_wheel_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(installed), "-m", "toolgen", "demo"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "entries, intact" in done.stdout


def test_mypy_strict_passes_a_program_that_uses_the_wheel(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "revealed.py").write_text(PROGRAM + REVEALED)
    options = ("--strict", "--python-executable", str(installed), "--cache-dir", "cache", "--config-file", "")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "program.py", "revealed.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "program.py" not in done.stdout, done.stdout
    revealed = re.findall(r'note: Revealed type is "(.*)"', done.stdout)
    assert [re.sub(r"\b(?:\w+\.)+", "", kind) for kind in revealed] == REVEALS
    assert re.findall(r"error: (.*)", done.stdout) == [
        'Module has no attribute "Gatewai"; maybe "Gateway"?  [attr-defined]'
    ]
