"""A wheel as a user has it, and the one of the sdist: what it carries, the first ten minutes with it, what a type checker knows of it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from tests.gateway.governed import API, upstream

pytest.importorskip("build")
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


def built(tree: Path, kind: str, folder: Path) -> Path:
    """The package that `python -m build` makes of a tree, without a network."""
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", str(folder)],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of the checkout, and the one that an installer makes of the sdist."""
    folder = tmp_path_factory.mktemp("built")
    with tarfile.open(built(ROOT, "sdist", folder / "sdist")) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (tree,) = (folder / "unpacked").iterdir()
    return {"wheel": built(ROOT, "wheel", folder / "wheel"), "sdist": built(tree, "wheel", folder / "of the sdist")}


def environment(installed: Path, **variables: str) -> dict[str, str]:
    """As a shell of a user has it in which that environment is active, without what the tests' own has of toolgen."""
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "TOOLGEN_CONFIG"}}
    return {**kept, "PATH": f"{installed.parent}{os.pathsep}{kept['PATH']}", **variables}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheels: dict[str, Path]) -> Path:
    """The interpreter of an environment that has the wheel, and everything else from the one the tests run in."""
    folder = tmp_path_factory.mktemp("wheel")
    venv.create(folder / "venv", with_pip=False)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(wheels["wheel"]) as wheel:
        wheel.extractall(packages)  # all that installing a wheel of Python files is
    # Its own .pth files are not read, so that the checkout stays out.
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    python = folder / "venv" / "bin" / "python"
    script = python.with_name("toolgen")  # as an installer writes it
    script.write_text(f"#!{python}\nimport sys\nfrom toolgen.cli import main\nsys.exit(main())\n")
    script.chmod(0o755)
    return python


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


def test_a_wheel_of_the_sdist_is_the_wheel(wheels: dict[str, Path]) -> None:
    def content(path: Path) -> dict[str, bytes]:
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    assert content(wheels["sdist"]) == content(wheels["wheel"])


def test_the_metadata_says_which_pythons_it_is_for(wheels: dict[str, Path]) -> None:
    with zipfile.ZipFile(wheels["wheel"]) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        told = archive.read(name).decode("utf-8")
    assert "Requires-Python: >=3.11\n" in told
    versions = re.findall(r"^Classifier: Programming Language :: Python :: (3\.\d+)$", told, re.MULTILINE)
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" in versions
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]
    assert ruff["target-version"] == "py" + versions[0].replace(".", "")


@pytest.mark.exhaustive
def test_the_tutorial_works_from_a_wheel_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "tutorials" / "first-tool.md").read_text(encoding="utf-8")
    commands = "\n".join(re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    done = subprocess.run(
        ["bash", "-euc", commands],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=environment(installed),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "refused: no such table" in done.stdout
    assert "refused: only reads" in done.stdout
    assert "intact" in done.stdout
    assert str(ROOT) not in done.stdout + done.stderr


def test_two_commands_lead_to_a_governed_call_of_a_real_client(installed: Path, tmp_path: Path) -> None:
    """`init` and `install`; the client starts the rest by itself, as its settings say."""
    client, stdio = pytest.importorskip("mcp.client.session"), pytest.importorskip("mcp.client.stdio")
    (tmp_path / "orders.json").write_text(json.dumps(API), encoding="utf-8")
    settings = tmp_path / "client" / "mcp.json"
    settings.parent.mkdir()
    with upstream() as (seen, server):
        for command in (
            ("init", "orders.json", "--server", server),
            ("install", "mcp-json", "--file", str(settings)),
        ):
            done = subprocess.run(
                [str(installed.with_name("toolgen")), *command],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
                env=environment(installed),
            )
            assert done.returncode == 0, done.stdout + done.stderr

        async def call() -> object:
            (written,) = json.loads(settings.read_text(encoding="utf-8"))["mcpServers"].values()
            started = stdio.StdioServerParameters(
                command=written["command"], args=written["args"], env=environment(installed), cwd=tmp_path.parent
            )
            async with (
                asyncio.timeout(300),
                stdio.stdio_client(started) as (receiving, sending),
                client.ClientSession(receiving, sending) as session,
            ):
                await session.initialize()
                names = [tool.name for tool in (await session.list_tools()).tools]
                assert "orders__get_health" in names
                assert "orders__delete_order" not in names
                return await session.call_tool("orders__get_health", {})

        answer = asyncio.run(call())
        assert not getattr(answer, "is_error", getattr(answer, "isError", None)), answer
        assert [request[1] for request in seen.requests] == ["/health"]
    done = subprocess.run(
        [str(installed.with_name("toolgen")), "audit", "list", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=environment(installed),
    )
    assert "orders__get_health" in done.stdout


@pytest.mark.exhaustive
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
