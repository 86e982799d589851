"""Building, calling, stdio, serving, policies and the record on a Windows that is simulated (tests/platforms/without_posix.py)."""

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
SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    result = {"content": [{"type": "text", "text": "heard"}]}
    if message["method"] == "initialize":
        about = {"name": "echo", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
    elif message["method"] == "tools/list":
        tool = {"name": "echo", "description": "Echo.", "inputSchema": {"type": "object"}}
        result = {"tools": [tool | {"annotations": {"readOnlyHint": True}}]}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
OPEN = {
    "principals": {"bot": {"roles": ["all"]}},
    "rules": [{"id": "all", "to": ["all"], "tools": ["*"], "verdict": "allow"}],
}


def run(task: str, folder: Path, told: str = "", code: int = 0, *, errors: bool = False) -> str:
    ended = subprocess.run(
        [sys.executable, PROGRAM, task],
        cwd=folder,
        env=ENVIRONMENT,
        input=told.encode(),
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == code, ended.stderr[-3000:].decode(errors="replace")
    return (ended.stderr if errors else ended.stdout).decode().replace("\r\n", "\n")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TEST_PETS_KEY", "key")
    make_project(tmp_path / "project")
    return tmp_path / "project"


def of_windows(path: Path) -> str:
    return "C:" + str(path).replace("/", "\\")


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


def test_generated_files_are_those_of_other_systems(project: Path) -> None:
    run("build", project)
    own = {path.name: path.read_bytes() for path in [*project.glob("generated/*"), project / "toolgen.lock"]}
    command = [sys.executable, "-m", "toolgen", "build"]
    subprocess.run(command, cwd=project, env=ENVIRONMENT, check=True, capture_output=True)
    assert own == {path.name: path.read_bytes() for path in [*project.glob("generated/*"), project / "toolgen.lock"]}


def test_a_statement_on_a_file_runs_in_a_process_of_its_own(project: Path) -> None:
    assert '"row_count": 1' in run("call shop__query --as bot sql=SELECT(1)", project)


def test_a_server_is_bridged_over_stdio(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "policy.yaml").write_text(json.dumps(OPEN), encoding="utf-8")
    source = {"mcp": {"command": [sys.executable, "server.py"]}}
    (tmp_path / "toolgen.yaml").write_text(json.dumps({"sources": {"one": source}}), encoding="utf-8")
    run("build", tmp_path)
    assert run("call one__echo --as bot", tmp_path) == '"heard"\n'


def test_paths_with_backslashes_and_drive_letters_in_files_with_crlf(project: Path) -> None:
    settings = json.loads((project / "toolgen.yaml").read_text(encoding="utf-8"))
    pets, shop = settings["sources"]["pets"], settings["sources"]["shop"]
    pets["openapi"] = "specs\\pets.json"
    shop["sql"] = f"sqlite:///{of_windows(project / 'specs' / 'shop.db')}".replace("\\", "/")
    (project / "toolgen.yaml").write_text(json.dumps(settings, indent=1), encoding="utf-8", newline="\r\n")
    for path in [*(project / "policies").iterdir(), project / "specs" / "pets.json"]:
        path.write_text(path.read_text(encoding="utf-8"), encoding="utf-8", newline="\r\n")
    run("build", project)
    assert '"row_count": 1' in run("call shop__query --as bot sql=SELECT(1)", project)
    settings["sources"]["pets"]["openapi"] = of_windows(project / "specs" / "pets.json")
    (project / "toolgen.yaml").write_text(json.dumps(settings), encoding="utf-8")
    run("build", project)
    assert "pets__get_pet" in run("tools", project)


def test_a_project_is_begun_from_a_path_with_a_drive_letter(project: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    run(f"init {of_windows(project / 'specs' / 'pets.json')}", tmp_path / "new")
    assert (tmp_path / "new" / "toolgen.yaml").exists()
    assert b"\r" not in (tmp_path / "new" / "toolgen.yaml").read_bytes()
    run("build", tmp_path / "new")


def test_every_character_is_written(project: Path) -> None:
    path = project / "specs" / "pets.json"
    path.write_text(path.read_text(encoding="utf-8").replace("Get a pet", "Get a pet → 日本 ✓"), encoding="utf-8")
    run("build", project)
    assert "Get a pet → 日本 ✓" in run("tools", project)


def test_keys_are_made_and_revoked(project: Path) -> None:
    key = run("keys new bot", project).splitlines()[0]
    assert key.startswith("tgk_")
    assert "bot" in run("keys list", project)


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
    (answer,) = run("serve --stdio --as bot", project, json.dumps(hello) + "\r\n").splitlines()
    assert json.loads(answer)["result"]["serverInfo"]["name"]


def test_a_gateway_serves_and_stops_on_a_signal(project: Path) -> None:
    command = [sys.executable, PROGRAM, "serve --port 0"]
    with subprocess.Popen(command, cwd=project, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as served:
        assert served.stderr is not None
        url = next(word for line in served.stderr for word in line.split() if word.startswith("http://"))
        assert httpx.get(f"{url.rstrip('/.,')}/healthz", timeout=60).status_code == 200
        served.send_signal(signal.SIGTERM)
        assert served.wait(60) == 0


def test_the_demo_is_played_and_ends(tmp_path: Path) -> None:
    said = run("demo --no-stay", tmp_path)
    assert "verified: " in said
    assert "done in " in said


def test_several_workers_are_refused(project: Path) -> None:
    run("build", project)
    assert "on Windows" in run("serve --port 0 --workers 2", project, code=1, errors=True)
