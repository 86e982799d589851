"""Building, calling, stdio, serving, policies and the record where nothing of POSIX is: simulated (tests/platforms/without_posix.py)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.projects import make_project

PROGRAM = str(Path(__file__).with_name("without_posix.py"))
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TEST_PETS_KEY": "key", "USERNAME": "test"}


def run(task: str, folder: Path, told: str = "") -> str:
    ended = subprocess.run(
        [sys.executable, PROGRAM, task],
        cwd=folder,
        env=ENVIRONMENT,
        input=told,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stdout


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TEST_PETS_KEY", "key")
    make_project(tmp_path / "project")
    return tmp_path / "project"


def test_every_module_is_imported(tmp_path: Path) -> None:
    assert run("imports", tmp_path) == "all\n"


def test_a_function_is_called_and_recorded(tmp_path: Path) -> None:
    assert run("functions", tmp_path) == "3\n"
    assert "intact" in run("audit verify --dir record", tmp_path)
    assert "left=1" in run("audit list --dir record", tmp_path)


def test_commands_of_a_project(project: Path) -> None:
    assert "pets" in run("build", project)
    run("build --check", project)
    run("policy check", project)
    assert json.loads(run("tools --json", project))


def test_mcp_over_stdio(project: Path) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    (answer,) = run("serve --stdio --as bot", project, json.dumps(hello) + "\n").splitlines()
    assert json.loads(answer)["result"]["serverInfo"]["name"]


def test_a_gateway_serves_and_stops_on_a_signal(project: Path) -> None:
    command = [sys.executable, PROGRAM, "serve --port 0"]
    with subprocess.Popen(command, cwd=project, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as served:
        assert served.stderr is not None
        url = next(word for line in served.stderr for word in line.split() if word.startswith("http://"))
        assert httpx.get(f"{url.rstrip('/.,')}/healthz", timeout=60).status_code == 200
        served.send_signal(signal.SIGTERM)
        assert served.wait(60) == 0
