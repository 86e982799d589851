"""The same call has the same answer, or the same error, by whichever protocol it came in."""

from __future__ import annotations

import io
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.frontends.contract.test_verdicts import CALLS, made, message, posted
from tests.gateway.governed import upstream
from toolgen.frontends.mcp.stdio import serve_streams
from toolgen.frontends.python.gateway import Gateway

pytestmark = pytest.mark.usefixtures("sql_processes")
VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
Told = dict[str, Any]
"""Data of an answer, or the error as text."""


def told(status: str, data: Any, error: dict[str, Any] | None) -> Told:
    if error is None:
        return {"status": status, "data": data}
    return {
        "status": status,
        "error": f"{error['code']}: {error['message']}",
        "suggestion": error.get("suggestion", ""),
    }


async def in_process(gateway: Gateway, name: str, arguments: dict[str, Any]) -> Told:
    found = (await gateway.call(name, arguments, principal="bot")).to_dict()
    return told(found["status"], found.get("data"), found.get("error"))


async def over_rest(gateway: Gateway, name: str, arguments: dict[str, Any]) -> Told:
    found = await posted(gateway, f"/v1/tools/{name}/call", {"arguments": arguments})
    return told(found["status"], found.get("data"), found.get("error"))


def of_mcp(answer: dict[str, Any]) -> Told:
    result = answer["result"]
    text = "".join(block["text"] for block in result["content"])
    if not result["isError"]:
        data = result.get("structuredContent")
        left_out, _, rest = text.partition("\n")  # what was left out of the arguments is told before the data
        written = rest if left_out.startswith("[") and left_out.endswith("]") else text
        return {"status": "ok", "data": json.loads(written) if data is None else data}
    first, _, rest = text.partition("\n")
    return {"error": first, "suggestion": rest.removeprefix("What to do: ")}


def over_mcp(version: str) -> Callable[[Gateway, str, dict[str, Any]], Awaitable[Told]]:
    async def ask(gateway: Gateway, name: str, arguments: dict[str, Any]) -> Told:
        meta: dict[str, Any] = {}
        headers = {"mcp-protocol-version": version}
        if version == "2026-07-28":
            meta = {
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            headers |= {"mcp-method": "tools/call", "mcp-name": name}
        return of_mcp(await posted(gateway, "/mcp", message(name, arguments, _meta=meta), **headers))

    return ask


async def over_stdio(gateway: Gateway, name: str, arguments: dict[str, Any]) -> Told:
    sink, source = io.BytesIO(), io.BytesIO(msgspec.json.encode(message(name, arguments)) + b"\n")
    await serve_streams(gateway, gateway.principal("bot"), source, sink)
    return of_mcp(msgspec.json.decode(sink.getvalue()))


FRONTS = {"rest": over_rest, "stdio": over_stdio, **{version: over_mcp(version) for version in VERSIONS}}


@pytest.mark.parametrize("case", [case for case in CALLS if case not in {"asked", "repaired"}])
async def test_an_answer_is_the_same_by_every_protocol(case: str, tmp_path: Path) -> None:
    name, arguments = CALLS[case]
    with upstream() as (seen, server):
        seen.body = b'{"list": [1, 2.5, null], "text": "\\u00e9\\u2028", "deep": {"yes": true}}'
        async with Gateway.load(made(tmp_path / "p", server)) as gateway:
            expected = await in_process(gateway, name, arguments)
            found = {front: await ask(gateway, name, arguments) for front, ask in FRONTS.items()}
    for front, one in found.items():
        assert one == {part: value for part, value in expected.items() if part in one}, front
        assert ("error" in one) == ("error" in expected), front
