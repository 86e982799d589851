"""Reads of prompts and resources, and completions, that take long at a bridged server: progress and log messages reach the client, and the
server hears that the client cancelled. In every style of the server and of the client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import runner
from tests.connectors.mcp.test_bad_input import source, tell
from tests.frontends.mcp.peers import OldPeer, Peer, close_peers
from tests.gateway.clients import listening
from tests.gateway.test_caller_requests import policy, recorded, until
from tests.gateway.test_sessions_at_workers import done
from tests.services.bridged import write_project
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

REQUESTS: dict[str, dict[str, Any]] = {
    "tools/call": {"name": "far__act", "arguments": {}},
    "prompts/get": {"name": "far__letter", "arguments": {"to": "Ann"}},
    "resources/read": {"uri": "far://notes"},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "far__letter"},
        "argument": {"name": "to", "value": "A"},
    },
}
LEVEL = "io.modelcontextprotocol/logLevel"


@asynccontextmanager
async def gateway(root: Path, style: str, capfdbinary: pytest.CaptureFixture[bytes]) -> AsyncIterator[str]:
    """A gateway over a server of a style that answers only once it is told that the request is cancelled."""
    with ExitStack() as stack:
        path = write_project(
            root, policy(None, prompts=["*"], resources=["far://*"]), **source(stack, root / "far", style)
        )
        made = runner(capfdbinary)("build")
        assert made.code == 0, made.err
        tell(root / "far", **dict.fromkeys(REQUESTS, "wait"))
        async with Gateway.load(path) as here, listening(App(here)) as url:
            yield url


@pytest.mark.parametrize("style", ["stdio", "stream", "modern"])
async def test_what_takes_long_is_told_and_can_be_cancelled(
    tmp_path: Path, style: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    async with asyncio.timeout(90), gateway(tmp_path, style, capfdbinary) as url:
        for round_number, era in enumerate((OldPeer, Peer), 1):
            for method, params in REQUESTS.items():
                peer = era(url, capabilities={})
                if isinstance(peer, OldPeer):
                    await peer.open()
                    await done(peer, "logging/setLevel", level="info")
                assert await told(peer, method, params) == ["step 1", "step 2", "slow"]
                await until(lambda of=method, times=round_number: heard(tmp_path).count(f"cancelled {of}") == times)  # type: ignore[misc]
        await until(lambda: len(recorded(tmp_path, "outcome")) == 2 * len(REQUESTS))
        await close_peers()
    assert {one["status"] for one in recorded(tmp_path, "outcome")} == {"cancelled"}
    # In 2026-07-28 the end of the connection says it, and a notification would name no request.
    assert heard(tmp_path).count("notified") == (0 if style == "modern" else 2 * len(REQUESTS))


def heard(root: Path) -> list[str]:
    """What reached the server."""
    return (root / "far" / "heard").read_text(encoding="utf-8").splitlines()


async def told(peer: Peer, method: str, params: dict[str, Any]) -> list[str]:
    """What a client is told before it cancels."""
    said: list[str] = []
    body, headers = peer.written(method, params)
    meta = body["params"].setdefault("_meta", {})
    meta |= {"progressToken": "p"} | ({} if isinstance(peer, OldPeer) else {LEVEL: "info"})
    async with peer.http.stream("POST", peer.url, json=body, headers=headers) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                message = json.loads(line[6:])
                assert "params" in message, message
                said.append(message["params"].get("message") or message["params"]["data"])
            if len(said) == 3:
                break
        if isinstance(peer, OldPeer):
            off = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": body["id"]}}
            assert (await peer.http.post(peer.url, json=off, headers=headers)).status_code == 202
    return said
