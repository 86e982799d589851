"""A gateway that stops while a call waits for the answer of an MCP client: the call ends at once, and its client is told."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx

from tests.gateway.clients import listening
from tests.gateway.test_caller_requests import recorded
from tests.gateway.test_questions_over_rest import FUNCTIONS, POLICY
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

_INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "client", "version": "1"},
}


async def test_a_client_that_is_asked_gets_the_end_of_its_call(tmp_path: Path) -> None:
    (tmp_path / "stopping_questions.py").write_text(FUNCTIONS, encoding="utf-8")
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "p.yaml").write_text(json.dumps(POLICY), encoding="utf-8")
    settings = {"sources": {"cup": {"python": "stopping_questions"}}, "audit": {"dir": "audit"}}
    (tmp_path / "toolgen.yaml").write_text(json.dumps(settings), encoding="utf-8")
    headers = {"authorization": "Bearer key-of-bot", "accept": "application/json, text/event-stream"}
    async with (
        Gateway.load(tmp_path / "toolgen.yaml") as gateway,
        listening(App(gateway)) as url,
        httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as http,
        asyncio.timeout(30),
    ):

        def message(method: str, params: object, number: int = 1) -> dict[str, object]:
            return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}

        begun = await http.post("/mcp", json=message("initialize", _INITIALIZE))
        http.headers.update({"mcp-protocol-version": "2025-11-25", "mcp-session-id": begun.headers["mcp-session-id"]})
        call = message("tools/call", {"name": "cup__order", "arguments": {}}, 2)
        answers = []
        async with http.stream("POST", "/mcp", json=call) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: {"):
                    answers.append(json.loads(line.removeprefix("data: ")))
                    if answers[-1].get("method") == "elicitation/create":
                        began = asyncio.get_running_loop().time()
                        gateway.operations.leave()
        assert asyncio.get_running_loop().time() - began < 5
        assert answers[-1]["id"] == 2
        assert answers[-1]["result"]["isError"] is True
    (outcome,) = recorded(tmp_path, "outcome")
    assert (outcome["status"], outcome["code"]) == ("error", "handler_error")
