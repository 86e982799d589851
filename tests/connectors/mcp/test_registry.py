"""Servers of a registry: the package or URL of an entry is chosen, pinned, and bridged; a changed entry is refused and starts nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from toolgen.config.settings import load
from toolgen.connectors.mcp.registry import registered_server
from toolgen.connectors.mcp.registry_reference import RegistryReference
from toolgen.core.errors import ConfigError, DescriptionError

SERVER = Path(__file__).parents[2] / "services" / "mcp_subscriptions.py"
NPM = {
    "registryType": "npm",
    "registryBaseUrl": ".".join(("https://registry", "npmjs", "org")),
    "identifier": "@example/tickets",
    "version": "1.2.0",
    "transport": {"type": "stdio"},
    "packageArguments": [{"type": "named", "name": "--mode", "value": "quiet"}],
    "environmentVariables": [{"name": "TICKETS_TOKEN", "isRequired": True, "isSecret": True}],
}
ENTRY: dict[str, Any] = {
    "name": "com.example/tickets",
    "version": "1.2.0",
    "description": "Tickets.",
    "packages": [NPM],
}
SETTINGS: dict[str, Any] = {"registry": "com.example/tickets@1.2.0", "env": {"TICKETS_TOKEN": "t"}}


class Registry(ThreadingHTTPServer):
    """A registry with one entry, which tests change."""

    entry: dict[str, Any] = ENTRY
    status = "active"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Registry

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.server.asked.append(unquote(self.path))
        found = self.path == "/v0.1/servers/com.example%2Ftickets/versions/1.2.0"
        meta = {"io.modelcontextprotocol.registry/official": {"status": self.server.status}}
        body = json.dumps({"server": self.server.entry, "_meta": meta}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(name="registry")
def _registry() -> Iterator[Registry]:
    with Registry() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(name="project")
def _project(tmp_path: Path, registry: Registry) -> Path:
    """A project that names the server, on a machine whose `npx` starts one of ours and writes down how it was called."""
    (tmp_path / "bin").mkdir()
    npx = tmp_path / "bin" / "npx"
    npx.write_text(
        f'#!/bin/sh\necho "$@ token=$TICKETS_TOKEN" >> {tmp_path}/started\nexec {sys.executable} {SERVER} {tmp_path}/log stdio\n',
        encoding="utf-8",
    )
    npx.chmod(0o755)
    return _write(tmp_path, {**SETTINGS, "registry_url": registry.url})


def _write(root: Path, mcp: dict[str, Any], **more: Any) -> Path:
    path = root / "toolgen.yaml"
    settings = {"sources": {"tickets": {"mcp": mcp, **more}}, "policies": "policies/", "audit": {"dir": "audit"}}
    (root / "policies").mkdir(exist_ok=True)
    rule = {"id": "a", "to": ["bot"], "tools": ["*"], "effects": ["read", "write", "destructive"], "verdict": "allow"}
    policy = json.dumps({"principals": {"bot": {"roles": ["bot"]}}, "rules": [rule]})
    (root / "policies" / "policy.yaml").write_text(policy, encoding="utf-8")
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


def _toolgen(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{project.parent / 'bin'}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "toolgen", *words, "--config", str(project)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def _started(project: Path) -> list[str]:
    path = project.parent / "started"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def test_a_package_of_an_entry_is_pinned_and_bridged(project: Path, registry: Registry) -> None:
    done = _toolgen(project, "build")
    assert done.returncode == 0, done.stderr
    assert _started(project) == ["-y @example/tickets@1.2.0 --mode quiet token=t"]
    pinned = json.loads((project.parent / "toolgen.pins" / "tickets" / "tools.json").read_bytes())["registered"]
    assert (pinned["package"], pinned["packageVersion"]) == ("npm", "1.2.0")
    assert pinned["digest"].startswith("sha256:")
    assert pinned["command"] == ["npx", "-y", "@example/tickets@1.2.0", "--mode", "quiet"]
    registry.asked.clear()
    called = _toolgen(project, "call", "tickets__touch", "--args", '{"uris": []}', "--json")
    assert json.loads(called.stdout)["data"] == "touched", called.stderr
    assert registry.asked == []  # what is pinned is started, and nobody is asked
    assert _toolgen(project, "build", "--check").returncode == 0


def test_a_changed_entry_starts_nothing_until_it_is_accepted(project: Path, registry: Registry) -> None:
    assert _toolgen(project, "build").returncode == 0
    before = _started(project)
    registry.entry = {**ENTRY, "packages": [{**NPM, "identifier": "@evil/tickets"}]}
    refused = _toolgen(project, "build")
    assert refused.returncode == 1
    assert "@evil/tickets" in refused.stderr
    assert "--update-pins" in refused.stderr
    assert _started(project) == before
    called = _toolgen(project, "call", "tickets__touch", "--args", '{"uris": []}', "--json")
    assert called.returncode == 0, called.stderr
    assert {*_started(project)} == {*before}
    assert _toolgen(project, "build", "--update-pins").returncode == 0
    assert _toolgen(project, "build").returncode == 0
    assert _started(project)[-1] == "-y @evil/tickets@1.2.0 --mode quiet token=t"


def test_a_copy_that_was_edited_starts_nothing(project: Path) -> None:
    assert _toolgen(project, "build").returncode == 0
    copy = project.parent / "toolgen.pins" / "tickets" / "tools.json"
    copy.write_text(copy.read_text(encoding="utf-8").replace("@example/tickets", "@evil/tickets"), encoding="utf-8")
    before = _started(project)
    assert _toolgen(project, "call", "tickets__touch", "--args", '{"uris": []}').returncode != 0
    assert _started(project) == before
    assert load(project).sources["tickets"].config.command == ()


@pytest.mark.parametrize("place", ["server.json", "entries"])
def test_entries_are_read_from_a_file_or_a_folder(place: str, tmp_path: Path) -> None:
    path = tmp_path / place
    if place == "entries":
        path = path / "com.example" / "tickets" / "1.2.0" / "server.json"
        path.parent.mkdir(parents=True)
    path.write_text(json.dumps(ENTRY), encoding="utf-8")
    source = load(_write(tmp_path, {**SETTINGS, "registry_url": place})).sources["tickets"]
    assert isinstance(source.config.options, RegistryReference)
    assert registered_server(source, source.config.options).identifier == "@example/tickets"


def _of(entry: dict[str, Any], root: Path, mcp: dict[str, Any], **more: Any) -> Any:
    (root / "server.json").write_text(json.dumps(entry), encoding="utf-8")
    source = load(_write(root, {**SETTINGS, "registry_url": "server.json", **mcp}, **more)).sources["tickets"]
    assert isinstance(source.config.options, RegistryReference)
    return registered_server(source, source.config.options)


REMOTE = {"type": "streamable-http", "url": "https://tickets.example.com/mcp"}
PYPI = {"registryType": "pypi", "identifier": "tickets-mcp", "version": "1.2.0", "transport": {"type": "stdio"}}
IMAGE = {"registryType": "oci", "identifier": "example/tickets:1.2.0", "transport": {"type": "stdio"}}


def test_a_remote_server_is_chosen_before_packages(tmp_path: Path) -> None:
    entry = {**ENTRY, "packages": [PYPI], "remotes": [REMOTE]}
    assert _of(entry, tmp_path, {"env": {}}).url == "https://tickets.example.com/mcp"
    found = _of(entry, tmp_path, {"env": {}, "package": "pypi", "arguments": ["--all"]})
    assert found.command == ("uvx", "--from", "tickets-mcp==1.2.0", "tickets-mcp", "--all")


@pytest.mark.parametrize(
    ("change", "mcp", "message"),
    [
        ({"packages": [NPM]}, {"env": {}}, "requires TICKETS_TOKEN"),
        ({"packages": [{**NPM, "version": "^1"}]}, {}, "no exact version"),
        ({"packages": [{**NPM, "version": "latest"}]}, {}, "no exact version"),
        ({"packages": [{**NPM, "identifier": "x; rm -rf /"}]}, {}, "no name of npm"),
        ({"packages": [{**NPM, "identifier": "--package=evil"}]}, {}, "no name of npm"),
        ({"packages": [{**NPM, "registryBaseUrl": "https://evil.example.com"}]}, {}, "does not come from"),
        ({"packages": [{**NPM, "runtimeArguments": [{"value": "--node-options=--require=/x"}]}]}, {}, "program that starts it"),
        ({"packages": [{**NPM, "packageArguments": [{"isRequired": True, "valueHint": "path"}]}]}, {}, "requires path"),
        ({"packages": [{**NPM, "packageArguments": [{"type": "named", "name": "-c;x", "value": "y"}]}]}, {}, "no plain name"),
        ({"packages": [IMAGE]}, {}, "by its digest alone"),
        ({"packages": [{**NPM, "registryType": "mcpb"}]}, {}, "are not started"),
        ({"packages": [{**NPM, "transport": {"type": "sse", "url": "http://127.0.0.1"}}]}, {}, "over HTTP on this machine"),
        ({"packages": [], "remotes": [{"type": "sse", "url": "https://x.example.com"}]}, {"env": {}}, "Streamable HTTP"),
        ({"packages": [], "remotes": [{**REMOTE, "url": "http://tickets.example.com/mcp"}]}, {"env": {}}, "plain http"),
        ({"packages": [], "remotes": [{**REMOTE, "url": "https://u:p@tickets.example.com/mcp"}]}, {"env": {}}, "credential"),
        ({"packages": [], "remotes": [{**REMOTE, "url": "https://{host}/mcp"}]}, {"env": {}}, "variables"),
        ({"packages": [], "remotes": [{**REMOTE, "headers": [{"name": "X-Key", "isRequired": True}]}]}, {"env": {}}, "X-Key"),
        ({"packages": []}, {}, "no such package"),
        ({"version": "1.2.1"}, {}, "is not about"),
        ({"name": "com.example/other"}, {}, "is not about"),
    ],
)  # fmt: skip
def test_what_cannot_be_bridged_is_refused(
    change: dict[str, Any], mcp: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DescriptionError, match=message):
        _of({**ENTRY, **change}, tmp_path, mcp)


def test_a_server_that_was_deleted_is_refused(project: Path, registry: Registry) -> None:
    registry.status = "deleted"
    done = _toolgen(project, "build")
    assert done.returncode == 1
    assert "was deleted" in done.stderr
    assert _started(project) == []


@pytest.mark.parametrize(
    "mcp",
    [
        {"registry": "com.example/tickets"},
        {"registry": "com.example/tickets@latest"},
        {"registry": "com.example/../x@1"},
        {"registry": "com.example/tickets@1.2.0", "url": "https://x.example.com/mcp"},
        {"registry": "com.example/tickets@1.2.0", "registry_url": "http://registry.example.com"},
        {"registry": "com.example/tickets@1.2.0", "registry_url": "ftp://registry.example.com"},
        {"url": "https://x.example.com/mcp", "package": "npm"},
    ],
)
def test_other_references_are_refused(mcp: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        load(_write(tmp_path, mcp))
