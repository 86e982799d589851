"""Whatever a service answers, over every front end: the call ends as itself, with its id, and never as a failure of ours.

TOOLGEN_ANSWERS says how many; there are more of them where TOOLGEN_EXHAUSTIVE is set.
"""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.exhaustive import size
from tests.gateway.clients import BASE, bearer
from tests.gateway.governed import Upstream, project, upstream
from toolgen.cli.output import json_line, print_json
from toolgen.frontends.adapters.calls import text_of, whole_data
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

ANSWERS = size("TOOLGEN_ANSWERS", 30, 2000)
POLICY: dict[str, Any] = {
    "rules": [{"id": "all", "to": ["bot"], "tools": ["orders__*"], "effects": ["read", "write"], "verdict": "allow"}],
    "limits": [],
}
TOOL = "orders__send_mail"
DEEP = 60
EXAMPLES = [
    b'{"x":1e999,"id":123456789012345678901234567890}',
    b"[NaN, Infinity, -Infinity]",
    b'{"a":"\\ud800","\\udfff":1}',
    b'{"a":' * DEEP + b"1e400" + b"}" * DEEP,
    b'{"a":1,"a":2}',
    b'{"%s":1}' % (b"k" * 200_000),
    b"[" + b"9" * 5000 + b"]",
    b"[1e400," + b'"x",' * 60_000 + b"1]",
    b'{"base64":5,"media_type":[1e999]}',
    b'{"base64":"%s","media_type":"text/plain"}' % (b"A" * 200_001),
    b'{"resource":{"uri":1e999}}',
    b"-" + b"0" * 5000,
    b"",
    b"\xff\xfe\x00",
    b'"\xed\xa0\x80"',
]
Front = Callable[[httpx.AsyncClient, Gateway], Awaitable[None]]
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def made(chance: random.Random) -> bytes:
    """An answer that is nearly JSON."""
    return _value(chance, chance.choice([2, 4, 8]))


def _value(chance: random.Random, depth: int) -> bytes:
    kind = chance.randrange(10 if depth else 7)
    if kind >= 7:
        items = [_value(chance, depth - 1) for _ in range(chance.randrange(5))]
        if kind == 7:
            return b"[" + b",".join(items) + b"]"
        return b"{" + b",".join(_text(chance) + b":" + item for item in items) + b"}"
    if kind >= 5:
        return chance.choice([b"NaN", b"-Infinity", b"null", b"true", b"01", b"1.", b"'x'", b"undefined", b""])
    return _text(chance) if kind >= 3 else _number(chance)


def _number(chance: random.Random) -> bytes:
    digits = str(chance.randrange(10 ** chance.choice([1, 9, 17, 20, 40, 400])))
    exponent = chance.choice(["", "", "e5", "e-400", "e308", "E309", "e999999"])
    return f"{chance.choice(['', '-'])}{digits}{chance.choice(['', '.0', '.5'])}{exponent}".encode()


def _text(chance: random.Random) -> bytes:
    pieces = [
        "a",
        "base64",
        "data",
        "errors",
        "resource",
        "\\ud83d",
        "\\udca9",
        "\\u0000",
        "é",
        "\u202e",
        "</x>",
        "\\n",
        "k" * 300,
    ]
    return b'"' + "".join(chance.choice(pieces) for _ in range(chance.randrange(4))).encode() + b'"'


async def rest(http: httpx.AsyncClient, _: Gateway) -> None:
    answer = await http.post(f"/v1/tools/{TOOL}/call", json={"arguments": {}})
    envelope = msgspec.json.decode(answer.content)
    assert (answer.status_code, envelope["status"]) == (200, "ok"), envelope
    assert envelope["call_id"]


async def batch(http: httpx.AsyncClient, _: Gateway) -> None:
    forms: list[dict[str, Any]] = [
        {"type": "tool_call", "id": "1", "name": TOOL, "args": {}},
        {"type": "tool_use", "id": "2", "name": TOOL, "input": {}},
        {"type": "function_call", "call_id": "3", "name": TOOL, "arguments": "{}"},
        {"type": "function", "id": "4", "function": {"name": TOOL, "arguments": "{}"}},
    ]
    answer = await http.post("/v1/tool_calls", json=forms)
    first, second, *rest = msgspec.json.decode(answer.content)
    assert (answer.status_code, first["status"], second["is_error"], len(rest)) == (200, "success", False, 2)


async def _mcp(http: httpx.AsyncClient, headers: dict[str, str], meta: dict[str, Any]) -> None:
    params = {"name": TOOL, "arguments": {}, "_meta": {**meta, "toolgen/envelope": True}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"accept": "application/json, text/event-stream", **headers}
    answer = await http.post("/mcp", json=message, headers=headers)
    result = msgspec.json.decode(answer.content)["result"]
    assert (answer.status_code, result["isError"]) == (200, False), result
    assert result["_meta"]["toolgen/envelope"]["call_id"]


async def mcp_handshake(http: httpx.AsyncClient, _: Gateway) -> None:
    await _mcp(http, {"mcp-protocol-version": "2025-11-25", "mcp-session-id": "0" * 32}, {})


async def mcp_stateless(http: httpx.AsyncClient, _: Gateway) -> None:
    named = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": TOOL}
    await _mcp(http, named, META)


async def command_line(_: httpx.AsyncClient, gateway: Gateway) -> None:
    envelope = await gateway.call(TOOL, {}, principal="bot")
    assert envelope.status == "ok"
    print_json(envelope.to_dict())
    print_json(envelope.data)
    msgspec.json.decode(json_line(envelope.to_dict()))


async def adapters(_: httpx.AsyncClient, gateway: Gateway) -> None:
    envelope = await gateway.call(TOOL, {}, principal="bot")
    text_of(envelope).encode()
    json.dumps(whole_data(envelope), allow_nan=False).encode()


FRONTS: list[Front] = [rest, batch, mcp_handshake, mcp_stateless, command_line, adapters]


@pytest.mark.sweep
@pytest.mark.parametrize("front", FRONTS, ids=lambda front: front.__name__)
async def test_an_answer_of_any_kind_ends_its_call_and_nothing_else(
    tmp_path: Path, front: Front, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    chance = random.Random(front.__name__)
    with upstream() as (seen, server):
        path = project(tmp_path, server, POLICY)
        await _fuzzed(path, seen, front, [*EXAMPLES, *(made(chance) for _ in range(ANSWERS))])
    capsysbinary.readouterr().out.decode()


async def _fuzzed(path: Path, seen: Upstream, front: Front, answers: list[bytes]) -> None:
    async with Gateway.load(path) as gateway:
        transport = httpx.ASGITransport(App(gateway))
        async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=bearer("key-of-bot")) as http:
            for answer in answers:
                seen.body = answer
                try:
                    await front(http, gateway)
                except Exception as error:
                    raise AssertionError(answer[:200]) from error
