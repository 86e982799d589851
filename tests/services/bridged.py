"""Projects over MCP servers that really run: their toolgen.yaml, their policy, their pins, and calls of their tools."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from toolgen.config.settings import load as load_settings
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.executors import make_command_server
from toolgen.gateway.state.shared_state import WorkerSockets
from toolgen.model.result import Envelope

ROOT = Path(__file__).parents[2]
POLICY: dict[str, Any] = {
    "principals": {
        "bot": {"api_key": "sha256:" + "1" * 64, "roles": ["bot"]},
        "other": {"api_key": "sha256:" + "2" * 64, "roles": ["bot"]},
        "reader": {"api_key": "sha256:" + "3" * 64, "roles": ["reader"]},
    },
    "rules": [
        {
            "id": "all",
            "to": ["bot"],
            "tools": ["far__*"],
            "effects": ["read", "write", "destructive"],
            "verdict": "allow",
        },
    ],
    "egress": {"private_networks": "allow"},
}
# A rule about reading alone cannot stand where nothing is believed to read.
READS = {"id": "reads", "to": ["reader"], "tools": ["far__*"], "effects": ["read"], "verdict": "allow"}
READING = {**POLICY, "rules": [*POLICY["rules"], READS]}


def listed(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}, **more} for name in names]


def hostile(root: Path, *tools: dict[str, Any], **said: Any) -> list[str]:
    """The command of a hostile server that does as it is told here."""
    tell(root, tools=list(tools), **said)
    return [sys.executable, "-B", str(ROOT / "tests" / "services" / "mcp_hostile.py"), str(root / "state.json")]


def tell(root: Path, **said: Any) -> None:
    """Changes what a hostile server does, from its next message on."""
    path = root / "state.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**before, **said}), encoding="utf-8")


def calls(root: Path) -> list[str]:
    """The calls that reached a hostile server."""
    path = root / "calls"
    return path.read_text(encoding="utf-8").split() if path.exists() else []


@contextmanager
def over_http(*command: str, style: str = "http") -> Iterator[str]:
    """A server in a process of its own; gives its URL."""
    with subprocess.Popen([*command, style], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
        finally:
            process.kill()


def write_project(root: Path, policy: dict[str, Any] | None = None, **source: Any) -> Path:
    """Where toolgen.yaml is, of a project with the source `far`."""
    (root / "policies").mkdir(exist_ok=True)
    (root / "policies" / "p.yaml").write_text(json.dumps(policy or POLICY), encoding="utf-8")
    path = root / "toolgen.yaml"
    path.write_text(json.dumps({"sources": {"far": source}, "audit": {"dir": "audit"}}), encoding="utf-8")
    return path


def open_gateway(path: Path) -> AbstractAsyncContextManager[Gateway]:
    """Gateway that starts its commands itself."""
    return Gateway.load(path)


@asynccontextmanager
async def open_worker(path: Path) -> AsyncIterator[Gateway]:
    """Gateway that has its commands from another process, as one of several workers has."""
    server = make_command_server(load_settings(path).sources)
    link = await server.connect()
    try:
        async with Gateway.load(path, above=WorkerSockets(commands=link.detach())) as gateway:
            yield gateway
    finally:
        await server.close()


async def call(path: Path, name: str, arguments: dict[str, Any] | None = None, principal: str = "bot") -> Envelope:
    async with Gateway.load(path) as gateway:
        return await gateway.call(f"far__{name}", arguments or {}, principal=principal)


def manifest(root: Path) -> dict[str, Any]:
    found = json.loads((root / "generated" / "manifest.json").read_bytes())
    return {**found, "tools": {tool["name"]: tool for tool in found["tools"]}}


@asynccontextmanager
async def open_workers(path: Path) -> AsyncIterator[tuple[Gateway, Gateway]]:
    """Two gateways that have their commands from another process and know what the other relays, as two workers do."""
    server = make_command_server(load_settings(path).sources)
    links = [await server.connect() for _ in range(2)]
    try:
        async with (
            Gateway.load(path, above=WorkerSockets(commands=links[0].detach())) as one,
            Gateway.load(path, above=WorkerSockets(commands=links[1].detach())) as other,
        ):
            yield one, other
    finally:
        await server.close()
