"""`toolgen up`: a real process that a real client calls, with a key that is in no file."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.cli.commands import Run, runner
from tests.messages import line_names
from tests.projects import PETS

LISTENING = re.compile(r"toolgen is listening on (http://127\.0\.0\.1:[0-9]+)\n")
KEY = re.compile(r"  key +(tgk_\S+)   \((\w+), (.*)\)\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    text = {**PETS, "servers": [{"url": "https://pets.example"}]}
    (tmp_path / "pets.json").write_text(json.dumps(text), encoding="utf-8")
    return tmp_path


class Up:
    """A running `toolgen up`: where it is, its keys by principal, and what it said."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        assert process.stderr is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if line.startswith('{"mcpServers"'):
                break
        self.said = "".join(said)
        self.snippet = json.loads(said[-1]) if said else None
        self.keys = {name: key for key, name, _ in KEY.findall(self.said)}
        found = next(filter(None, map(LISTENING.match, process.stderr)), None)
        assert found is not None, self.said
        self.url = found[1]

    def call(self, tool: str, arguments: dict[str, object], key: str) -> httpx.Response:
        body, headers = {"arguments": arguments}, {"authorization": f"Bearer {key}"}
        return httpx.post(f"{self.url}/v1/tools/{tool}/call", json=body, headers=headers, timeout=60)


@contextlib.contextmanager
def running(folder: Path, *arguments: str, **variables: str) -> Iterator[Up]:
    command = [sys.executable, "-m", "toolgen", "up", *arguments, "--port", "0"]
    environment = {**os.environ, "TOOLGEN_KEY": "", **variables}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Up(process)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(120)


def test_from_a_description_to_a_governed_call_over_mcp(folder: Path) -> None:
    with running(folder, "pets.json", "--mock") as up:
        assert re.search(r"sources     pets: 2 tools, \d+ tokens, answered by a mock\n", up.said)
        assert up.snippet == {
            "mcpServers": {
                "toolgen": {
                    "type": "http",
                    "url": f"{up.url}/mcp",
                    "headers": {"Authorization": "Bearer ${TOOLGEN_KEY}"},
                }
            }
        }

        async def talk() -> tuple[list[str], bool, bool]:
            headers = {"authorization": f"Bearer {up.keys['agent']}"}
            async with (
                httpx2.AsyncClient(headers=headers) as http,
                Client(streamable_http_client(f"{up.url}/mcp", http_client=http)) as client,
            ):
                tools = (await client.list_tools()).tools
                read = await client.call_tool("pets__get_pet", {"petId": 1})
                denied = await client.call_tool("pets__delete_pet", {"petId": 1})
                return [tool.name for tool in tools], bool(read.is_error), bool(denied.is_error)

        assert asyncio.run(talk()) == (["pets__get_pet"], False, True)
    assert (folder / "toolgen.yaml").is_file()


def test_the_keys_of_a_run_are_in_no_file_and_end_with_it(folder: Path) -> None:
    with running(folder, "pets.json", "--mock") as first:
        made = first.keys["agent"]
    with running(folder, "--mock") as second:
        assert second.keys["agent"] != made
        assert second.call("pets__get_pet", {"petId": 1}, second.keys["agent"]).status_code == 200
        assert second.call("pets__get_pet", {"petId": 1}, made).status_code == 200  # the policy has it
        assert second.call("pets__get_pet", {"petId": 1}, first.keys["reviewer"]).status_code == 401
    keys = {key.encode() for up in (first, second) for key in up.keys.values()}
    texts = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert not any(key in text for key in keys for text in texts)


def test_a_key_in_the_environment_is_enough(folder: Path) -> None:
    with running(folder, "pets.json", "--mock") as first:
        made = first.keys["agent"]
    with running(folder, "--mock", TOOLGEN_KEY=made) as second:
        assert set(second.keys) == {"reviewer"}


def test_the_reviewer_of_a_run_sees_the_console_and_calls_nothing(folder: Path) -> None:
    with running(folder, "pets.json", "--mock") as up:
        assert up.call("pets__get_pet", {"petId": 1}, up.keys["reviewer"]).status_code == 404
        record = httpx.get(f"{up.url}/v1/audit", headers={"authorization": f"Bearer {up.keys['reviewer']}"}, timeout=60)
        assert record.status_code == 200


def test_an_edit_of_the_policy_keeps_the_mock_and_the_keys(folder: Path) -> None:
    with running(folder, "pets.json", "--mock") as up:
        path = folder / "policies" / "policy.yaml"
        path.write_text(
            path.read_text()
            .replace("[read]", "[read, destructive]")
            .replace("expect: deny, rule: default", "expect: allow")
        )
        up.process.send_signal(signal.SIGHUP)
        assert up.process.stderr is not None
        assert any("is in force" in line and "waits" not in line for line in up.process.stderr)
        assert up.call("pets__delete_pet", {"petId": 1}, up.keys["agent"]).status_code == 200


def test_a_build_keeps_the_keys_of_the_run(folder: Path) -> None:
    with running(folder, "pets.json"):
        pass
    with running(folder) as up:
        text = (folder / "pets.json").read_text(encoding="utf-8")
        (folder / "pets.json").write_text(text.replace("Get a pet", "Get one pet"), encoding="utf-8")
        subprocess.run([sys.executable, "-m", "toolgen", "build"], check=True, cwd=folder, capture_output=True)
        assert up.process.stderr is not None
        assert any("is in force (1 changed)" in line for line in up.process.stderr)
        assert up.call("pets__get_pet", {"petId": 1}, up.keys["agent"]).status_code == 503  # PETS_KEY is not set
        headers = {"authorization": f"Bearer {up.keys['reviewer']}"}
        assert httpx.get(f"{up.url}/v1/audit", headers=headers, timeout=60).status_code == 200


def test_without_a_mock_what_is_not_set_is_said(folder: Path) -> None:
    with running(folder, "pets.json") as up:
        assert line_names(up.said, "not set ", "PETS_KEY: ", "pets ")
        assert (folder / "generated" / "manifest.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "toolgen up FILE|URL|DATABASE"),
        (("missing.yaml",), "missing.yaml: there is no such file"),
    ],
)
def test_where_there_is_nothing_to_serve_it_says_what_to_name(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(folder)
    ended = runner(capfdbinary)("up", *arguments)
    assert (ended.code, said in ended.err) == (1, True)


def test_a_project_that_is_there_is_not_made_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(folder)
    toolgen: Run = runner(capfdbinary)
    assert toolgen("init", "pets.json").code == 0
    ended = toolgen("up", "pets.json")
    assert ended.code == 1
    assert "is a project already" in ended.err
