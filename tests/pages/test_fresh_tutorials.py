"""Tutorials in fresh environments, with exactly the commands of their pages: `make tutorials`.

Each `pip install` of a page makes an environment, with the wheel of this folder in place of the published one. Commands of the page find
programs of that environment alone. A model is scripted where a page names a real one, and clients are played by MCP's SDK.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.faults.processes import free_port
from tests.pages.test_tutorials import CLIENT_PAGES, HIDDEN, READS, ROOT, TUTORIALS, held, page, program, up
from toolgen.cli.clients import CLIENTS

pytestmark = pytest.mark.exhaustive
IN_PROCESS = ("langgraph", "openai-agents", "pydantic-ai")
OVER_MCP = ("google-adk", "llamaindex")
PROGRAMS = ("django", "fastapi")
KERNEL = """
import ast, asyncio, inspect, json, sys

async def main():
    names = {}
    for cell in json.load(open(sys.argv[1])):
        *before, last = ast.parse(cell).body
        if isinstance(last, ast.Expr):
            last = ast.Expr(ast.Call(ast.Name("print", ast.Load()), [last.value], []))
        module = ast.fix_missing_locations(ast.Module([*before, last], []))
        found = eval(compile(module, "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if inspect.isawaitable(found):
            await found

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


class Fresh:
    """Environments of a page, and commands in them."""

    def __init__(self, name: str, wheel: Path, folder: Path) -> None:
        self.text = page(name)
        self.folder, self.wheel = folder, wheel
        self.bins = [
            self._made(folder / f"env{at}", words)
            for at, words in enumerate(re.findall(r"^\$ pip install (.+)$", self.text, re.MULTILINE))
        ]

    def _made(self, place: Path, words: str) -> Path:
        wanted = [
            re.sub(r"^toolgen(\[.*\])?$", rf"toolgen\1 @ {self.wheel.as_uri()}", word) for word in shlex.split(words)
        ]
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        pip = [place / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return place / "bin"

    def variables(self, at: int = 0) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
        path = f"{self.bins[at]}:/usr/local/bin:/usr/bin:/bin"
        return {**kept, "PATH": path, "HOME": str(self.folder), "NO_PROXY": "*", "OPENAI_AGENTS_DISABLE_TRACING": "1"}

    def run(self, command: str, folder: Path, at: int = 0, **more: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=folder, env={**self.variables(at), **more}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def typed(self) -> Path:
        """Run what the page says to type in an empty folder; return the folder that it made."""
        place = self.folder / "home"
        place.mkdir()
        self.run("\n".join(re.findall(r"```sh\n(.*?)```", self.text, re.DOTALL)), place)
        (made,) = place.iterdir()
        return made

    def reviewed(self, folder: Path) -> None:
        """Run the page's commands for the record."""
        commands = re.findall(r"^\$ (toolgen audit [^#\n]+)", self.text, re.MULTILINE)
        assert commands
        for command in commands:
            assert self.run(command, folder)


@pytest.fixture
def fresh(request: pytest.FixtureRequest, wheel: Path, tmp_path: Path) -> Fresh:
    return Fresh(request.param, wheel, tmp_path)


def test_every_tutorial_says_what_to_install_and_is_tried() -> None:
    tried = {"first-tool", "notebook", *CLIENT_PAGES, *IN_PROCESS, *OVER_MCP, *PROGRAMS}
    assert tried == {path.stem for path in TUTORIALS.glob("*.md")}
    assert [name for name in tried if "\n$ pip install " not in page(name)] == []


@pytest.mark.parametrize("fresh", ["first-tool"], indirect=True)
def test_the_first_tool(fresh: Fresh) -> None:
    assert fresh.typed().name == "notes-project"


@pytest.mark.parametrize(("name", "fresh"), [(name, name) for name in CLIENT_PAGES], indirect=["fresh"])
async def test_a_client(name: str, fresh: Fresh) -> None:
    folder = fresh.typed()
    client, file = CLIENT_PAGES[name]
    entry: dict[str, Any] = json.loads((folder / file).read_text(encoding="utf-8"))[CLIENTS[client].section]["toolgen"]
    parameters = StdioServerParameters(
        command=entry["command"], args=entry["args"], cwd=folder, env={"HOME": str(fresh.folder)}
    )

    async with Client(stdio_client(parameters)) as found:
        answers = [await found.call_tool("notes__query", {"sql": sql}) for sql in (READS, HIDDEN)]
        result = "\n".join(str(answer.content) for answer in answers)
    held(folder, result)
    fresh.reviewed(folder)


@pytest.mark.parametrize(("name", "fresh"), [(name, name) for name in IN_PROCESS], indirect=["fresh"])
def test_an_agent_with_the_gateway_in_its_process(name: str, fresh: Fresh) -> None:
    folder = fresh.typed()
    program(name, folder)
    held(folder, fresh.run("python agent.py", folder))
    fresh.reviewed(folder)


@pytest.mark.parametrize(("name", "fresh"), [(name, name) for name in OVER_MCP], indirect=["fresh"])
def test_an_agent_that_speaks_mcp(name: str, fresh: Fresh) -> None:
    folder = fresh.typed()
    program(name, folder)
    with up(folder, [fresh.bins[0] / "toolgen"], fresh.variables()) as (url, key):
        said = fresh.run("python agent.py", folder, at=1, TOOLGEN_URL=url, TOOLGEN_KEY=key)
    held(folder, said)
    fresh.reviewed(folder)


@pytest.mark.parametrize(("name", "fresh"), [(name, name) for name in PROGRAMS], indirect=["fresh"])
def test_a_program(name: str, fresh: Fresh) -> None:
    folder = fresh.typed()
    for file, block in re.findall(r"\*\*([\w.]+)\*\*.*?```\w+\n(.*?)```", fresh.text, re.DOTALL):
        (folder / file).write_text(block, encoding="utf-8")
    tools, order, refusal = fresh.run("python agent.py", folder).splitlines()
    assert (tools, "open" in order, "unknown_tool" in refusal) == ("['shop__get_order']", True, True)
    fresh.reviewed(folder)
    if "$ uvicorn" in fresh.text:
        port = free_port()
        command = [fresh.bins[0] / "uvicorn", "service:app", "--port", str(port)]
        with subprocess.Popen(command, cwd=folder, env=fresh.variables(), stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr is not None
                assert any("running on" in line for line in process.stderr)
                for path in re.findall(r"curl http://127.0.0.1:8000(/\S+)", fresh.text):
                    assert httpx.get(f"http://127.0.0.1:{port}{path}", timeout=60).status_code == 200
            finally:
                process.terminate()
                process.communicate()


@pytest.mark.parametrize("fresh", ["notebook"], indirect=True)
def test_the_notebook(fresh: Fresh) -> None:
    folder = fresh.typed()
    cells = folder / "cells.json"
    cells.write_text(json.dumps(re.findall(r"```python\n(.*?)```", fresh.text, re.DOTALL)), encoding="utf-8")
    (folder / "kernel.py").write_text(KERNEL, encoding="utf-8")
    held(folder, fresh.run(f"jupyter --version && python kernel.py {cells.name}", folder))
    fresh.reviewed(folder)
