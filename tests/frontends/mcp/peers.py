"""Clients of MCP's two eras as they are on the wire, for tests of what an SDK's client would hide."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

STATELESS = "2026-07-28"
STATEFUL = "2025-11-25"
TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
BOTH = "application/json, text/event-stream"
NAMED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId"),
}


async def messages(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """The messages of an answer: one, or those of its stream as they come."""
    if answer.headers["content-type"].startswith("application/json"):
        yield json.loads(await answer.aread())
        return
    async for line in answer.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line[6:])


_OPEN: list[httpx.AsyncClient] = []


async def close_peers() -> None:
    """Closes the connections of every peer of a test."""
    while _OPEN:
        await _OPEN.pop().aclose()


class Peer:
    """A client at one URL. `capabilities` are what it declares."""

    def __init__(self, url: str, who: str = "bot", capabilities: Mapping[str, Any] | None = None) -> None:
        self.http = httpx.AsyncClient(headers={"authorization": f"Bearer key-of-{who}", "accept": BOTH}, timeout=120)
        _OPEN.append(self.http)
        self.url = f"{url}/mcp"
        self.capabilities = dict(TASKS if capabilities is None else capabilities)

    def written(self, method: str, params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        meta = {
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
        }
        headers = {"mcp-protocol-version": STATELESS, "mcp-method": method}
        if method in NAMED and NAMED[method] in params:
            headers["mcp-name"] = str(params[NAMED[method]])
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        return body, headers

    @asynccontextmanager
    async def stream(self, method: str, **params: Any) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """The messages that answer a request, as they come."""
        body, headers = self.written(method, params)
        async with self.http.stream("POST", self.url, json=body, headers=headers) as answer:
            yield messages(answer)

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The result, or `{"code": …}` of the error."""
        async with self.stream(method, **params) as found:
            async for message in found:
                if message.get("id") == 1:
                    result: dict[str, Any] = message.get("result") or message["error"]
                    return result
        raise AssertionError("the request has no answer")

    async def ended(self, task_id: str) -> dict[str, Any]:
        """A task once it has ended; asks again and again, as clients do."""
        while (task := await self.ask("tasks/get", taskId=task_id))["status"] in {"working", "input_required"}:
            assert "code" not in task, task
        return task


class OldPeer(Peer):
    """A client of the handshake era."""

    def __init__(self, url: str, who: str = "bot", capabilities: Mapping[str, Any] | None = None) -> None:
        super().__init__(url, who, capabilities or {})
        self.version = STATEFUL
        self.session = ""

    async def open(self) -> dict[str, Any]:
        """Shakes hands."""
        hello = {
            "protocolVersion": self.version,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "old", "version": "1"},
        }
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
        answer = await self.http.post(self.url, json=body)
        self.session = answer.headers["mcp-session-id"]
        result: dict[str, Any] = answer.json()["result"]
        return result

    def written(self, method: str, params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        headers = {"mcp-protocol-version": self.version}
        if self.session:
            headers["mcp-session-id"] = self.session
        return {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params)}, headers

    async def respond(self, question: str, result: Mapping[str, Any]) -> int:
        """Answers a question of the server; the status of that."""
        body = {"jsonrpc": "2.0", "id": question, "result": dict(result)}
        headers = self.written("", {})[1]
        return (await self.http.post(self.url, json=body, headers=headers)).status_code
