"""Nine public MCP servers: what a client is told of their tools and calls through the gateway is what it is told without it.

`make servers` installs them, pinned. Each is spoken to directly first, and then, with its files as they were, by the same client behind
`toolgen serve --stdio`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, Tool, ToolAnnotations

from tests.services.bridged import POLICY, ROOT, write_project

INSTALLED = ROOT / ".venv-servers"
CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = json.loads(
    (Path(__file__).parent / "calls.json").read_text(encoding="utf-8")
)
DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c020000000b4944415478da6364f80f00010501012718e3660000000049454e44ae426082"
)
PAGE = """<!doctype html><title>A page</title><h1>Hello</h1><p>Some <b>words</b> to read, and <a href="/">a link</a>.</p>
<form onsubmit="return false"><label>Name <input id="name"></label>
<button id="send" onclick="document.querySelector('p').textContent = 'Sent'">Send</button></form>"""
# What is other from one run to the next, whoever asks: times and durations, and in a browser the names of files for them.
VARYING = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d[-:]\d\d[-:]\d\d(?:[.-]\d+)?(?:Z|[+-]\d\d:\d\d)?"
    r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} \d\d \d{4} [\d:]{8} GMT|\b\d\d?:\d\d:\d\d [AP]M\b|\b\d+(?:\.\d+)?ms\b"
)


@dataclass(frozen=True, kw_only=True)
class Server:
    """Where a server is installed, below .venv-servers, and how it is started; @folder is a folder of its own."""

    place: str
    program: str
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def command(self, folder: Path) -> list[str]:
        path = INSTALLED / self.place / ("node_modules/.bin" if self.place == "node" else "bin") / self.program
        return [str(path), *(option.replace("@folder", str(folder)) for option in self.options)]


NODE, PYTHON, SQLITE = "node", "python", "sqlite"
IDENTITY = {"AUTHOR": "Ann", "COMMITTER": "Ann"}
COMMITTING = {
    **{f"GIT_{who}_NAME": name for who, name in IDENTITY.items()},
    **{f"GIT_{who}_EMAIL": "ann@example.com" for who in IDENTITY},
    **{f"GIT_{who}_DATE": "2026-01-02T03:04:05+0000" for who in IDENTITY},
    "GIT_CONFIG_GLOBAL": os.devnull,
}
BROWSER = ("--headless", "--isolated", "--no-sandbox", "--executable-path", shutil.which("chromium") or "chromium")
SERVERS = {
    "everything": Server(place=NODE, program="mcp-server-everything"),
    "filesystem": Server(place=NODE, program="mcp-server-filesystem", options=("@folder",)),
    "memory": Server(place=NODE, program="mcp-server-memory", environment={"MEMORY_FILE_PATH": "@folder/memory.jsonl"}),
    "sequential-thinking": Server(place=NODE, program="mcp-server-sequential-thinking"),
    "playwright": Server(
        place=NODE,
        program="playwright-mcp",
        options=(*BROWSER, "--output-dir", "@folder", "--image-responses", "allow"),
    ),
    "git": Server(place=PYTHON, program="mcp-server-git", options=("--repository", "@folder"), environment=COMMITTING),
    "time": Server(place=PYTHON, program="mcp-server-time", options=("--local-timezone", "UTC")),
    "fetch": Server(place=PYTHON, program="mcp-server-fetch", options=("--ignore-robots-txt", "--allow-private-ips")),
    "sqlite": Server(place=SQLITE, program="mcp-server-sqlite", options=("--db-path", "@folder/pets.db")),
}


def installed(name: str) -> Server:
    server = SERVERS[name]
    if not (INSTALLED / server.place / ".installed").exists():
        pytest.skip(f"the public server {name} is not installed: `make servers` does that")
    if name == "playwright" and shutil.which("chromium") is None:
        pytest.skip("Chromium is not installed: `make browser` does that")
    return server


@pytest.fixture(name="url")
def _url() -> Iterator[str]:
    """A page that stays the same."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/page"
            body = PAGE.encode() if found else b"no such page"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the library
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/page"
        server.shutdown()
        thread.join()


def prepare(folder: Path) -> None:
    """The files that a server finds: the same each time, in a repository with one commit."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "dot.png").write_bytes(DOT)
    environment = {**os.environ, **COMMITTING}
    for step in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "First"]):
        subprocess.run(["git", *step], cwd=folder, env=environment, check=True)
    (folder / "data.json").write_text('{"a": [1, 2.50, "x"]}\n', encoding="utf-8")


def project(root: Path, command: list[str], environment: Mapping[str, str]) -> None:
    root.mkdir()
    mcp = {"command": command, "env": environment, "annotations": "trusted"}
    write_project(root, POLICY, mcp=mcp, timeouts={"connect": "10s", "first_byte": "60s", "total": "60s"})
    done = subprocess.run(
        [sys.executable, "-m", "toolgen", "build"], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


Told = tuple[dict[str, Tool], list[CallToolResult]]


async def told(server: StdioServerParameters, calls: list[tuple[str, dict[str, Any]]], prefix: str = "") -> Told:
    """What a client is told of a server's tools, by their names there, and what it is answered."""
    async with Client(server, mode="legacy") as client:
        listed = (await client.list_tools()).tools
        named = {spelled(tool.name, prefix): tool for tool in listed}
        return named, [await client.call_tool(named[spelled(name, "")].name, arguments) for name, arguments in calls]


def spelled(name: str, prefix: str) -> str:
    """A tool's name as the gateway spells it."""
    return name.removeprefix(prefix).replace("-", "_").lower()


@pytest.mark.parametrize("name", SERVERS)
async def test_a_public_server_is_the_same_through_the_gateway(name: str, tmp_path: Path, url: str) -> None:
    server, folder = installed(name), tmp_path / "files"
    command = server.command(folder)
    environment = {key: value.replace("@folder", str(folder)) for key, value in server.environment.items()}
    prepare(folder)
    project(tmp_path / "project", command, environment)
    written = json.dumps(CALLS[name]).replace("@folder", str(folder)).replace("@url", url)
    calls: list[tuple[str, dict[str, Any]]] = json.loads(written)
    straight = StdioServerParameters(
        command=command[0], args=command[1:], env={**environment, "TOOLGEN_COMMAND": "x"}, cwd=tmp_path / "project"
    )
    bridge = StdioServerParameters(
        command=sys.executable, args=["-m", "toolgen", "serve", "--stdio", "--as", "bot"], cwd=tmp_path / "project"
    )

    prepare(folder)
    direct = await told(straight, calls)
    prepare(folder)
    (there, answers), (here, bridged) = direct, await told(bridge, calls, "far__")
    demanding = {key for key, tool in there.items() if tool.execution and tool.execution.task_support == "required"}
    assert here.keys() == there.keys() - demanding
    for key, tool in here.items():
        assert shown(tool) == shown(there[key])
    for call, answer, through in zip(calls, answers, bridged, strict=True):
        found = said(through)
        if there[spelled(call[0], "")].output_schema is None:  # our envelope, with it as its data
            found["structured"] = found["structured"].get("data")
        expected = said(answer)
        if answer.is_error:  # the gateway says first that it failed; a single line of plain text stands in that
            first, *found["content"] = found["content"]
            if not found["content"]:
                (line,) = expected["content"]
                assert line["text"] in first["text"]
                found["content"] = [line]
        assert found == expected, call


def shown(tool: Tool) -> dict[str, Any]:
    """A tool with what MCP has for each title and hint that a server leaves out (2025-11-25, schema, Tool and ToolAnnotations)."""
    hints = tool.annotations or ToolAnnotations()
    reads = bool(hints.read_only_hint)
    return {
        "title": tool.title or hints.title or tool.name.removeprefix("far__"),
        "description": tool.description,
        "input": tool.input_schema,
        "output": tool.output_schema,
        "reads": reads,
        "destroys": not reads and hints.destructive_hint is not False,
        "may be repeated": reads or bool(hints.idempotent_hint),
        "open world": hints.open_world_hint is not False,
    }


def said(answer: CallToolResult) -> Any:
    """Blocks, structured content and whether it failed."""
    blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in answer.content]
    for block in blocks:
        with contextlib.suppress(KeyError, UnicodeDecodeError):  # a text with the time in it, as base64
            block["resource"]["blob"] = base64.b64decode(block["resource"]["blob"], validate=True).decode()
    found = {"content": blocks, "isError": answer.is_error, "structured": answer.structured_content}
    return json.loads(VARYING.sub("TIME", json.dumps(found)))
