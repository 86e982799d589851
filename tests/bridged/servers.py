"""Public MCP servers: where each is installed, how it is started, and which arguments its calls take."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.services.bridged import ROOT

__all__ = ["COMMITTING", "SERVERS", "Server", "installed", "over_http"]

INSTALLED = ROOT / ".venv-servers"
NODE, PYTHON, SQLITE = "node", "python", "sqlite"


@dataclass(frozen=True, kw_only=True)
class Server:
    """Server below .venv-servers. In `options`, `environment` and `values`, @folder is its own folder, @url a page and @port a free port.

    `http` is the path that it serves MCP at; it is a command if that is empty. `values` are arguments by name that generated calls have in
    place of samples. `left_out` are tools that no generated call is made of, with the reason. `needs` is a program of this machine.
    """

    place: str
    program: str
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    http: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""

    def command(self, places: Mapping[str, str]) -> list[str]:
        """The program with its options."""
        path = INSTALLED / self.place / ("node_modules/.bin" if self.place == NODE else "bin") / self.program
        return [str(path), *(placed(option, places) for option in self.options)]

    def variables(self, places: Mapping[str, str]) -> dict[str, str]:
        """Its own environment variables."""
        return {name: placed(value, places) for name, value in self.environment.items()}


def placed(text: str, places: Mapping[str, str]) -> str:
    """A text with the places of this run."""
    for name, place in places.items():
        text = text.replace(f"@{name}", place)
    return text


COMMITTING = {
    **{f"GIT_{who}_NAME": "Ann" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "ann@example.com" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_DATE": "2026-01-02T03:04:05+0000" for who in ("AUTHOR", "COMMITTER")},
    "GIT_CONFIG_GLOBAL": os.devnull,
}
_BROWSER = ("--headless", "--isolated", "--no-sandbox", "--executable-path", shutil.which("chromium") or "chromium")
_EVERYTHING_LEFT_OUT = {
    "get-env": "shows its environment, which has a mark of the gateway",
    "gzip-file-as-resource": "its default is a page of the internet",
    "trigger-long-running-operation": "generated durations take minutes",
    "simulate-research-query": "takes seconds for each call",
    "get-roots-list": "asks its client",
}
SERVERS: Mapping[str, Server] = {
    "everything": Server(place=NODE, program="mcp-server-everything", left_out=_EVERYTHING_LEFT_OUT),
    "everything-http": Server(
        place=NODE,
        program="mcp-server-everything",
        options=("streamableHttp",),
        environment={"PORT": "@port"},
        http="/mcp",
        left_out=_EVERYTHING_LEFT_OUT,
    ),
    "filesystem": Server(
        place=NODE,
        program="mcp-server-filesystem",
        options=("@folder",),
        values={"path": "@folder/data.json", "paths": ["@folder/data.json"], "source": "@folder/none"},
    ),
    "memory": Server(place=NODE, program="mcp-server-memory", environment={"MEMORY_FILE_PATH": "@folder/memory.jsonl"}),
    "sequential-thinking": Server(place=NODE, program="mcp-server-sequential-thinking"),
    "playwright": Server(
        place=NODE,
        program="playwright-mcp",
        options=(*_BROWSER, "--output-dir", "@folder", "--image-responses", "allow"),
        values={"url": "@url", "time": 0.01, "filename": "@folder/written"},
        left_out={
            "browser_wait_for": "waits for what generated texts never do",
            "browser_navigate": "what it says of addresses that do not exist varies",
            "browser_tabs": "names events of the console, which come when they do",
            "browser_navigate_back": "what it says depends on how far the page is",
            "browser_run_code_unsafe": "runs generated text as a program",
            "browser_take_screenshot": "its pictures differ from run to run",
        },
        needs="chromium",
    ),
    "budget-allocator": Server(
        place=NODE, program="mcp-budget-allocator-server", environment={"PORT": "@port"}, http="/mcp"
    ),
    "scenario-modeler": Server(place=NODE, program="mcp-scenario-modeler-server", options=("--stdio",)),
    "postgres": Server(
        place=NODE,
        program="mcp-server-postgres",
        options=("postgresql://postgres@127.0.0.1:5432/toolgen_public_servers",),
        values={"sql": "SELECT 1 AS one"},
        needs="psql",
    ),
    "redis": Server(
        place=NODE,
        program="mcp-server-redis",
        options=("redis://127.0.0.1:@port",),
        values={"expireSeconds": 1000},
        left_out={"list": "the order of keys is Redis's own"},
        needs="redis-server",
    ),
    "git": Server(
        place=PYTHON,
        program="mcp-server-git",
        options=("--repository", "@folder"),
        environment=COMMITTING,
        values={"repo_path": "@folder"},
    ),
    "time": Server(place=PYTHON, program="mcp-server-time", options=("--local-timezone", "UTC")),
    "fetch": Server(
        place=PYTHON,
        program="mcp-server-fetch",
        options=("--ignore-robots-txt", "--allow-private-ips"),
        values={"url": "@url"},
    ),
    "sqlite": Server(place=SQLITE, program="mcp-server-sqlite", options=("--db-path", "@folder/pets.db")),
}


def installed(name: str) -> Server:
    """The server, or the reason to skip its test."""
    server = SERVERS[name]
    if not (INSTALLED / server.place / ".installed").exists():
        pytest.skip(f"the public server {name} is not installed: `make servers` does that")
    if server.needs and shutil.which(server.needs) is None:
        pytest.skip(f"{server.needs} is not installed")
    return server


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def over_http(server: Server, places: Mapping[str, str]) -> Iterator[str]:
    """Run a server that serves HTTP; gives its URL."""
    environment = {**os.environ, **server.variables(places)}
    port = int(places["port"])
    with subprocess.Popen(
        server.command(places), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            wait_for(port, process)
            yield f"http://127.0.0.1:{port}{server.http}"
        finally:
            process.kill()


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Return once somebody listens at a port."""
    until = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert process.poll() is None, "the server ended"
            assert time.monotonic() < until, "the server does not listen"
            time.sleep(0.05)
        else:
            return


@contextmanager
def data_of(name: str, folder: Path, places: Mapping[str, str]) -> Iterator[None]:
    """The systems that a server needs, as they are at the beginning: a database of PostgreSQL with a table, an empty Redis."""
    match name:
        case "postgres":
            _psql("postgres", "DROP DATABASE IF EXISTS toolgen_public_servers")
            _psql("postgres", "CREATE DATABASE toolgen_public_servers")
            _psql("toolgen_public_servers", "CREATE TABLE pets (id integer PRIMARY KEY, name text, weight numeric)")
            _psql("toolgen_public_servers", "INSERT INTO pets VALUES (1, 'Rex', 12.50), (2, NULL, NULL)")
            try:
                yield
            finally:
                _psql("postgres", "DROP DATABASE IF EXISTS toolgen_public_servers WITH (FORCE)")
        case "redis":
            command = [
                "redis-server",
                "--port",
                places["port"],
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--dir",
                str(folder),
            ]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
                try:
                    wait_for(int(places["port"]), process)
                    yield
                finally:
                    process.kill()
        case _:
            yield


def _psql(database: str, statement: str) -> None:
    command = [
        "psql",
        "-h",
        "127.0.0.1",
        "-U",
        "postgres",
        "-q",
        "-v",
        "ON_ERROR_STOP=1",
        "-d",
        database,
        "-c",
        statement,
    ]
    subprocess.run(command, check=True, capture_output=True)
