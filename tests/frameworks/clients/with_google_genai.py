"""Google's Gen AI SDK: an MCP session as tool, with a scripted Gemini behind its HTTP client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from google import genai
from google.genai import types
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult

from tests.frameworks.clients.client import PATIENCE_S, Endpoint, Given, Toolbox, run, text


class Gemini(httpx2.AsyncBaseTransport):
    """Gemini's API: answers with the call that is next, and keeps the requests."""

    def __init__(self) -> None:
        self.turn: list[dict[str, Any]] = []
        self.request: dict[str, Any] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.request = json.loads(await request.aread())
        part = {"functionCall": self.turn.pop()} if self.turn else {"text": "done"}
        body = {"candidates": [{"content": {"role": "model", "parts": [part]}}]}
        return httpx2.Response(200, json=body)


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Toolbox]:
    async def person(_context: Any, params: Any) -> ElicitResult:
        endpoint.questions.append(params.message)
        return ElicitResult(action="accept", content={"approve": endpoint.agrees})

    gemini = Gemini()
    options = types.HttpOptions(httpx_async_client=httpx2.AsyncClient(transport=gemini))
    models = genai.Client(api_key="none", http_options=options).aio.models
    async with (
        httpx2.AsyncClient(headers=endpoint.headers, timeout=PATIENCE_S) as http,
        streamable_http_client(endpoint.url, http_client=http) as (reading, writing),
        ClientSession(reading, writing, elicitation_callback=person if endpoint.asks else None) as session,
    ):
        await session.initialize()
        config: Any = {"tools": [session]}  # a GenerateContentConfig is copied deeply, which no session can be

        async def turn() -> dict[str, Any]:
            await models.generate_content(model="gemini-2.5-pro", contents="go", config=config)
            return gemini.request

        async def call(name: str, arguments: dict[str, Any]) -> Given:
            gemini.turn.append({"name": name, "args": arguments})
            parts = (await turn())["contents"][-1]["parts"]
            answer = next(part["functionResponse"]["response"] for part in parts if "functionResponse" in part)
            return [text(answer)], "error" in answer

        declared = [one for tool in (await turn())["tools"] for one in tool["functionDeclarations"]]
        yield Toolbox(schemas={one["name"]: one for one in declared}, call=call)


if __name__ == "__main__":
    run(connect, "google-genai")
