"""Tutorials whose pages are programs: their files are written as the pages have them, and run."""

from __future__ import annotations

import ast
import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.processes import free_port
from tests.pages.test_tutorials import ROOT, page, typed
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify

PAGES = {"fastapi": ("service.py", "agent.py"), "django": ("shop.py", "openapi.yaml", "agent.py")}
PROGRAMS = {**os.environ, "PYTHONPATH": str(ROOT), "NO_PROXY": "*"}


@pytest.fixture(params=PAGES)
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of a page with its files, each named in bold before its block."""
    folder = typed(request.param, tmp_path)
    for name, block in re.findall(r"\*\*([\w.]+)\*\*.*?```\w+\n(.*?)```", page(request.param), re.DOTALL):
        (folder / name).write_text(block, encoding="utf-8")
    assert {path.name for path in folder.iterdir()} == {*PAGES[request.param]}
    return folder


def test_the_program_of_a_page_does_what_the_page_says(written: Path) -> None:
    done = subprocess.run(
        [sys.executable, "agent.py"], cwd=written, env=PROGRAMS, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    tools, order, refusal = done.stdout.splitlines()
    assert tools == "['shop__get_order']"
    assert ast.literal_eval(order) == {"id": 1, "status": "open"}
    assert "unknown_tool" in refusal
    assert verify(written / "record").ok
    outcomes = [entry["status"] for entry in entries(written / "record") if entry["event"] == "outcome"]
    assert outcomes == ["ok", "refused"]


@contextmanager
def served(folder: Path) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "service:app", "--port", str(port)]
    with subprocess.Popen(command, cwd=folder, env=PROGRAMS, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert any("running on" in line for line in process.stderr)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()


def test_the_service_of_the_page_is_served_with_its_gateway(tmp_path: Path) -> None:
    folder = typed("fastapi", tmp_path)
    for name, block in re.findall(r"\*\*([\w.]+)\*\*.*?```\w+\n(.*?)```", page("fastapi"), re.DOTALL):
        (folder / name).write_text(block, encoding="utf-8")
    with served(folder) as url:
        assert httpx.get(f"{url}/orders/1", timeout=60).json() == {"id": 1, "status": "open"}
        assert httpx.get(f"{url}/agent/healthz", timeout=60).json() == {"status": "ok"}
        assert httpx.get(f"{url}/agent/v1/tools", timeout=60).status_code == 401
        assert httpx.post(f"{url}/agent/mcp", json={}, timeout=60).status_code == 401


async def test_the_cells_of_the_notebook_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells are compiled as IPython does it, with `await` outside of functions; the value of the last line is shown."""
    monkeypatch.chdir(typed("notebook", tmp_path))
    cells = re.findall(r"```python\n(.*?)```", page("notebook"), re.DOTALL)

    names: dict[str, Any] = {}
    tools, answer, refused, closed = [await _cell(cell, names) for cell in cells]
    assert "notes__query" in tools
    assert [1, "Welcome"] in [list(row) for row in answer["rows"]]
    assert refused[0] == "refused"
    assert "private_notes" in refused[1].message
    assert closed is None


async def _cell(text: str, names: dict[str, Any]) -> Any:
    *before, last = ast.parse(text).body
    shown = isinstance(last, ast.Expr)
    if shown:
        last = ast.Assign([ast.Name("_", ast.Store())], last.value)  # type: ignore[attr-defined]
    module = ast.fix_missing_locations(ast.Module([*before, last], []))
    found = eval(compile(module, "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if asyncio.iscoroutine(found):
        await found
    return names.get("_") if shown else None
